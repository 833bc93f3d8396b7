"""The crag graph, whole, along the path of each action."""

import pytest

from graphs.generation.answer import EXTRACTIVE
from graphs.state import Context
from graphs.types import Usage, WebPage
from graphs.workflows.crag import build_crag
from tests.fakes import POOR, FakeChat, FakeCritic, FakeEvaluator, FakeWebSearch, passage
from tests.graphs.languages import EN, ZH, World, both_languages
from tests.graphs.traced import Trace, traced
from tests.graphs.workflows.threads import on_threads, thread

BEGINNING = ["prepare", "decide_retrieval", "retrieve", "grade"]
LOCAL = [*BEGINNING, "refine", "generate"]
WEB = [*BEGINNING, "rewrite_query", "search_web", "select_web_strips", "generate"]


def spans_carry_their_marker(trace: Trace) -> bool:
    return all(
        f"[{citation.n}]" in trace.answer[start:end]
        for citation in trace.output["citations"]
        for start, end in citation.spans
    )


@both_languages
async def test_correct_refines_what_is_local(world: World) -> None:
    parts = world.parts(world.full, world.off)
    trace = await parts.ask()

    assert trace.nodes == LOCAL
    assert trace.output["action"] == "correct"
    assert [strip.kept for strip in trace.output["internal_strips"]] == [True, False]
    assert trace.answer.replace(" [1]", "").replace("[1]", "") == world.full
    [citation] = trace.output["citations"]
    assert (citation.n, citation.origin, citation.source) == (1, "internal", "docs/en/page.md")
    assert citation.spans == ((0, len(trace.answer)),)
    assert (trace.output["stopped_by"], trace.output["degraded"]) == ("answered", [])
    assert trace.output["usage"] == Usage(scored_pairs=4)
    assert parts.web.queries == []
    assert trace.streamed == trace.answer


@both_languages
async def test_incorrect_answers_from_the_web_alone(world: World) -> None:
    parts = world.parts(world.off)
    trace = await parts.ask()

    assert trace.nodes == WEB
    assert trace.output["action"] == "incorrect"
    assert trace.output.get("internal_strips") == []
    assert [strip.kept for strip in trace.output["web_strips"]] == [False, True]
    assert {strip.document_id for strip in trace.output["web_strips"]} == {world.url}
    [citation] = trace.output["citations"]
    assert (citation.origin, citation.source, citation.text) == ("web", world.url, world.web)
    assert spans_carry_their_marker(trace)
    assert trace.output["usage"] == Usage(scored_pairs=3, web_searches=1)


@both_languages
async def test_ambiguous_joins_both_and_generates_once(world: World) -> None:
    chat = FakeChat(chunks=["x [1]. ", "y [2]."])
    parts = world.parts(world.half, world.off, chat=chat)
    trace = await parts.ask()

    assert sorted(trace.nodes) == sorted({*LOCAL, *WEB})
    assert trace.nodes[-1] == "generate"
    assert trace.output["action"] == "ambiguous"
    assert [c.origin for c in trace.output["citations"]] == ["internal", "web"]
    asked = chat.prompt()
    assert asked.index(world.half) < asked.index(world.web)
    assert world.url in asked
    assert world.off not in asked
    assert world.noise not in asked
    assert spans_carry_their_marker(trace)
    assert trace.output["usage"] == Usage(2, 20, 6, scored_pairs=6, web_searches=1)


@pytest.mark.parametrize("critic", [FakeCritic(), FakeCritic(script=[POOR])])
async def test_who_wrote_is_told_after_reflection(critic: FakeCritic) -> None:
    parts = EN.parts(EN.full, chat=FakeChat(chunks=["x [1]."]), critic=critic)
    trace = await parts.ask(reflect=True)
    quoted = await EN.parts(EN.full).ask(reflect=True)

    assert trace.output["critique"]
    assert quoted.output["critique"]
    assert trace.output["generator"] == parts.services.chat_name
    assert quoted.output["generator"] == EXTRACTIVE


async def test_everything_is_graded_against_the_original_question() -> None:
    parts = EN.parts(EN.half, chat=FakeChat(chunks=["z [1]."], keywords="other, Bergen"))
    trace = await parts.ask()

    assert {asked for call in parts.evaluator.calls for asked, _ in call} == {EN.question}
    assert (EN.question, f"Mills // {EN.web}") in [
        pair for call in parts.evaluator.calls for pair in call
    ]
    assert parts.web.queries == ["other, Bergen"]
    assert trace.output["rewritten_query"] == "other, Bergen"
    assert EN.question in parts.chat.prompt()


