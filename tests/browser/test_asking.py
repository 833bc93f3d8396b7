"""The page asked in a browser: the run is seen as it happens, and found again."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests import fakes
from tests.app.serving import Serve, Serving
from tests.browser.page import Page
from tests.umbra import CHINESE, ENGLISH, FIRST, SECOND, TOWER, rejecting

pytestmark = pytest.mark.browser

Open = Callable[[str], Page]
IN_ORDER = """
window.seen = [];
const note = (name) => window.seen.includes(name) || window.seen.push(name);
new MutationObserver(() => {
  if (document.querySelector("#flow .running")) note("a stage is lit");
  if (document.querySelector("#evidence .dot")) note("a passage is graded");
  if (document.querySelector("#answer").textContent) note("the answer begins");
}).observe(document.body, { subtree: true, childList: true, attributes: true });
"""


def test_a_question_is_answered_while_its_steps_are_seen(page: Page) -> None:
    page.do(IN_ORDER)
    assert "87" in page.ask(ENGLISH)
    assert not page.shown("#key-form")

    seen = page.do("return window.seen")
    # On a busy machine a stage may have ended before it is drawn.
    assert seen[-2:] == ["a passage is graded", "the answer begins"]
    page.unfold()
    page.click("#full-graph")
    page.wait(lambda: page.count(".node.visited"))
    visited = page.do(
        "return [...document.querySelectorAll('.node.visited')].map((it) => it.dataset.node)"
    )
    assert {"__start__", "retrieve:search", "grade", "__end__"} <= set(visited)
    assert page.count(".edge.taken") > 4
    page.do("document.querySelector('.node[data-node=grade]').focus()")
    page.driver.switch_to.active_element.send_keys("\ue007")
    assert page.count("#inspector .grade") >= 1
    page.click("#full-graph")
    assert page.count("#evidence .field .dot") >= 1
    assert page.complaints() == []
    assert [url for url in page.asked_for() if not url.startswith((page.url, "data:"))] == []


def test_a_citation_opens_its_document_beside_the_answer_with_the_quoted_words_marked(
    page: Page,
) -> None:
    page.ask(ENGLISH)
    numbers = [number.text for number in page.all(".citation .number")]
    assert numbers == [str(n) for n in range(1, len(numbers) + 1)]
    assert page.text("#sources-title") == f"{len(numbers)} source{'s' * (len(numbers) > 1)}"
    assert "The red tower › Height" in page.text(".citation")
    assert "tower.md" in page.text(".citation")
    assert "87 metres" in page.text(".citation mark")
    assert "87" in page.text("#answer blockquote")
    assert page.text("#basis").startswith("Quoted word for word.")
    assert [chip.text for chip in page.all("#turn .chip")] == ["Answered from the sources"]
    assert re.fullmatch(r"confidence: about [1-9] in 10", page.text("#confidence"))
    page.click(".cite")
    page.wait(lambda: page.shown("#reader mark"))

    assert "The red tower of Umbra is 87 metres tall." in page.text("#reader mark")
    assert "87" in page.text("#answer .lit"), "the answer stays in sight"
    page.driver.switch_to.active_element.send_keys("\ue00c")
    assert not page.shown("#reader")
    assert "cite" in page.driver.switch_to.active_element.get_attribute("class")


def test_a_step_tells_what_it_found(page: Page) -> None:
    page.ask(ENGLISH)
    assert "passages graded" in page.text("#how-brief")
    assert not page.shown("#flow"), "a thin line once it is over"
    page.click("#how > summary")
    page.click("#flow [data-stage=grade] .step")

    assert page.one("#flow [data-stage=grade] .step").get_attribute("aria-expanded") == "true"
    page.wait(lambda: "tower.md" in page.text("#flow [data-stage=grade] .found"))
    page.click("#flow .side summary")
    assert "upper threshold" in page.text("#flow .side p")


def test_sentences_that_the_critic_calls_unsupported_are_marked(
    open_page: Open, serve: Serve
) -> None:
    made_up = "It was built of glass by the sea in one night [1]."
    poor = fakes.services(
        fakes.FakeRetriever([TOWER]),
        chat=fakes.ScriptedChat(answers=[made_up]),
        critic=fakes.FakeCritic(script=[fakes.POOR]),
    )
    page = open_page(serve(poor).url)
    page.ask(ENGLISH)

    assert "glass" in page.text("#answer .doubted")
    assert page.text("#verdict") == "Unlikely to be right"


def test_a_draft_taken_back_is_struck_through(open_page: Open, serve: Serve) -> None:
    page = open_page(serve(rejecting()).url)

    assert page.ask(ENGLISH).replace("\n", "") == SECOND.replace("[1]", "1")
    assert page.do("return document.querySelector('#retracted del').textContent") == FIRST
    page.unfold()
    page.click("#flow [data-stage=reflect] .step")
    page.wait(lambda: "Say how tall." in page.text("#flow .critique"))


def test_a_follow_up_stays_in_the_conversation(page: Page, shipped: Serving) -> None:
    def thread() -> Any:
        return shipped.client.get(f"/runs/{page.run_id()}").json()["thread_id"]

    page.ask(ENGLISH)
    first = page.run_id(), thread()
    page.start("What does its keeper light at dusk?")
    page.wait(lambda: page.run_id() != first[0] and page.ended())
    assert thread() == first[1]
    assert page.text("#turns h2") == ENGLISH, "the transcript stays"
    page.driver.refresh()
    page.wait(lambda: page.text("#turns h2") == ENGLISH)

    second = page.run_id()
    page.click("#continue")
    page.start(CHINESE)
    page.wait(lambda: page.run_id() != second and page.ended())
    assert thread() != first[1]
    assert page.text("#turns") == ""


def test_changed_options_alone_are_sent(page: Page, shipped: Serving) -> None:
    page.unfold_options()
    page.one("#option-retrieve_k").send_keys("3")
    page.one("#option-filters-language").send_keys("en")
    page.do("document.querySelector('#option-ablation-grade_titles').click()")
    assert page.text("#changed") == "3 changed"
    page.ask(ENGLISH)

    request = shipped.client.get(f"/runs/{page.run_id()}").json()["request"]
    assert request["options"] == {
        "retrieve_k": 3,
        "filters": {"language": "en"},
        "ablation": {"grade_titles": False},
    }


def test_a_refused_option_is_told_at_its_field(page: Page) -> None:
    page.unfold_options()
    page.one("#option-retrieve_k").send_keys("many")
    page.one("#option-upper").send_keys("99")
    page.start(ENGLISH)
    page.wait(lambda: page.shown("#option-retrieve_k-error"))

    assert "integer" in page.text("#option-retrieve_k-error")
    assert "20" in page.text("#option-upper-error")
    assert page.count("[aria-invalid=true]") == 2
    assert page.driver.switch_to.active_element.get_attribute("id") == "option-retrieve_k"


def test_a_dragged_threshold_runs_again_from_the_grades(page: Page, shipped: Serving) -> None:
    answer = page.ask(ENGLISH)
    first = page.run_id()
    assert "evidence sufficient" in page.text("#why-brief")
    page.unfold()
    handles = [page.one(f"#evidence .handle.{name}") for name in ("upper", "lower")]
    for handle in handles:
        handle.send_keys("\ue010")  # End: beyond every grade
    page.wait(lambda: "insufficient" in page.text("#evidence .offer .action"))
    page.click("#evidence .offer button")
    page.wait(lambda: page.run_id() not in ("", first) and page.ended())

    assert "insufficient" in page.text("#why-brief")
    page.unfold()
    assert page.text("#answer") != answer
    assert "87" in page.text("#former-answer"), "the former answer stands beside it"
    assert "sufficient" in page.text("#flow [data-stage=grade] .before")
    assert "found" in page.text("#flow [data-stage=retrieve] .words"), "one flow has both"
    run = shipped.client.get(f"/runs/{page.run_id()}").json()
    assert run["request"]["from_run"]["run_id"] == first
    page.driver.refresh()
    page.wait(lambda: "87" in page.text("#former-answer"))
    page.click("#former-link")
    page.wait(lambda: "action" in page.text("#diff"))
    assert page.complaints() == []


def test_a_page_loaded_again_finds_its_run_and_goes_through_it(page: Page) -> None:
    answer = page.ask(ENGLISH)
    page.unfold()
    stages = page.text("#flow .words")
    page.driver.refresh()
    page.wait(lambda: page.text("#answer") == answer)
    page.unfold()
    assert page.text("#turn-question") == ENGLISH
    assert page.text("#flow .words") == stages

    scrubber = page.one("#scrubber")
    scrubber.send_keys("\ue011")  # Home: before its first event
    page.wait(lambda: page.text("#answer") == "")
    page.click("#play")
    events = scrubber.get_attribute("max")
    page.wait(lambda: page.text("#scrubbed").startswith(events))
    assert page.text("#answer") == answer


def test_an_answer_is_taken_along(page: Page) -> None:
    page.ask(ENGLISH)
    told = page.driver.execute_async_script(
        "const done = arguments[0], made = URL.createObjectURL;"
        "URL.createObjectURL = (it) => { it.text().then(done); return made.call(URL, it); };"
        "document.querySelector('#export').click()"
    )
    assert told.startswith(f"# {ENGLISH}")
    assert "tower.md" in told
    assert "Answered from the sources" in told


def test_every_workflow_is_drawn_whole(page: Page, shipped: Serving) -> None:
    page.ask(ENGLISH)
    page.unfold()
    page.click("#full-graph")
    page.click("#options summary")
    for workflow in shipped.client.get("/workflows?xray=1").json()["workflows"]:
        page.click(f"#workflow option[value={workflow['name']}]")
        page.wait(lambda name=workflow["name"]: name in page.label("#graph svg"))
        drawn = {it.get_attribute("data-node") for it in page.all("#graph .node")}
        text = workflow["mermaid"].replace("\\3a", ":")
        edges = [line for line in text.splitlines() if "-->" in line or "-.->" in line]

        assert drawn == {end for line in edges for end in (line.split()[0], line.split()[2][:-1])}
        assert page.count("#graph .edge") == len(edges)
        assert page.count("#graph .edge.maybe") == text.count("-.->")
        assert page.count("#graph .box") == text.count("subgraph ")
