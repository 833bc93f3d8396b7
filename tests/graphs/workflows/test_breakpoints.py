"""Breakpoints hold inside subgraphs, and a run resumed from its checkpoint ends as without them."""

from typing import Any

import pytest

from graphs.state import Context
from graphs.types import WebPage
from tests.fakes import GOOD, POOR, FakeCritic, FakeWebSearch, ScriptedChat
from tests.graphs.languages import EN, Parts
from tests.graphs.workflows.threads import (
    GRAPHS,
    MANY,
    Graph,
    as_json,
    input_of,
    on_threads,
    thread,
)


def rejecting() -> Parts:
    """Ambiguous passages; the first draft is rejected, the second accepted."""
    chat = ScriptedChat(answers=MANY, keywords="Bergen, mill")
    return EN.parts(EN.half, EN.off, chat=chat, critic=FakeCritic(script=[POOR, GOOD]))


def tied() -> Parts:
    """The web says what a passage says, and both are graded alike."""
    web = FakeWebSearch([WebPage(EN.url, "Mills", 0.8, (EN.full,))])
    return EN.parts(EN.full, web=web, chat=ScriptedChat(answers=MANY), critic=FakeCritic())


async def coming(graph: Graph) -> list[tuple[str, str]]:
    """(subgraph, node) of each node that comes next, the innermost."""
    return _coming(await graph.aget_state(thread(), subgraphs=True))


def _coming(state: Any, subgraph: str = "") -> list[tuple[str, str]]:
    return [
        place
        for task in state.tasks
        for place in (_coming(task.state, task.name) if task.state else [(subgraph, task.name)])
    ]


async def gone_through(
    graph: Graph, given: dict[str, Any], context: Context
) -> list[tuple[str, str]]:
    """(subgraph, node) of each node of a run without a break."""
    nodes = list[tuple[str, str]]()
    async for namespace, task in graph.astream(
        given, thread(), context=context, stream_mode="tasks", subgraphs=True
    ):
        if "input" in task:
            nodes.append((namespace[-1].split(":")[0] if namespace else "", task["name"]))
    subgraphs = {subgraph for subgraph, _ in nodes}
    return [place for place in nodes if place[1] not in subgraphs]


async def left_by(graph: Graph) -> Any:
    """The thread's state; the messages of a chat have ids of their own."""
    values = dict((await graph.aget_state(thread())).values)
    values["messages"] = [message.content for message in values.get("messages", [])]
    return as_json(values)


@pytest.mark.parametrize(
    ("breakpoint_", "place"),
    [
        ({"interrupt_before": ["critique"]}, ("reflect", "critique")),
        ({"interrupt_after": ["criticise"]}, ("reflect", "revise")),
        ({"interrupt_after": ["search"]}, ("retrieve", "rerank")),
    ],
)
async def test_a_breakpoint_in_a_subgraph_holds_where_it_stands(
    breakpoint_: dict[str, Any], place: tuple[str, str]
) -> None:
    context, question = Context(rerank="evaluator"), {"question": EN.question}
    without = await on_threads(GRAPHS["self_crag"], rejecting().services).ainvoke(
        question, thread(), context=context
    )
    graph = on_threads(GRAPHS["self_crag"], rejecting().services)
    await graph.ainvoke(question, thread(), context=context, **breakpoint_)

    assert await coming(graph) == [place]
    output = await graph.ainvoke(None, thread(), context=context)
    assert (await graph.aget_state(thread())).next == (), "a breakpoint is its run's alone"
    assert as_json(output) == as_json(without)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rag", {"expand": ["decompose"], "rerank": "evaluator"}),
        ("crag", {"reflect": True}),
        ("crag", {"compress": "abstractive", "web": "never"}),
        ("self_rag", {}),
        ("self_rag", {"beam_depth": 2}),
        ("self_crag", {}),
        ("self_crag", {"compress": "abstractive"}),
        ("reflect", {}),
        ("messages", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value) or "plain",
)
async def test_a_run_that_stops_before_every_node_ends_as_one_that_does_not(
    name: str, options: dict[str, Any]
) -> None:
    context = Context(**options)
    plain, graph = (on_threads(GRAPHS[name], rejecting().services) for _ in range(2))
    nodes = await gone_through(plain, input_of(name), context)

    given: dict[str, Any] | None = input_of(name)
    stops = list[tuple[str, str]]()
    while given or (await graph.aget_state(thread())).next:
        await graph.ainvoke(given, thread(), context=context, interrupt_before="*")
        given = None
        stops += await coming(graph)
        assert len(stops) < 100, "it never ends"

    assert sorted(stops) == sorted(nodes), "each node, once each time that it runs"
    assert await left_by(graph) == await left_by(plain)


async def test_passages_and_pages_of_one_score_are_ranked_after_a_break_too() -> None:
    context, question = Context(web="always"), {"question": EN.question}
    graph = on_threads(GRAPHS["self_rag"], tied().services)
    await graph.ainvoke(question, thread(), context=context, interrupt_before=["build_candidates"])
    output = await graph.ainvoke(None, thread(), context=context)

    assert [draft.origin for draft in output["candidates"]] == ["internal", "web"]
