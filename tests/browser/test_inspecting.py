"""A run looked into: prompts, times, and what moves while it goes on and in its replay."""

from collections.abc import Callable
from typing import Any

import pytest

from app.llm.chat import chat_model
from tests import fakes
from tests.app.serving import Serve, Serving
from tests.browser.page import Page
from tests.loopback.openai import MODEL, OPENAI_KEY, OpenAIServer
from tests.umbra import ENGLISH, TOWER, rejecting

pytestmark = pytest.mark.browser

Open = Callable[[str], Page]

STAYS, LIES, LAST = "The tower is red [1]. ", "It is made of glass [1]. ", "It stands [1]."
TRUE = "It is 87 metres tall [1]. "
REPLAYED = """
const [stops, done] = arguments;
const all = (css) => [...document.querySelectorAll(css)];
const frame = () =>
  new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
const isStrip = ({ effect }) => effect.target.matches("[data-stage=draft] .strip");
const seen = () => ({
  pieces: all("#answer .rewriting > *").map((it) => [it.className, it.textContent]),
  renewed: all("#answer .renewed").map((it) => it.textContent).join(""),
  left: all("#answer .leaves").map((it) => it.dataset.text),
  unfolded: all("#flow .found:not([hidden])").length,
  moving: document.getAnimations().filter(isStrip).length,
});
(async () => {
  const told = [];
  for (const stop of stops) {
    const scrubber = document.querySelector("#scrubber");
    scrubber.value = stop;
    scrubber.dispatchEvent(new Event("input"));
    await frame();
    told.push(seen());
  }
  done(told);
})();
"""
BARS = """
return [...document.querySelectorAll("#flow .step .bar")]
  .map((it) => it.getBoundingClientRect())
  .map(({ left, width }) => [left, width]);
"""
PROMPT = """
return [...document.querySelectorAll("#flow .prompt pre")].map((it) => it.textContent);
"""


def replayed(page: Page, *stops: int) -> list[Any]:
    """What is seen of the answer and the flow after so many events, one after the other."""
    return list(page.driver.execute_async_script(REPLAYED, stops))


def number_of(serving: Serving, page: Page, name: str, step: str, phase: str = "") -> int:
    """How many events have come with the last such one."""
    events = serving.client.get(f"/runs/{page.run_id()}").json()["events"]
    return 1 + max(
        it["number"]
        for it in events
        if it["name"] == name
        and it["data"].get("step", step) == step
        and it["data"].get("phase", phase) == phase
    )


def test_a_step_shows_its_prompt_and_its_time(
    open_page: Open, serve: Serve, openai_server: OpenAIServer
) -> None:
    chat = chat_model(openai_server.base_url, OPENAI_KEY, MODEL)
    parts = fakes.services(fakes.FakeRetriever([TOWER]), chat=chat, critic=fakes.FakeCritic())
    page = open_page(serve(parts).url)
    page.ask(ENGLISH)
    page.unfold()
    page.click("#flow [data-stage=draft] .step")
    page.wait(lambda: page.shown("#flow .prompt"))
    page.one("#flow .prompt summary").send_keys("\ue007")
    told = page.do(PROMPT)

    assert "\n".join(told) == openai_server.prompts[0]
    assert MODEL in page.text("#flow .prompt summary")
    assert "System" in page.text("#flow .prompt h4")
    assert f"model calls: {len(openai_server.prompts)}" in page.text("#total")
    begun = page.do(BARS)
    assert len(begun) == page.count("#flow .step") > 3
    assert begun == sorted(begun), "each stage begins behind the one before"
    assert all(width >= 3 for _, width in begun)
    assert page.axe() == []
    page.size(375)
    assert not page.shown("#flow .track"), "there is no room"


def test_a_rejected_sentence_is_struck_and_rewritten_where_it_stands(
    open_page: Open, serve: Serve
) -> None:
    # The halves come too far apart to be told as one.
    serving = serve(rejecting(STAYS + LIES + LAST, STAYS + TRUE + LAST, pause_s=0.1))
    page = open_page(serving.url)
    page.ask(ENGLISH)
    last = number_of(serving, page, "token", "")
    retracted = number_of(serving, page, "retract", "")
    end = page.do("return Number(document.querySelector('#scrubber').max)")
    before, half, whole, over = replayed(page, retracted, retracted + 1, last, end)

    assert before["pieces"] == [["waiting", STAYS], ["waiting", LIES], ["waiting", LAST]]
    assert half["pieces"] == [["same", STAYS], ["waiting", LIES], ["waiting", LAST]], (
        "half a sentence may yet become the former one"
    )
    assert whole["pieces"][:3] == [["same", STAYS], ["removed", LIES], ["added", TRUE]]
    assert over["left"] == [LIES]
    assert over["renewed"] == TRUE.replace("[1]", "1")
    assert "glass" not in page.text("#answer"), "what is gone is no part of the answer"


def test_strips_move_to_the_draft_where_motion_is_welcome(open_page: Open, serve: Serve) -> None:
    serving = serve(rejecting())
    page = open_page(serving.url)
    page.ask(ENGLISH)
    page.unfold()
    sifted = number_of(serving, page, "step", "refine", "end")
    drafted = number_of(serving, page, "step", "draft", "start")
    _, handed = replayed(page, sifted, drafted)
    assert handed["moving"] > 0
    page.click("#flow [data-stage=grade] .step")
    page.wait(lambda: page.shown("#flow .found"))
    _, still = replayed(page, drafted, drafted + 1)
    assert still["unfolded"] == 1, "what is unfolded stays so while the replay goes on"

    calm = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", calm)
    _, handed = replayed(page, sifted, drafted)
    assert handed["moving"] == 0
    assert page.count("#flow [data-stage=draft] .strip.kept") > 0
