"""The report of an evaluation in a browser: from a file without a network, and from the service."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.extensions.evaluation.report import EvaluationReport
from app.extensions.evaluation.results import results_of, times_of
from tests.app.extensions.evaluation.ten import answers, request
from tests.app.serving import Serving, wait_until
from tests.browser.page import Page

pytestmark = pytest.mark.browser


def opens_to_a_passage(page: Page) -> None:
    """One click to the question, one to its passages, one to the passage."""
    details = page.driver.find_elements("css selector", "section:last-of-type > details")
    assert details
    inner = details[0]
    for _ in range(3):
        inner.find_element("css selector", "summary").click()
        nested = inner.find_elements("css selector", ":scope > details")
        inner = nested[0] if nested else inner
    assert inner.find_element("css selector", "pre").is_displayed()
    assert page.driver.find_element("css selector", "svg[role=img]").is_displayed()
    wide = page.driver.execute_script("return document.documentElement.scrollWidth")
    assert wide <= page.driver.execute_script("return window.innerWidth")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_file_opens_without_a_network(page: Page, tmp_path: Path, language: str) -> None:
    asked, found = request(), answers()
    report = EvaluationReport(asked, found, results_of(asked, found, {}), times_of(found))
    file = tmp_path / "report.html"
    file.write_text(report.html(language), "utf-8")  # type: ignore[arg-type]
    page.driver.get("about:blank")  # what the playground has under way ends with it
    page.asked_for()
    page.driver.get(file.as_uri())
    opens_to_a_passage(page)
    assert [url for url in page.asked_for() if not url.startswith("file:")] == []


def test_the_service_shows_it_with_its_style(
    open_page: Callable[[str], Page], shipped: Serving
) -> None:
    page = open_page(shipped.url)
    variants = [{"name": "rag", "workflow": "rag"}, {"name": "crag", "workflow": "crag"}]
    rows = [{"question": "How tall is the red tower?", "answers": ["87 metres"]}]
    asked = {"questions": rows, "variants": variants}
    begun = shipped.client.post("/evaluations", json=asked).json()["evaluation_id"]
    place = f"/evaluations/{begun}"
    wait_until(lambda: shipped.client.get(place).json()["status"] == "done", 60)
    page.driver.get(f"{shipped.url}{place}/report")
    opens_to_a_passage(page)
    width = "return getComputedStyle(document.body).maxWidth"
    assert page.driver.execute_script(width) == "1080px", "its own style is let in"
    assert page.complaints() == []