async def test_documents_are_graded_best_first() -> None:
    parts = ZH.parts(ZH.off, ZH.full, ZH.half)
    trace = await parts.ask()

    assert [document.text for document in trace.output["documents"]] == [ZH.full, ZH.half, ZH.off]
    relevance = [document.relevance for document in trace.output["documents"]]
    assert relevance == sorted(relevance, reverse=True)
    assert relevance[0] >= parts.evaluator.thresholds.upper
    assert {document.retrieval_score for document in trace.output["documents"]} == {0.1}


@pytest.mark.parametrize(("workflow", "world"), [("rag", ZH), ("crag", EN)])
async def test_without_evidence_it_admits_not_knowing(workflow: str, world: World) -> None:
    trace = await world.parts(world.off, offline=True).ask(workflow)

    assert trace.answer == world.unknown == trace.streamed
    assert trace.output["citations"] == []
    assert trace.output["stopped_by"] == "no_evidence"
    assert trace.output["degraded"] == []


async def test_a_web_without_relevant_paragraphs_is_no_evidence() -> None:
    web = FakeWebSearch([WebPage(ZH.url, "Mills", 0.8, (ZH.noise,))])
    chat = FakeChat(chunks=["made up"])
    trace = await ZH.parts(ZH.off, web=web, chat=chat).ask()

    assert (trace.answer, trace.output["stopped_by"]) == (ZH.unknown, "no_evidence")
    assert len(chat.asked) == 1, "the model is asked for keywords, never for an answer"


async def test_under_correct_the_best_strip_stays_though_all_fall_below_the_floor() -> None:
    first, second, third = (f"Sentence {word} has words." for word in ("one", "two", "three"))
    whole = " ".join([first * 16, second * 16, third * 16])
    low = FakeEvaluator(known={whole: 0.9})
    trace = await traced(EN.parts(whole, evaluator=low).services, "Bergen mill?", strip_floor=0.8)

    assert trace.output["action"] == "correct"
    assert [strip.kept for strip in trace.output["internal_strips"]].count(True) == 1
    assert trace.output["stopped_by"] == "no_evidence", "a model may read it; it is not quoted"


async def test_under_ambiguous_no_strip_below_the_floor_stays() -> None:
    parts = EN.parts(EN.half)
    trace = await parts.ask(strip_floor=0.9, web="never")

    assert trace.output["action"] == "ambiguous"
    assert [strip.kept for strip in trace.output["internal_strips"]] == [False]
    assert trace.output["stopped_by"] == "no_evidence"


async def test_unscored_passages_are_left_out_and_said() -> None:
    evaluator = FakeEvaluator(known={EN.half: None})
    trace = await EN.parts(EN.full, EN.half, evaluator=evaluator).ask()

    assert [document.text for document in trace.output["documents"]] == [EN.full]
    assert trace.failed == ["evaluator"]


async def test_it_runs_without_a_context_and_with_one_of_plain_json() -> None:
    graph = build_crag(EN.parts(EN.full).services)

    assert (await graph.ainvoke({"question": EN.question}))["action"] == "correct"
    changed = await graph.ainvoke({"question": EN.question}, context={"upper": 0.9})  # type: ignore[arg-type]
    assert changed["action"] == "ambiguous"


async def test_a_second_question_on_the_thread_inherits_nothing() -> None:
    parts = EN.parts(EN.off, web=FakeWebSearch(fails=False, pages=EN.parts().web.pages))
    graph, context = on_threads(build_crag, parts.services), Context(follow_ups=False)
    before = await graph.ainvoke({"question": EN.question}, thread(), context=context)
    assert before["web_strips"]

    parts.retriever.passages = [passage(ZH.full)]
    after = await graph.ainvoke({"question": ZH.question}, thread(), context=context)
    assert after["action"] == "correct"
    assert {citation.origin for citation in after["citations"]} == {"internal"}
    assert (after["web_strips"], after["web_pages"], after["rewritten_query"]) == ([], [], None)
    assert after["usage"] == Usage(scored_pairs=2)

    parts.retriever.fails, parts.web.fails = True, True
    failed = await graph.ainvoke({"question": EN.question}, thread(), context=context)
    assert [entry.component for entry in failed["degraded"]] == ["retriever", "web_search"]
    again = await graph.ainvoke({"question": EN.question}, thread(), context=context)
    assert [entry.component for entry in again["degraded"]] == ["retriever", "web_search"]
    assert again["answer"] == EN.unknown
