"""LangGraph's own clients against the service: RemoteGraph alone, as a node, and the SDK."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.pregel.remote import RemoteException, RemoteGraph
from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.client import SyncLangGraphClient
from langgraph_sdk.errors import ConflictError

from graphs.workflows.registry import WORKFLOWS
from tests import fakes
from tests.app.serving import GONE_WITHIN_S, Serve, Serving, wait_until
from tests.umbra import CHINESE, ENGLISH, FIRST, SECOND, TOWER, rejecting


@dataclass
class Clients:
    """LangGraph's clients of services, closed again at the end."""

    opened: ExitStack

    def remote(self, serving: Serving, workflow: str = "self_crag", **more: Any) -> RemoteGraph:
        graph = RemoteGraph(workflow, url=serving.url, api_key=None, **more)
        self.opened.callback(graph._validate_sync_client().http.client.close)
        return graph

    def sdk(self, serving: Serving) -> SyncLangGraphClient:
        return self.opened.enter_context(get_sync_client(url=serving.url, api_key=None))


@pytest.fixture
def clients() -> Iterator[Clients]:
    with ExitStack() as opened:
        yield Clients(opened)


@pytest.mark.parametrize("question", [ENGLISH, CHINESE])
def test_a_remote_graph_answers_with_citations(
    clients: Clients, service: Serving, question: str
) -> None:
    values = clients.remote(service).invoke({"question": question}, context={"retrieve_k": 3})

    assert ("87" if question == ENGLISH else "八十七") in values["answer"]
    assert len(values["documents"]) <= 3
    asked, answer = values["messages"]
    assert (asked["type"], asked["content"]) == ("human", question)
    (block,) = answer["content"]
    assert block["text"] == values["answer"]
    cited = block["annotations"][0]
    assert "[" in block["text"][cited["start_index"] : cited["end_index"]]
    assert cited["extras"]["source"].endswith("tower.md")


def test_each_mode_streams_what_langgraph_calls_so(clients: Clients, serve: Serve) -> None:
    graph = clients.remote(serve(rejecting()))
    modes = ["values", "updates", "messages", "custom"]
    parts = list(graph.stream({"question": ENGLISH}, stream_mode=modes, subgraphs=True))  # type: ignore[arg-type]
    by_mode = {mode: [part for part in parts if part[1] == mode] for mode in modes}

    assert {next(iter(data)) for _, _, data in by_mode["updates"]} >= {"grade", "judge", "reflect"}
    inner = {ns[0].split(":")[0] for ns, _, _ in by_mode["updates"] if ns}
    assert inner == {"retrieve", "reflect"}
    assert [data["event"] for _, _, data in by_mode["custom"] if data["event"] == "retract"]
    texts = dict[str, str]()
    for _, _, (chunk, about) in by_mode["messages"]:
        texts[chunk["id"]] = texts.get(chunk["id"], "") + chunk["content"]
        assert about["langgraph_node"]
    assert list(texts.values()) == [FIRST, SECOND], "each draft is a message of its own"
    first, *_, last = [data for _, _, data in by_mode["values"]]
    assert "answer" not in first
    assert last["answer"] == SECOND


def test_it_is_a_node_of_a_larger_graph(clients: Clients, serve: Serve) -> None:
    """Which gives it its messages and gets one more, and follows the steps inside."""
    inner = clients.remote(serve(rejecting()), config={"configurable": {"max_critic": 2}})
    graph = StateGraph(MessagesState)
    graph.add_node("ask", inner)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    compiled = graph.compile()
    asked: Any = {"messages": [("user", "Hello."), ("ai", "Hello?"), ("user", ENGLISH)]}

    *_, answer = (state := compiled.invoke(asked))["messages"]
    assert len(state["messages"]) == 4
    assert answer.text == SECOND
    assert answer.content_blocks[0]["annotations"][0]["title"] == TOWER.title
    steps = {
        name
        for ns, update in compiled.stream(asked, stream_mode="updates", subgraphs=True)
        if ns and isinstance(update, dict)
        for name in update
    }
    assert {"grade", "critique"} <= steps


def test_threads_remember_and_tell_their_states(clients: Clients, service: Serving) -> None:
    client, graph = clients.sdk(service), clients.remote(service, "crag")
    thread_id = client.threads.create()["thread_id"]
    config: Any = {"configurable": {"thread_id": thread_id}}
    assert graph.get_state(config).values == {}

    answers = [graph.invoke({"question": q}, config)["answer"] for q in (ENGLISH, CHINESE)]
    state = graph.get_state(config)
    history = list(graph.get_state_history(config))

    texts = [message["content"] for message in state.values["messages"]]
    assert [texts[1][0]["text"], texts[3][0]["text"]] == answers
    assert state.values["answer"] == answers[1]
    assert history[0].config == state.config
    assert history[0].parent_config == history[1].config
    assert graph.get_state(history[1].config).values["answer"] == answers[0]
    before = list(graph.get_state_history(config, before=history[0].config))  # type: ignore[arg-type]
    assert [each.config for each in before] == [history[1].config]
    assert client.threads.get(thread_id)["thread_id"] == thread_id
    with pytest.raises(ConflictError, match="is there already"):
        client.threads.create(thread_id=thread_id)
    assert client.threads.create(thread_id=thread_id, if_exists="do_nothing")


