"""What is left when a dependency fails: the run ends with an answer and says what failed."""

import pytest

from graphs.types import Degraded, Judgement
from tests import fakes
from tests.fakes import FakeChat, FakeEvaluator, FakeWebSearch
from tests.graphs.languages import EN, ZH, World, both_languages
from tests.graphs.traced import traced
from tests.graphs.workflows.test_crag import BEGINNING


async def test_without_the_index_the_web_answers() -> None:
    parts = ZH.parts()
    parts.retriever.fails = True
    trace = await parts.ask()

    assert trace.failed == ["retriever"]
    assert trace.output["degraded"][0].reason == "the index is gone"
    assert (trace.output["action"], trace.output["stopped_by"]) == ("incorrect", "answered")
    assert trace.output["citations"][0].source == ZH.url


@pytest.mark.parametrize(
    ("workflow", "failed"), [("rag", ["retriever"]), ("self_rag", ["retriever", "web_search"])]
)
async def test_without_index_and_web_it_knows_nothing(workflow: str, failed: list[str]) -> None:
    parts = EN.parts(
        web=FakeWebSearch(fails=True), chat=fakes.ScriptedChat(), critic=fakes.FakeCritic()
    )
    parts.retriever.fails = True
    trace = await traced(parts.services, EN.question, workflow)

    assert (trace.failed, trace.answer) == (failed, EN.unknown)
    assert trace.output["stopped_by"] == "no_evidence"


async def test_without_grades_there_is_no_action_and_no_web() -> None:
    parts = EN.parts(EN.full, evaluator=FakeEvaluator(fails_from_call=1))
    trace = await parts.ask()

    assert trace.nodes == [*BEGINNING, "generate"]
    assert trace.output["action"] is None
    assert set(trace.failed) == {"evaluator"}
    assert (trace.output["stopped_by"], trace.output["citations"]) == ("no_evidence", [])


async def test_ungraded_passages_are_left_to_the_language_model() -> None:
    chat = FakeChat(chunks=["a [1]."])
    parts = ZH.parts(ZH.full, evaluator=FakeEvaluator(fails_from_call=1), chat=chat)
    trace = await parts.ask()

    assert trace.output["action"] is None
    assert ZH.full in chat.prompt()
    assert trace.output["citations"][0].origin == "internal"


async def test_without_grades_forced_web_text_is_not_trusted() -> None:
    parts = EN.parts(EN.full, evaluator=FakeEvaluator(fails_from_call=1))
    trace = await parts.ask(web="always")

    assert not any(strip.kept for strip in trace.output["web_strips"])
    assert trace.output["citations"] == []


async def test_evaluator_failing_at_refinement_leaves_graded_passages() -> None:
    chat = FakeChat(chunks=["a [1]."])
    parts = EN.parts(EN.full, EN.off, evaluator=FakeEvaluator(fails_from_call=2), chat=chat)
    trace = await parts.ask()

    assert trace.failed == ["evaluator"]
    assert [strip.kept for strip in trace.output["internal_strips"]] == [True, False]
    assert trace.answer == "a [1]."
    assert trace.output["usage"].scored_pairs == 2, "what failed is not counted"


async def test_evaluator_failing_at_selection_drops_the_web() -> None:
    parts = ZH.parts(ZH.off, evaluator=FakeEvaluator(fails_from_call=2))
    trace = await parts.ask()

    assert trace.failed == ["evaluator"]
    assert (trace.answer, trace.output["stopped_by"]) == (ZH.unknown, "no_evidence")


@both_languages
async def test_what_was_graded_is_quoted_without_the_evaluator(world: World) -> None:
    parts = world.parts(world.full, evaluator=FakeEvaluator(fails_from_call=3))
    trace = await parts.ask()

    assert trace.failed == []
    assert trace.answer.replace(" [1]", "").replace("[1]", "") == world.full
    assert len(trace.output["citations"]) == 1


async def test_an_evaluator_that_grades_nothing_gives_no_verdict() -> None:
    chat = FakeChat(chunks=["a [1]."])
    parts = EN.parts(EN.full, evaluator=FakeEvaluator(scores_until_call=1), chat=chat)
    trace = await parts.ask()

    assert (trace.output["action"], trace.failed) == (None, ["evaluator"])
    assert parts.web.queries == []
    assert [document.text for document in trace.output["documents"]] == [EN.full]
    assert trace.output["citations"][0].text == EN.full


@both_languages
async def test_an_evaluator_that_falls_silent_leaves_what_was_graded(world: World) -> None:
    parts = world.parts(world.full, evaluator=FakeEvaluator(scores_until_call=2))
    trace = await parts.ask()

    assert (trace.output["action"], set(trace.failed)) == ("correct", {"evaluator"})
    assert trace.output["stopped_by"] == "answered"
    assert trace.output["citations"][0].text == world.full


