"""A state edited by hand on a thread, at any node, as Studio does; the run goes on from there."""

from dataclasses import asdict, replace
from functools import cache
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from graphs.state import Context
from graphs.types import (
    Critique,
    Degraded,
    Draft,
    Extension,
    Path,
    Segment,
    Strip,
    Usage,
    WebPage,
)
from tests.fakes import GOOD, FakeCritic, ScriptedChat, passage
from tests.graphs.languages import EN, Parts
from tests.graphs.workflows.threads import (
    GRAPHS,
    NODES,
    SUBGRAPHS,
    Graph,
    as_json,
    input_of,
    on_threads,
    parts,
    thread,
)

FOUND = replace(passage("The Bergen paper mill did open in 1846.", 7), relevance=0.9)
STRIP = Strip(
    "p7#0", "p7", FOUND.text, "Page 7", "a.md", "internal", (0, 0), relevance=0.9, kept=True
)
FROM_WEB = replace(STRIP, id="web0#0", document_id=EN.url, source=EN.url, origin="web")
PAGE = WebPage(EN.url, "Mills", 0.8, (FOUND.text,))
SAID = "It opened in 1846 [1]."
DRAFT = Draft(SAID, (STRIP,), generator="somebody", critique_score=2.0)
JUDGED = replace(DRAFT, judgement=GOOD)
ROUND = Critique(0, 1.0, 0.2, -0.5, 0.9, "Say the year.", accepted=False)
PATH, SEGMENT = Path((STRIP,)), Segment("It opened in 1846.", STRIP)
GIVEN_AS_JSON = {
    *("retrieval", "documents", "internal_strips", "web_strips", "web_pages", "candidates"),
    *("draft", "paths", "extensions", "critique"),
}

EDITS: dict[str, dict[str, Any]] = {
    "prepare": {"standalone_question": "When did the Bergen paper mill open its doors?"},
    "decide_retrieval": {"retrieval": {"decision": True, "probability": 1.0}},
    "retrieve": {"documents": [asdict(FOUND)]},
    "contextualise": {"standalone_question": EN.question},
    "expand": {"queries": [EN.question, "mill"]},
    "search": {"documents": [asdict(FOUND)]},
    "rerank": {"documents": [asdict(FOUND)]},
    "grade": {"action": "correct", "documents": [asdict(FOUND)]},
    "refine": {"internal_strips": [asdict(STRIP)]},
    "rewrite_query": {"rewritten_query": "Bergen, paper mill"},
    "search_web": {"web_pages": [asdict(PAGE)]},
    "select_web_strips": {"web_strips": [asdict(FROM_WEB)]},
    "build_candidates": {"candidates": [asdict(replace(DRAFT, answer=""))]},
    "draft": {"drafts": [DRAFT]},
    "judge": {"candidates": [asdict(JUDGED)]},
    "draft_segments": {"candidates": [asdict(JUDGED)]},
    "extend": {"paths": [asdict(PATH)], "extensions": [asdict(Extension(0, SEGMENT))]},
    "prune": {"paths": [asdict(PATH)]},
    "retrieve_more": {"paths": [asdict(PATH)], "documents": [asdict(FOUND)]},
    "select_candidate": {"draft": asdict(JUDGED), "answer": SAID},
    "generate": {"draft": asdict(DRAFT), "answer": SAID},
    "critique": {"draft": asdict(JUDGED), "critique": [asdict(ROUND)]},
    "criticise": {"critique": [asdict(replace(ROUND, criticism="Say more."))]},
    "revise": {"draft": asdict(DRAFT)},
    "reflect": {"answer": SAID},
    "abstain": {"answer": "Nobody knows."},
    "listen": {"question": EN.question, "history": []},
    "workflow": {"answer": SAID, "citations": []},
    "reply": {"messages": [AIMessage(SAID)]},
}
"""What each node might have found instead; a node without an entry is edited as it is."""


def answer_of(graph: str, output: dict[str, Any]) -> object:
    """What the graph, or the subgraph alone, is there for."""
    if graph == "messages":
        return output["messages"][-1].content
    if graph == "retrieve subgraph":
        return [document.text for document in output["documents"]]
    if graph == "draft_segments subgraph":
        return [draft.answer for draft in output["candidates"]]
    return output["answer"]


@cache
def shared(name: str) -> Graph:
    """One graph for all its nodes, each edited on a thread of its own."""
    return on_threads({**GRAPHS, **SUBGRAPHS}[name], parts().services)


@pytest.mark.parametrize(("name", "node"), NODES, ids=[f"{name}-{node}" for name, node in NODES])
async def test_a_run_edited_at_any_node_goes_on_to_an_answer(name: str, node: str) -> None:
    graph, config = shared(name), thread(node)
    context = Context(reflect=name == "crag", max_critic=1)
    await graph.ainvoke(input_of(name), config, context=context, interrupt_after=[node])
    update = EDITS.get(node, {})
    await graph.aupdate_state(config, update, as_node=node)

    values = (await graph.aget_state(config)).values
    for key in GIVEN_AS_JSON & set(update):
        assert as_json(values[key]) == as_json(update[key])
        items = values[key] if isinstance(values[key], list) else [values[key]]
        assert not any(isinstance(item, dict) for item in items), f"{key} is left as JSON"
    output = await graph.ainvoke(None, config, context=context)
    assert answer_of(name, output)
    assert (await graph.aget_state(config)).next == ()


