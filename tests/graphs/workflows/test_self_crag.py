"""The self_crag graph, whole: CRAG's knowledge, then drafts, choice and reflection."""

from dataclasses import replace
from typing import Literal

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from app.websearch.search import SearchesAhead
from graphs.options import Ablation
from graphs.state import Context
from graphs.types import Judgement, Retrieval, Usage, WebPage
from graphs.workflows.self_crag import build_self_crag
from tests.fakes import GOOD, POOR, FakeCritic, FakeEvaluator, FakeWebSearch, ScriptedChat, passage
from tests.graphs.languages import EN, ZH, Parts, World, both_languages
from tests.graphs.traced import Trace, traced

BEGINNING = ["prepare", "decide_retrieval", "retrieve", "grade"]
DRAFTED = ["build_candidates", "draft", "judge", "select_candidate", "reflect"]
WEB = ["rewrite_query", "search_web", "select_web_strips"]


async def asked(parts: Parts, world: World = EN, **options: object) -> Trace:
    return await traced(parts.services, world.question, "self_crag", **options)


def drafting(world: World, *texts: str, answers: tuple[str, ...] = ("x [1].",)) -> Parts:
    return world.parts(*texts, chat=ScriptedChat(answers=list(answers)), critic=FakeCritic())


@both_languages
async def test_correct_is_drafted_from_what_is_local(world: World) -> None:
    parts = drafting(world, world.full, world.off)
    trace = await asked(parts, world)

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
    trace = await asked(parts, ZH)

    assert trace.nodes == [*BEGINNING, *WEB, *DRAFTED]
    [candidate] = trace.output["candidates"]
    assert (candidate.origin, candidate.document_ids) == ("web", (ZH.url,))
    assert ZH.off not in parts.chat.prompt()  # type: ignore[union-attr]
    assert trace.output["citations"][0].source == ZH.url


@pytest.mark.parametrize(("mode", "world"), [("joined", EN), ("all", ZH)])
async def test_ambiguous_is_drafted_from_both(mode: Literal["joined", "all"], world: World) -> None:
    parts = drafting(world, world.half, answers=("x [1].", "y [1].", "z [1]."))
    trace = await asked(parts, world, ablation=Ablation(ambiguous_candidates=mode))

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
    trace = await asked(parts, ablation=Ablation(ambiguous_candidates="all"))
    prompts = [parts.chat.prompt(n) for n in range(1, len(parts.chat.asked))]  # type: ignore[union-attr]

    assert len(prompts) == len(set(prompts)) == len(trace.output["candidates"]) == 2


async def test_what_needs_no_retrieval_costs_one_generation() -> None:
    chat, critic = ScriptedChat(answers=["Four."]), FakeCritic(share=0.05)
    parts = ZH.parts(ZH.full, chat=chat, critic=critic)
    trace = await asked(parts, ZH)

    assert trace.nodes == ["prepare", "decide_retrieval", "generate"]
    assert (trace.answer, trace.output.get("action")) == ("Four.", None)
    assert (len(chat.asked), critic.judged, parts.evaluator.calls) == (1, [], [])
    assert trace.output["usage"] == Usage(1, 10, 3)


async def test_without_evidence_it_admits_not_knowing() -> None:
    chat, critic = ScriptedChat(), FakeCritic()
    parts = EN.parts(EN.off, chat=chat, critic=critic, offline=True)
    trace = await asked(parts, EN)

    assert trace.nodes[-2:] == ["build_candidates", "abstain"]
    assert trace.answer == trace.streamed == EN.unknown
    assert (trace.output["stopped_by"], trace.output["citations"]) == ("no_evidence", [])
    assert (chat.asked, critic.judged) == ([], [])


@both_languages
async def test_with_the_parts_that_need_no_model_it_answers(world: World) -> None:
    parts = world.parts(world.full, world.off)
    trace = await asked(parts, world)

    assert trace.output["retrieval"].decision
    assert trace.answer.replace(" [1]", "").replace("[1]", "") == world.full
    assert trace.output["critique"]
    assert trace.output["usage"].llm_calls == 0
    assert trace.output["generator"] == "extractive"


async def test_with_the_evaluator_down_the_model_still_answers() -> None:
    parts = ZH.parts(ZH.full, evaluator=FakeEvaluator(fails_from_call=1), chat=ScriptedChat())
    trace = await asked(parts, ZH)

    assert set(trace.failed) == {"critic", "evaluator"}
    assert (trace.answer, trace.output["action"]) == ("x [1].", None)
    assert trace.output["citations"][0].text == ZH.full


async def test_a_failed_draft_is_quoted_and_judged() -> None:
    chat, critic = ScriptedChat(fails_on=EN.question), FakeCritic()
    trace = await asked(EN.parts(EN.full, chat=chat, critic=critic))

    assert trace.failed == ["generator"]
    assert trace.output["generator"] == "extractive"
    assert [event for event in trace.said if "retract" in event], "what was told is void"
    assert trace.streamed == trace.answer
    assert critic.judged == [[trace.answer]]


async def test_the_action_is_the_ablations() -> None:
    trace = await asked(drafting(EN, EN.full), ablation=Ablation(only_action="incorrect"))

    assert trace.output["action"] == "incorrect"
    assert {draft.origin for draft in trace.output["candidates"]} == {"web"}


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
    trace = await asked(parts)

    assert EN.off in chat.prompt()
    assert [strip.kept for strip in trace.output["internal_strips"]] == [True, True]
    assert [citation.text for citation in trace.output["citations"]] == [EN.full, EN.off]
    assert len(trace.output["documents"]) == 2


async def test_a_second_question_on_the_thread_inherits_nothing() -> None:
    critic = FakeCritic(script=[POOR])
    parts = EN.parts(
        EN.off, web=FakeWebSearch(EN.parts().web.pages), chat=ScriptedChat(), critic=critic
    )
    graph = build_self_crag(parts.services)
    graph.checkpointer = InMemorySaver()
    thread = {"configurable": {"thread_id": "one"}}
    context = Context(follow_ups=False)
    before = await graph.ainvoke({"question": EN.question}, thread, context=context)
    assert (before["stopped_by"], before["action"]) == ("unchanged", "incorrect")

    critic.script, parts.retriever.passages = [GOOD], [passage(ZH.full)]
    after = await graph.ainvoke({"question": ZH.question}, thread, context=context)
    assert (after["stopped_by"], after["action"]) == ("accepted", "correct")
    assert [entry.round for entry in after["critique"]] == [0]
    assert (after["web_strips"], after["web_pages"], after["rewritten_query"]) == ([], [], None)
    assert len(after["candidates"]) == 1
    assert after["usage"].llm_calls == 1

    parts.retriever.passages, parts.web.pages = [], []
    nothing = await graph.ainvoke({"question": ZH.question}, thread, context=context)
    assert (nothing["answer"], nothing["stopped_by"]) == (ZH.unknown, "no_evidence")
    assert (nothing["candidates"], nothing["critique"], nothing["citations"]) == ([], [], [])
