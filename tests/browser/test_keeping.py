"""What is kept: documents, runs, feedback; and what may be seen with which key."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.app.serving import Serving, wait_until
from tests.browser.page import Page
from tests.umbra import CHINESE, ENGLISH

pytestmark = pytest.mark.browser

Open = Callable[[str], Page]


def bring(page: Page, file: Path) -> None:
    """Opens the documents and chooses a file there."""
    page.click("#to-documents")
    page.wait(lambda: page.count("#document-list li") >= 4)
    page.one("#files").send_keys(str(file))
    page.wait(lambda: "added" in page.text("#upload-state"))


def test_a_document_is_brought_in_asked_about_and_deleted(page: Page, harbour: Path) -> None:
    bring(page, harbour)
    page.click("#to-ask")
    assert "nineteen" in page.ask("How long does the harbour of Lirn freeze?")
    page.click(".citation a[href^='#document=']")
    page.wait(lambda: "nineteen days" in page.text("#reader mark"))
    page.driver.switch_to.active_element.send_keys("\ue00c")
    page.wait(lambda: not page.shown("#reader"))

    page.click("#to-documents")
    page.wait(lambda: "harbour.md" in page.text("#document-list"))
    page.click("#document-list button[aria-label='Delete Harbour of Lirn']")
    assert "harbour.md" in page.text("#document-list"), "the first press only asks"
    page.click("#document-list button.sure")
    page.wait(lambda: "harbour.md" not in page.text("#document-list"))
    page.wait(lambda: page.do("return document.activeElement.id") == "document-search")
    assert page.complaints() == []


def test_a_chosen_collection_is_asked_listed_and_filled(
    page: Page, shipped: Serving, harbour: Path
) -> None:
    assert not page.shown("#collection"), "there is one alone"
    shipped.client.post("/collections", json={"name": "港口"})
    try:
        page.open()
        page.click("#collection option:nth-child(2)")
        page.click("#to-documents")
        page.wait(lambda: page.shown("#documents-empty"))
        page.one("#files").send_keys(str(harbour))
        page.wait(lambda: "harbour.md" in page.text("#document-list"))
        page.click("#to-ask")
        assert "nineteen" in page.ask("How long does the harbour of Lirn freeze?")
        page.click("#to-documents")
        page.click("#collection option:nth-child(1)")
        page.wait(lambda: "tower.md" in page.text("#document-list"))
        assert "harbour.md" not in page.text("#document-list")
        assert page.complaints() == []
    finally:
        shipped.client.delete("/collections/港口")


HOLD = """
const fetched = window.fetch;
window.fetch = async (url, init) => {
  if (!String(url).includes("documents?q=&")) return fetched(url, init);
  await new Promise((release) => { window.release = release; });
  return fetched(url, init).finally(() => { window.settled = true; });
};
"""


def test_a_late_list_does_not_take_the_place_of_a_later_one(page: Page) -> None:
    page.do(HOLD)
    page.click("#to-documents")
    page.wait(lambda: page.do("return Boolean(window.release)"))
    page.one("#document-search").send_keys("bread")
    page.wait(lambda: page.count("#document-list li") == 2)
    page.do("window.release()")
    page.wait(lambda: page.do("return window.settled"))
    time.sleep(0.3)
    assert page.count("#document-list li") == 2
    assert page.complaints() == []


def test_what_a_hostile_document_says_is_text(page: Page, hostile: Path) -> None:
    bring(page, hostile)
    page.click("#to-ask")
    answer = page.ask("How much does the obelisk of Quor weigh?")
    page.click(".cite")
    for step in page.all(".step"):
        page.do("arguments[0].click()", step)

    assert "412 tonnes" in answer
    assert page.do("return window.harmed") is None
    assert page.count("main img, main script, main iframe") == 0
    assert page.do(
        "return [...document.links].every((it) => /^https?:$/.test(new URL(it.href).protocol))"
    )
    assert page.complaints() == []
    assert [url for url in page.asked_for() if not url.startswith((page.url, "data:"))] == []

    page.click("#to-documents")
    page.wait(lambda: "Quor" in page.text("#document-list"))
    assert page.do("return window.harmed") is None


def test_two_runs_are_compared(page: Page) -> None:
    page.ask(ENGLISH)
    first = page.run_id()
    page.unfold_options()
    page.one("#option-retrieve_k").send_keys("2")
    page.start(CHINESE)
    page.wait(lambda: page.run_id() != first and page.ended())
    page.click("#to-runs")
    page.wait(lambda: page.count("#run-list li") >= 2)
    assert not page.one("#compare").is_enabled()
    for box in page.all("#run-list input")[:2]:
        box.click()
    page.wait(lambda: page.one("#compare").is_enabled())
    page.click("#compare")
    page.wait(lambda: page.shown("#diff h3"))

    assert "options.retrieve_k" in page.text("#diff")
    assert page.count("#diff del") >= 1
    assert page.count("#diff ins") >= 1


def test_runs_are_looked_for_and_evaluations_begun(page: Page, tmp_path: Path) -> None:
    page.ask(ENGLISH)
    page.click("#to-runs")
    page.one("#run-search").send_keys("no such question")
    page.wait(lambda: page.shown("#runs-empty"))
    page.one("#run-search").clear()
    page.one("#run-search").send_keys("red tower")
    page.click("#run-verdict option[value=supported]")
    page.wait(lambda: page.count("#run-list li") == page.count("#run-list .chip.supported") >= 1)

    questions = tmp_path / "questions.jsonl"
    questions.write_text(f'{{"question": "{ENGLISH}", "answer": "87 metres"}}\n', "utf-8")
    page.click("#to-evaluations")
    page.one("#evaluation-file").send_keys(str(questions))
    page.click("#evaluation-form button")
    page.wait(lambda: page.count("#evaluation-list a[href*='/report']") == 1)
    assert page.complaints() == []


def test_own_questions_are_labelled_and_evaluated(page: Page, shipped: Serving) -> None:
    page.click("#to-evaluations")
    for question, choice in (
        (ENGLISH, "li:has(.text) button"),
        ("Who composed the anthem of Lirn?", "> .line > button"),
    ):
        page.one("#label-question").send_keys(question)
        page.click("#label-form button")
        page.wait(lambda: page.count("#label-passages li .text") > 0)
        if question == ENGLISH:
            words = "#label-passages li:first-child .text"
            page.do("getSelection().selectAllChildren(document.querySelector(arguments[0]))", words)
        page.click(f"#label-passages {choice}")
        page.wait(lambda: page.count("#label-passages li") == 0)
    assert "With an answer: 1, without: 1." in page.text("#label-count")
    page.driver.refresh()
    page.wait(lambda: "without: 1. 18 more" in page.text("#label-count"))

    known = {it["evaluation_id"] for it in shipped.client.get("/evaluations").json()["evaluations"]}
    page.click("#label-evaluate")
    page.wait(lambda: page.text("#evaluation-list li:first-child b") == "Label your own questions")
    page.wait(lambda: page.count("#evaluation-list li:first-child a[href*='calibrate=true']") == 1)
    listed = shipped.client.get("/evaluations").json()["evaluations"]
    (begun,) = {it["evaluation_id"] for it in listed} - known
    results = shipped.client.get(f"/evaluations/{begun}").json()["results"]
    assert results["questions"]["all"] == 2
    page.click("#label-empty")
    assert "With an answer: 0" in page.text("#label-count")
    assert page.complaints() == []


def test_two_evaluations_are_compared(page: Page, shipped: Serving) -> None:
    for answer in ("12 metres", "87 metres"):
        rows = [{"question": ENGLISH, "answer": answer}]
        variants = [{"name": "crag", "workflow": "crag"}]
        asked = {"name": answer, "questions": rows, "variants": variants}
        begun = shipped.client.post("/evaluations", json=asked).json()["evaluation_id"]
        place = f"/evaluations/{begun}"
        wait_until(lambda place=place: shipped.client.get(place).json()["status"] == "done", 60)
    page.click("#to-evaluations")
    for answer in ("12 metres", "87 metres"):
        assert page.one("#evaluations-compare").get_property("disabled")
        page.click(f"#evaluation-list input[aria-label*='{answer}']")
    page.click("#evaluations-compare")
    page.wait(lambda: page.shown("#comparison table"))
    assert "12 metres → 87 metres" in page.text("#comparison h2")
    assert "Contains gold 0.000 1.000 +1.000 n 1" in page.text("#comparison table")
    page.click("#comparison summary:has(.chip)")
    assert page.text("#comparison summary .chip") == "wrong → right"
    assert "87 metres" in page.text("#comparison .sides")
    assert page.axe() == []
    page.click("#language")
    page.wait(lambda: "含标准答案" in page.text("#comparison table"))
    address = page.one("#comparison a").get_attribute("href")
    report = shipped.client.get(address.removeprefix(shipped.url)).text
    assert "与基线比较" in report
    assert page.complaints() == []


def test_feedback_is_kept_with_the_run(page: Page, shipped: Serving) -> None:
    page.ask(ENGLISH)
    page.click("#feedback .question button:last-of-type")
    page.one("#corrected").send_keys("87 metres.")
    page.click("#feedback form button")
    page.wait(lambda: page.shown(".thanks"))

    (kept,) = shipped.client.get(f"/runs/{page.run_id()}").json()["feedback"]
    assert (kept["score"], kept["corrected_answer"]) == (-1, "87 metres.")
    page.driver.refresh()
    page.wait(lambda: "87 metres." in page.text("#feedback"))
