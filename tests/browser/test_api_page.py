"""The page of the API: what it lists, its forms tried, and that nothing comes from elsewhere."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.main import create_app
from app.settings import Settings
from tests.app.keys import key_of
from tests.app.serving import Serving
from tests.browser.page import Page
from tests.umbra import ENGLISH

pytestmark = pytest.mark.browser
Open = Callable[[str], Page]


def opened(page: Page, operation: str) -> None:
    page.click(f"#{operation} > summary")
    page.wait(lambda: page.shown(f"#{operation} form"))


def sent(page: Page, operation: str) -> str:
    """What is shown once the answer is whole."""
    page.click(f"#{operation} form .primary")
    page.wait(lambda: page.shown(f"#{operation} .told"))
    page.wait(lambda: not page.one(f"#{operation} form button[type='button']").is_enabled())
    return page.text(f"#{operation} .told")


def typed(page: Page, css: str, text: str) -> None:
    page.do("arguments[0].value = arguments[1]", page.one(css), text)


def test_every_operation_is_listed_and_can_be_tried(
    open_page: Open, shipped: Serving, tmp_path: Path
) -> None:
    page = open_page(shipped.url)
    page.asked_for()
    page.driver.get(f"{shipped.url}/docs")
    page.wait(lambda: page.count(".operation") > 0)
    described = shipped.app.openapi()["paths"]
    assert page.count(".operation") == sum(len(methods) for methods in described.values())

    opened(page, "post-ask")
    body = f'{{"question": "{ENGLISH}", "workflow": "crag"}}'
    typed(page, "#post-ask-body", body)
    told = sent(page, "post-ask")
    assert told.startswith("HTTP 200 application/json")
    assert "87" in told
    typed(page, "#post-ask-body", body[:-1] + ', "stream": true}')
    assert "event: done" in sent(page, "post-ask")
    typed(page, "#post-ask-body", '{"question": "How?", "options": {"upper": "<b>"}}')
    assert "HTTP 422 application/problem+json" in sent(page, "post-ask")

    opened(page, "get-runs")
    typed(page, "#get-runs-query-limit", "1")
    assert '"limit": 1,' in sent(page, "get-runs")
    opened(page, "get-runs-run_id-")
    typed(page, "#get-runs-run_id--path-run_id", "0" * 32)
    assert "HTTP 404" in sent(page, "get-runs-run_id-")
    opened(page, "post-documents")
    quay = tmp_path / "quay.md"
    quay.write_text("# Quay\n\nThe quay of Arbor is long.\n", "utf-8")
    page.one("#post-documents-form-files").send_keys(str(quay))
    assert '"quay.md"' in sent(page, "post-documents")
    page.click("#post-ask details summary")
    page.wait(lambda: '"question"' in page.text("#post-ask details pre"))

    page.one("#filter").send_keys("cancel")
    assert page.shown("#post-runs-run_id-cancel")
    assert not page.shown("#post-ask")
    assert {url.split("/docs")[0] for url in page.asked_for() if "/docs" in url} == {shipped.url}
    assert all(url.startswith((shipped.url, "data:", "about:")) for url in page.asked_for())
    assert page.axe() == []
    assert [it for it in page.complaints() if "422" not in it and "404" not in it] == []


def test_a_key_is_asked_for_and_sent(open_page: Open, tmp_path: Path) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path / "state", search="off")
    secret = key_of(tmp_path / "state", "ann")
    with Serving(create_app(settings)) as serving:
        page = open_page(serving.url)
        page.driver.get(f"{serving.url}/docs")
        page.wait(lambda: page.shown("#trouble"))
        assert "Send a key" in page.text("#trouble")
        page.one("#key").send_keys(f"{secret}\n")
        page.wait(lambda: page.count(".operation") > 0)
        opened(page, "get-collections")
        assert '"default"' in sent(page, "get-collections")


def test_a_chinese_browser_is_spoken_to_in_chinese(open_page: Open, shipped: Serving) -> None:
    page = open_page(shipped.url)
    own = "Object.defineProperty(navigator, 'language', {get: () => 'zh-CN'})"
    added = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": own})
    try:
        page.driver.get(f"{shipped.url}/docs")
        page.wait(lambda: page.count(".operation") > 0)
        opened(page, "post-search")
        assert "发送" in page.text("#post-search form")
        assert page.do("return document.documentElement.lang") == "zh-CN"
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
