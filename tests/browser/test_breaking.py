"""The page where connections break, answers come late, and keys open nothing."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.settings import Settings
from app.storage.api_keys import Scope
from tests import fakes
from tests.app.keys import key_of
from tests.app.serving import Serve, Serving
from tests.browser.page import Page, stopping
from tests.umbra import CHINESE, ENGLISH, TOWER

pytestmark = pytest.mark.browser

Open = Callable[[str], Page]
METRICS: tuple[Scope, ...] = ("metrics",)
WHOLE = "It is 87 metres tall"
# Connections that can be cut, gateways that refuse, answers that are held; waits are shorter.
BETWEEN = """
const fetched = window.fetch, later = window.setTimeout;
window.setTimeout = (work, ms) => later(work, ms / 20);
Object.assign(window, { refusals: 0, held: "nothing", sent: [] });
window.fetch = async (url, init) => {
  window.sent.push([String(url), init?.body ?? ""]);
  if (String(url).endsWith("/events") && window.refusals-- > 0) return new Response("", { status: 502 });
  if (String(url).includes(window.held)) await new Promise((release) => { window.release = release; });
  const response = await fetched(url, init);
  if (url !== "ask") return response;
  window.cut = new AbortController();
  const { signal } = window.cut;
  return new Response(response.body.pipeThrough(new TransformStream(), { signal }), response);
};
"""  # noqa: E501


def go(page: Page, place: str) -> None:
    page.do("location.hash = arguments[0]", place)


def speak_chinese(page: Page) -> None:
    page.click("#language")
    page.wait(lambda: page.text("#ask") == "提问")


def test_a_live_run_is_followed_past_a_gateway_that_refuses(open_page: Open, serve: Serve) -> None:
    """Also where the page is loaded again meanwhile."""
    page = open_page(serve(stopping(6)).url)
    page.start(ENGLISH)
    page.wait(lambda: "It is 87" in page.text("#answer"))
    run = page.run_id()
    page.driver.refresh()
    page.wait(lambda: "It is 87" in page.text("#answer"))
    assert not page.ended()
    page.open("/#runs")
    page.do(BETWEEN)
    page.do("window.refusals = 2")
    go(page, f"run={run}")
    page.wait(page.ended)
    assert page.text("#answer").startswith(WHOLE)


def test_an_answer_is_fetched_after_a_break(open_page: Open, serve: Serve) -> None:
    page = open_page(serve(stopping(3)).url)
    page.do(BETWEEN)
    page.start(ENGLISH)
    page.wait(lambda: "It is 87" in page.text("#answer"))
    page.do("window.refusals = 2; window.cut.abort()")
    page.wait(page.ended)
    assert page.text("#answer").startswith(WHOLE)
    assert not page.shown("#failed")


def test_a_run_that_cannot_be_reached_is_not_called_ended(open_page: Open, serve: Serve) -> None:
    page = open_page(serve(stopping(3)).url)
    page.do(BETWEEN)
    page.start(CHINESE)
    page.wait(lambda: "It is 87" in page.text("#answer"))
    run = page.run_id()
    page.do("window.refusals = 99; window.cut.abort()")
    page.wait(lambda: page.shown("#failed"))
    assert "reload" in page.text("#failed")
    speak_chinese(page)
    page.wait(lambda: "重新加载" in page.text("#failed"))

    page.do("window.refusals = 0")
    go(page, "runs")
    page.wait(lambda: page.count("#run-list li") > 0)
    page.click(f"#run-list li[data-run='{run}'] a")
    page.wait(lambda: WHOLE in page.text("#answer") and page.ended())
    assert not page.shown("#failed")


def test_a_cancelled_run_shows_what_there_is_and_its_time(open_page: Open, serve: Serve) -> None:
    def took() -> float:
        return float(re.findall(r"([\d.]+) s\b", page.text("#state"))[0])

    page = open_page(serve(stopping(30)).url)
    page.start(ENGLISH)
    page.wait(lambda: "It is 87" in page.text("#answer"))
    time.sleep(2)
    page.one("#cancel").send_keys("\ue00c")
    page.wait(page.ended)
    assert "cancelled" in page.text("#state")
    assert took() >= 2
    page.unfold()
    page.click("#facts-card summary")
    assert page.text("#facts").count("cancelled") == 1
    live = took()
    page.driver.refresh()
    page.wait(lambda: " s" in page.text("#state"))
    assert took() == pytest.approx(live, abs=1)


def test_a_late_run_does_not_take_the_place_of_a_later_one(page: Page) -> None:
    page.ask(ENGLISH)
    first = page.run_id()
    page.start(CHINESE)
    page.wait(lambda: page.run_id() != first and page.ended())
    second = page.run_id()
    page.open("/#runs")
    page.do(BETWEEN)
    page.do("window.held = arguments[0]", f"runs/{first}")
    go(page, f"run={first}")
    page.wait(lambda: page.do("return Boolean(window.release)"))
    go(page, f"run={second}")
    page.wait(lambda: page.text("#turn-question") == CHINESE)
    page.do("window.release()")
    time.sleep(0.5)
    assert page.text("#turn-question") == CHINESE
    assert not page.shown("#trouble")


def test_a_run_is_cancelled_before_its_name_has_come(open_page: Open, serve: Serve) -> None:
    service = serve(stopping(30))
    page = open_page(service.url)
    page.do(BETWEEN)
    page.do("window.held = 'ask'")
    page.start(ENGLISH)
    page.wait(lambda: page.do("return Boolean(window.release)"))
    page.click("#cancel")
    page.do("window.release()")
    page.wait(page.ended)
    assert "cancelled" in page.text("#state")
    assert service.client.get(f"/runs/{page.run_id()}").json()["status"] == "cancelled"


def test_a_question_that_is_left_at_once_keeps_the_conversation(page: Page) -> None:
    page.ask(ENGLISH)
    page.do(BETWEEN)
    page.do("window.held = 'ask'")
    page.start("And who built it?")
    page.wait(lambda: page.do("return Boolean(window.release)"))
    page.click("#cancel")
    assert "ancelling" in page.text("#state")
    page.click("#cancel")
    page.wait(lambda: page.shown("#ask"))
    page.do("window.held = 'nothing'")
    assert page.shown("#thread")
    page.start("And who built it?")
    page.wait(page.ended)
    assert "thread_id" in page.do("return window.sent.findLast(([url]) => url === 'ask')[1]")


def test_a_question_too_long_is_told_so(page: Page) -> None:
    page.one("#question").click()
    page.driver.execute_cdp_cmd("Input.insertText", {"text": "长" * 8005})
    page.one("#question").send_keys("\ue007")
    page.wait(lambda: "8005" in page.text("#failed"))
    speak_chinese(page)
    page.do("document.querySelector('#ask-form').requestSubmit()")
    page.wait(lambda: "最多" in page.text("#failed"))


def test_a_key_is_asked_for_until_one_opens_something(
    open_page: Open, serve: Serve, tmp_path: Path
) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path)
    narrow, good = key_of(tmp_path, "ann", scopes=METRICS), key_of(tmp_path, "ann")
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER])), settings)
    page = open_page(serving.url)
    for secret in ("密钥", "two words", narrow):
        page.wait(lambda: page.shown("#key-form"))
        page.one("#key").clear()
        page.one("#key").send_keys(f"{secret}\ue007")
        page.wait(lambda: page.shown("#key-form") and page.shown("#trouble"))
    page.driver.refresh()
    page.wait(lambda: page.shown("#key-form"))
    page.one("#key").send_keys(f"{good}\ue007")
    page.wait(lambda: page.count("#workflow option") > 0)
    assert "87 metres" in page.ask(ENGLISH)
    assert not page.shown("#key-form")
    assert page.do("return [localStorage.length, document.cookie]") == [0, ""]


def test_another_row_is_pressed_while_one_waits_to_be_sure(page: Page) -> None:
    page.click("#to-documents")
    page.wait(lambda: page.count("#document-list button") > 1)
    first, second = page.all("#document-list button")[:2]
    first.click()
    second.click()
    assert (first.text, second.text) == ("Delete", "Delete for good?")


def test_more_pressed_twice_shows_each_run_once(page: Page, shipped: Serving) -> None:
    for number in range(35):
        shipped.ask(f"Hello {number}", workflow="rag")
    page.do(BETWEEN)
    go(page, "runs")
    page.wait(lambda: page.count("#run-list li") == 30)
    page.do("const more = document.querySelector('#runs-more'); more.click(); more.click()")
    page.wait(lambda: page.count("#run-list li") > 30)
    time.sleep(0.3)
    ids = page.do("return [...document.querySelectorAll('#run-list li')].map(it => it.dataset.run)")
    assert len(ids) == len(set(ids))


def test_the_focus_stays_with_what_can_be_pressed(open_page: Open, serve: Serve) -> None:
    def at() -> str:
        return str(page.do("return document.activeElement.id"))

    page = open_page(serve(stopping(30)).url)
    page.one("#question").send_keys(ENGLISH)
    page.one("#ask").send_keys("\ue007")
    page.wait(lambda: at() == "cancel" and "It is 87" in page.text("#answer"))
    page.one("#cancel").send_keys("\ue007")
    page.wait(page.ended)
    assert at() == "ask"


def test_good_is_kept_once(page: Page, shipped: Serving) -> None:
    page.ask(ENGLISH)
    page.wait(lambda: page.count("#feedback button") > 1)
    page.do("const good = document.querySelector('#feedback button'); good.click(); good.click()")
    page.wait(lambda: page.shown(".thanks"))
    time.sleep(0.3)
    assert len(shipped.client.get(f"/runs/{page.run_id()}").json()["feedback"]) == 1


def test_a_comparison_of_nothing_shows_the_runs(page: Page) -> None:
    go(page, "diff")
    page.wait(lambda: page.shown("#runs-view"))
    time.sleep(0.3)
    assert not page.shown("#trouble")


def test_workflows_and_reasons_are_told_in_chinese(open_page: Open, serve: Serve) -> None:
    page = open_page(serve(stopping(30)).url)
    speak_chinese(page)
    page.click("#options summary")
    page.wait(lambda: "起草" in page.text("#workflow-about"))
    page.click("#options summary")
    page.start(CHINESE)
    page.wait(lambda: "It is 87" in page.text("#answer"))
    page.click("#cancel")
    page.wait(page.ended)
    page.wait(lambda: page.count("#retracted summary") > 0)
    page.unfold()
    assert "已取消" in page.text("#retracted summary")
