"""The self_crag graph, whole: CRAG's knowledge, then drafts, choice and reflection."""

from dataclasses import replace
from typing import Literal

import pytest

from app.websearch.search import SearchesAhead
from graphs.options import Ablation
from graphs.types import Judgement, Retrieval, WebPage
from tests.fakes import GOOD, FakeCritic, ScriptedChat
from tests.graphs.languages import EN, ZH, Parts, World, both_languages
from tests.graphs.traced import traced
from tests.graphs.workflows.test_crag import BEGINNING

DRAFTED = ["build_candidates", "draft", "judge", "select_candidate", "reflect"]
WEB = ["rewrite_query", "search_web", "select_web_strips"]


def drafting(world: World, *texts: str, answers: tuple[str, ...] = ("x [1].",)) -> Parts:
    return world.parts(*texts, chat=ScriptedChat(answers=list(answers)), critic=FakeCritic())


@both_languages
async def test_correct_is_drafted_from_what_is_local(world: World) -> None:
    parts = drafting(world, world.full, world.off)
    trace = await parts.ask("self_crag")

    assert trace.nodes == [*BEGINNING, "refine", *DRAFTED]
    assert trace.output["action"] == "correct"
    assert trace.output["retrieval"] == Retrieval(True, 1.0)
    [candidate] = trace.output["candidates"]
    assert [strip.text for strip in candidate.knowledge] == [world.full], "the relevant strip only"
    assert (candidate.origin, candidate.chosen, candidate.n) == ("internal", True, 1)
    assert trace.output["stopped_by"] == "accepted"
    assert trace.answer == trace.streamed == "x [1]."
    assert len([event for event in trace.said if "token" in event]) == 2, "told as it is written"


async def test_incorrect_is_drafted_from_the_web() -> None:
    parts = drafting(ZH, ZH.off)
    trace = await parts.ask("self_crag")

    assert trace.nodes == [*BEGINNING, *WEB, *DRAFTED]
    [candidate] = trace.output["candidates"]
    assert (candidate.origin, candidate.document_ids) == ("web", (ZH.url,))
    assert ZH.off not in parts.chat.prompt()  # type: ignore[union-attr]
    assert trace.output["citations"][0].source == ZH.url


@pytest.mark.parametrize(("mode", "world"), [("joined", EN), ("all", ZH)])
async def test_ambiguous_is_drafted_from_both(mode: Literal["joined", "all"], world: World) -> None:
    parts = drafting(world, world.half, answers=("x [1].", "y [1].", "z [1]."))
    trace = await parts.ask("self_crag", ablation=Ablation(ambiguous_candidates=mode))

    assert sorted(trace.nodes) == sorted(
        [*BEGINNING, "refine", *WEB, *DRAFTED] + (["draft"] * 2 if mode == "all" else [])
    )
    after_both = trace.nodes.index("build_candidates")
    assert after_both > trace.nodes.index("select_web_strips"), "it waits for both"
    drafted = [[s.text for s in draft.knowledge] for draft in trace.output["candidates"]]
    joined = [world.half, world.web]
    assert drafted == ([joined] if mode == "joined" else [[world.half], [world.web], joined])
    assert [draft.chosen for draft in trace.output["candidates"]].count(True) == 1
    assert {draft.origin for draft in trace.output["candidates"]} <= {"internal", "web"}


async def test_what_both_origins_say_is_not_drafted_twice() -> None:
    parts = drafting(EN, EN.half)
    parts.web.pages = [WebPage(EN.url, "Mills", 0.8, (EN.half,))]
    trace = await parts.ask("self_crag", ablation=Ablation(ambiguous_candidates="all"))
    prompts = [parts.chat.prompt(n) for n in range(1, len(parts.chat.asked))]  # type: ignore[union-attr]

    assert len(prompts) == len(set(prompts)) == len(trace.output["candidates"]) == 2


@both_languages
async def test_with_the_parts_that_need_no_model_it_answers(world: World) -> None:
    parts = world.parts(world.full, world.off)
    trace = await parts.ask("self_crag")

    assert trace.output["retrieval"].decision
    assert trace.answer.replace(" [1]", "").replace("[1]", "") == world.full
    assert trace.output["critique"]
    assert trace.output["usage"].llm_calls == 0
    assert trace.output["generator"] == "extractive"


async def test_a_failed_draft_is_quoted_and_judged() -> None:
    chat, critic = ScriptedChat(fails_on=EN.question), FakeCritic()
    trace = await EN.parts(EN.full, chat=chat, critic=critic).ask("self_crag")

    assert trace.failed == ["generator"]
    assert trace.output["generator"] == "extractive"
    assert [event for event in trace.said if "retract" in event], "what was told is void"
    assert trace.streamed == trace.answer
    assert critic.judged == [[trace.answer]]


async def test_a_search_that_began_beside_grading_is_drafted_from() -> None:
    parts = drafting(EN, EN.half)
    ahead = replace(parts.services, search_ahead=SearchesAhead(parts.web))
    trace = await traced(ahead, EN.question, "self_crag", speculative_search=True)

    assert parts.web.queries == [EN.question]
    [candidate] = trace.output["candidates"]
    assert [strip.origin for strip in candidate.knowledge] == ["internal", "web"]


async def test_a_revision_may_take_in_what_was_left_out() -> None:
    """Strips that refinement dropped are looked through for the open part."""
    lacking = Judgement(1, 1, 0, uncovered=("cats sleep",))
    chat = ScriptedChat(answers=["One [1].", "One [1]. Two [2]."])
    parts = EN.parts(EN.full, EN.off, chat=chat, critic=FakeCritic(script=[lacking, GOOD]))
    trace = await parts.ask("self_crag")

    assert EN.off in chat.prompt()
    assert [strip.kept for strip in trace.output["internal_strips"]] == [True, True]
    assert [citation.text for citation in trace.output["citations"]] == [EN.full, EN.off]
    assert len(trace.output["documents"]) == 2