async def paused(after: str, graph: str = "crag", **options: Any) -> tuple[Graph, Parts]:
    """A graph on a thread that has stopped after a node."""
    given = parts()
    opened = on_threads(GRAPHS[graph], given.services)
    await opened.ainvoke(
        input_of(graph), thread(), context=Context(**options), interrupt_after=[after]
    )
    return opened, given


@pytest.mark.parametrize("name", ["crag", "self_crag"])
async def test_an_action_made_incorrect_goes_to_the_web(name: str) -> None:
    given = EN.parts(EN.full, critic=FakeCritic())
    graph = on_threads(GRAPHS[name], given.services)
    await graph.ainvoke({"question": EN.question}, thread(), interrupt_after=["grade"])
    assert (await graph.aget_state(thread())).next == ("refine",)

    await graph.aupdate_state(thread(), {"action": "incorrect"}, as_node="grade")
    assert (await graph.aget_state(thread())).next == ("rewrite_query",)
    output = await graph.ainvoke(None, thread())
    assert given.web.queries == ["When, Bergen"]
    assert {citation.source for citation in output["citations"]} == {EN.url}


async def test_an_action_made_correct_leaves_the_web_alone() -> None:
    graph, given = await paused("grade")
    assert set((await graph.aget_state(thread())).next) == {"refine", "rewrite_query"}

    await graph.aupdate_state(thread(), {"action": "correct"}, as_node="grade")
    output = await graph.ainvoke(None, thread())
    assert given.web.queries == []
    assert {citation.origin for citation in output["citations"]} == {"internal"}


async def test_keywords_put_in_by_hand_are_searched() -> None:
    graph, given = await paused("rewrite_query")
    edit = EDITS["rewrite_query"]
    await graph.aupdate_state(thread(), edit, as_node="rewrite_query")
    await graph.ainvoke(None, thread())

    assert given.web.queries == [edit["rewritten_query"]]


async def test_a_plan_put_in_by_hand_is_followed() -> None:
    graph, given = await paused("prepare")
    plan = asdict((await graph.aget_state(thread())).values["plan"])
    await graph.aupdate_state(thread(), {"plan": {**plan, "web": "never"}}, as_node="prepare")
    output = await graph.ainvoke(None, thread())

    assert (output["action"], given.web.queries) == ("ambiguous", [])


@pytest.mark.parametrize("name", ["rag", "crag", "self_rag", "self_crag"])
async def test_a_thread_begun_by_hand_goes_on_without_a_plan(name: str) -> None:
    graph = on_threads(GRAPHS[name], parts().services)
    update = {"question": EN.question, **EDITS["retrieve"]}
    await graph.aupdate_state(thread(), update, as_node="retrieve")
    output = await graph.ainvoke(None, thread())

    assert output["citations"][0].text == FOUND.text


async def test_what_is_summed_up_takes_json_too() -> None:
    """Studio sends what a node told as a whole, its usage and what failed among it."""
    graph, _ = await paused("select_web_strips", "self_crag")
    edit = {
        **EDITS["select_web_strips"],
        "usage": asdict(Usage(scored_pairs=2)),
        "degraded": [asdict(Degraded("web_search", "edited"))],
    }
    before = (await graph.aget_state(thread())).values["usage"]
    await graph.aupdate_state(thread(), edit, as_node="select_web_strips")
    after = (await graph.aget_state(thread())).values

    assert after["usage"] == before + Usage(scored_pairs=2)
    assert after["degraded"] == [Degraded("web_search", "edited")]


async def test_a_draft_given_as_json_is_judged() -> None:
    graph, given = await paused("draft", "self_crag")
    await graph.aupdate_state(thread(), {"drafts": [asdict(DRAFT)]}, as_node="draft")
    await graph.ainvoke(None, thread())

    assert isinstance(given.critic, FakeCritic)
    assert SAID in given.critic.judged[0]


async def test_a_draft_edited_inside_reflect_is_the_one_revised() -> None:
    given = parts()
    graph = on_threads(GRAPHS["self_crag"], given.services)
    await graph.ainvoke({"question": EN.question}, thread(), interrupt_before=["criticise"])
    [task] = (await graph.aget_state(thread(), subgraphs=True)).tasks
    assert (task.name, task.state.next) == ("reflect", ("criticise",))

    inside = task.state.config
    await graph.aupdate_state(inside, {"draft": asdict(JUDGED)}, as_node="critique")
    output = await graph.ainvoke(None, thread(), context=Context(max_critic=1))
    assert isinstance(given.critic, FakeCritic)
    assert isinstance(given.chat, ScriptedChat)
    assert given.critic.criticised == [SAID]
    assert SAID in given.chat.prompt()
    assert output["answer"]


async def test_passages_edited_inside_retrieve_are_graded() -> None:
    graph = on_threads(GRAPHS["crag"], parts().services)
    await graph.ainvoke({"question": EN.question}, thread(), interrupt_after=["search"])
    [task] = (await graph.aget_state(thread(), subgraphs=True)).tasks
    assert task.name == "retrieve"

    await graph.aupdate_state(task.state.config, EDITS["search"], as_node="search")
    output = await graph.ainvoke(None, thread())
    assert [document.id for document in output["documents"]] == [FOUND.id]
    assert output["action"] == "correct"