@pytest.mark.slow
def test_assistants_are_the_workflows(clients: Clients, serve: Serve) -> None:
    serving = serve(fakes.services())
    client = clients.sdk(serving)

    assert [each["graph_id"] for each in client.assistants.search()] == list(WORKFLOWS)
    assert client.assistants.get("crag")["name"] == "crag"
    drawn = clients.remote(serving, "crag").get_graph(xray=True)
    assert {"retrieve:search", "grade", "reflect:critique"} <= set(drawn.nodes)
    assert any(edge.conditional for edge in drawn.edges)


@pytest.mark.slow
def test_a_background_run_is_joined_and_followed(clients: Clients, serve: Serve) -> None:
    client = clients.sdk(serve(rejecting()))
    thread_id = (client.threads.create())["thread_id"]
    asked: Any = {"question": ENGLISH}
    run = client.runs.create(thread_id, "self_crag", input=asked)
    run_id = run["run_id"]

    values: Any = client.runs.join(thread_id, run_id)
    assert values["answer"] == SECOND
    assert (client.runs.get(thread_id, run_id))["status"] == "success"
    assert [each["run_id"] for each in client.runs.list(thread_id)] == [run_id]
    modes: Any = ["updates", "messages-tuple"]
    told = list(client.runs.join_stream(thread_id, run_id, stream_mode=modes))
    assert told[0].event == "metadata"
    assert "".join(part.data[0]["content"] for part in told if part.event == "messages")
    assert told[-1].event == "end"
    after: Any = {"stream_mode": modes, "last_event_id": told[5].id}
    later = list(client.runs.join_stream(thread_id, run_id, **after))
    assert later == told[6:]
    *_, last, _ = client.runs.join_stream(thread_id, run_id)  # values, where no mode is named
    assert last.data["answer"] == SECOND


async def test_a_client_that_is_cancelled_ends_its_run(slow: Serving) -> None:
    waiting = slow.app.state.services.retriever.waiting
    async with get_client(url=slow.url, api_key=None) as client:
        graph = RemoteGraph("self_crag", client=client)
        task = asyncio.create_task(graph.ainvoke({"question": ENGLISH}))
        await asyncio.to_thread(wait_until, lambda: bool(waiting.at_s), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await asyncio.to_thread(wait_until, lambda: not slow.runs_under_way(), GONE_WITHIN_S)
    assert waiting.left_s


def test_the_sdk_cancels_a_run(clients: Clients, slow: Serving) -> None:
    waiting, client = slow.app.state.services.retriever.waiting, clients.sdk(slow)
    run = client.runs.create(None, "crag", input={"question": ENGLISH})
    wait_until(lambda: bool(waiting.at_s), 10)
    thread_id, run_id = run["thread_id"], run["run_id"]
    with pytest.raises(httpx.HTTPStatusError, match="409"):
        client.runs.wait(thread_id, "crag", input={"question": ENGLISH})

    client.runs.cancel(thread_id, run_id, wait=True)
    assert waiting.left_s
    assert client.runs.get(thread_id, run_id)["status"] == "interrupted"


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"assistant_id": "none"}, 404, "there are: rag"),
    ({"input": {"other": 1}}, 422, "#/input"),
    ({"input": {"messages": [{"type": "ai", "content": "Hi."}]}}, 422, "#/input/messages"),
    ({"input": {"messages": [{"type": "none"}]}}, 422, "#/input/messages"),
    ({"input": {"messages": [["user", [{"type": "image_url"}]]]}}, 422, "image_url"),
    ({"context": {"uper": 1}}, 422, "#/context/uper"),
    ({"context": {"upper": "1"}}, 422, "#/context/upper"),
    ({"config": {"configurable": {"retrieve_k": 0}}}, 422, "#/config/configurable/retrieve_k"),
    ({"config": {"configurable": {"collection": "gone"}}}, 404, "gone"),
    ({"command": {"resume": 1}}, 422, "#/command"),
    ({"interrupt_before": ["grade"]}, 422, "#/interrupt_before"),
    ({"stream_mode": ["tasks"]}, 422, "#/stream_mode"),
    ({"multitask_strategy": "rollback"}, 422, "#/multitask_strategy"),
]


def test_what_cannot_be_done_is_refused_in_words(serve: Serve) -> None:
    serving = serve(fakes.services())
    for fields, status, words in REFUSED:
        body = {"assistant_id": "crag", "input": {"question": ENGLISH}, **fields}
        response = serving.client.post("/runs/stream", json=body)
        assert (response.status_code, words in response.text) == (status, True), response.text
    unknown = serving.client.post("/threads/no-such/runs/wait", json={"assistant_id": "crag"})
    assert unknown.status_code == 422, "there is no question in it"
    asked = {"assistant_id": "crag", "input": {"question": ENGLISH}}
    assert serving.client.post("/threads/no-such/runs/wait", json=asked).status_code == 404


@pytest.mark.slow
def test_a_failed_run_raises_at_the_client(clients: Clients, serve: Serve) -> None:
    serving = serve(fakes.services(fakes.BrokenRetriever()))
    with pytest.raises(RemoteException, match="Internal error"):
        clients.remote(serving).invoke({"question": ENGLISH})
    with pytest.raises(Exception, match="Internal error"):
        clients.sdk(serving).runs.wait(None, "crag", input={"question": ENGLISH})