async def test_choices_that_could_not_be_scored_are_told() -> None:
    parts = ZH.parts(ZH.full, evaluator=FakeEvaluator(scores_until_call=3))
    trace = await parts.ask(choices=["1852", "1920"])

    assert (trace.failed, trace.answer) == (["evaluator"], ZH.unknown)
    assert "2 of 2" in trace.output["degraded"][0].reason


async def test_strips_that_could_not_be_graded_are_told() -> None:
    one, items = "The Bergen paper mill did open in 1852.", "- Cats sleep there.\n- Dogs do not."
    parts = EN.parts(f"{one}\n{items}", evaluator=FakeEvaluator(known={items: None}))
    trace = await parts.ask("rag")

    assert trace.answer.startswith(one[:-1])
    assert trace.failed == ["evaluator"]
    assert "1 strips" in trace.output["degraded"][0].reason


async def test_a_failed_search_is_said_and_the_answer_admits_it() -> None:
    trace = await ZH.parts(ZH.off, web=FakeWebSearch(fails=True)).ask()

    assert trace.failed == ["web_search"]
    assert trace.answer == ZH.unknown
    assert trace.output["usage"].web_searches == 1


async def test_a_failed_search_leaves_ambiguous_its_local_half() -> None:
    parts = EN.parts(EN.half, web=FakeWebSearch(fails=True), chat=FakeChat(chunks=["a [1]"]))
    trace = await parts.ask()

    assert trace.failed == ["web_search"]
    assert [citation.origin for citation in trace.output["citations"]] == ["internal"]


async def test_pages_that_could_not_be_read_are_said() -> None:
    web = FakeWebSearch(EN.parts().web.pages, [Degraded("fetch", "1 page could not be read")])
    trace = await EN.parts(EN.off, web=web).ask()

    assert trace.output["degraded"] == [Degraded("fetch", "1 page could not be read")]
    assert trace.output["citations"]


@pytest.mark.parametrize(("fails_after", "world"), [(0, EN), (1, ZH)], ids=["before", "midstream"])
async def test_a_failed_model_is_retracted_and_sentences_are_quoted(
    fails_after: int, world: World
) -> None:
    chat = FakeChat(chunks=["Half a sen", "tence [1]."], fails_after=fails_after)
    graded = FakeEvaluator(fails_from_call=3)  # which nobody needs to quote what it graded
    parts = world.parts(world.full, evaluator=graded, chat=chat)
    trace = await parts.ask()

    assert trace.failed == ["generator"]
    assert trace.output["generator"] == "extractive"
    assert [event for event in trace.said if "retract" in event] == [
        {"retract": {"round": 0, "reason": "the model is gone"}}
    ]
    assert trace.streamed == trace.answer
    assert "Half" not in trace.answer
    assert trace.output["citations"][0].text == world.full
    assert (trace.output["usage"].llm_calls, trace.output["stopped_by"]) == (1, "answered")


@pytest.mark.parametrize("chunks", [["  ", "\n"], ["[7]"]])
async def test_an_empty_answer_is_a_failure(chunks: list[str]) -> None:
    chat = FakeChat(chunks=chunks)
    trace = await EN.parts(EN.full, chat=chat).ask()

    assert trace.failed == ["generator"]
    assert trace.output["citations"][0].text == EN.full


async def test_a_failed_rewriting_falls_back_on_names() -> None:
    chat = FakeChat(chunks=["a [1]"], fails_to_rewrite=True)
    parts = EN.parts(EN.off, chat=chat)
    trace = await parts.ask()

    assert trace.failed == ["generator"]
    assert parts.web.queries == ["When, Bergen"]
    assert (trace.answer, trace.output["generator"]) == ("a [1]", "fake-chat")
    assert trace.output["usage"].llm_calls == 2


async def test_a_draft_that_could_not_be_judged_is_told() -> None:
    pages = [fakes.passage(f"The red tower of Umbra has {n} floors.", n) for n in (1, 2)]
    critic = fakes.FakeCritic(script=(fakes.GOOD, Judgement(), fakes.GOOD))
    services = fakes.services(fakes.FakeRetriever(pages), critic=critic)
    trace = await traced(services, "How many floors has the red tower of Umbra?", "self_rag")

    assert len(trace.output["candidates"]) == 2
    assert [entry.component for entry in trace.output["degraded"]] == ["critic"]
    assert "1 of 2 drafts" in trace.output["degraded"][0].reason
