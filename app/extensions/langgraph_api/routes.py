"""LangGraph's API for `RemoteGraph` and langgraph-sdk: assistants, threads, runs.

Described by its makers, so it stands not in our OpenAPI. Runs are those of `POST /ask`: the same
admission, quotas, owners, deadlines and store.
"""

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse
from langchain_core.messages import AnyMessage
from pydantic import BaseModel, Field

from app.api.dependencies import (
    CurrentCaller,
    LiveCollections,
    LiveGraphs,
    LiveRuns,
    LiveStore,
)
from app.api.routes.ask import stream_of
from app.api.sse import EventStream, while_client_stays
from app.errors import NotFound, ThreadExists
from app.extensions.langgraph_api import protocol
from app.retrieval.index import within
from app.runs import replay
from app.runs.manager import Runs
from app.runs.run import Run
from app.schemas.ask import AnswerEvent, Event, ThreadId, as_json
from app.storage.api_keys import Caller
from app.storage.collections import Collections
from app.storage.lifecycle import Store
from app.storage.runs import RunFilter, RunRecord
from graphs.state import Context
from graphs.workflows.registry import WORKFLOWS, Graph

router = APIRouter(include_in_schema=False)
SINCE = datetime.now(UTC).isoformat(timespec="seconds")
MAX_LISTED = 100
"""Of assistants, runs and states at once: a state holds the whole dialogue until then."""

Row = Mapping[str, Any]
Messages = Sequence[AnyMessage]
InThread = Annotated[ThreadId, Path()]
RunId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
Limit = Annotated[int, Query(ge=1, le=MAX_LISTED)]
Offset = Annotated[int, Query(ge=0, le=1_000_000)]


class AssistantSearch(BaseModel):
    graph_id: str | None = None
    metadata: dict[str, Any] | None = None
    limit: int = Field(10, ge=1, le=MAX_LISTED)
    offset: int = Field(0, ge=0)


class ThreadCreate(BaseModel):
    thread_id: ThreadId | None = None
    if_exists: Literal["raise", "do_nothing"] = "raise"


class CheckpointId(BaseModel):
    checkpoint_id: str | None = None


class StateRequest(BaseModel):
    checkpoint: CheckpointId = Field(default_factory=CheckpointId)


class HistoryRequest(BaseModel):
    limit: int = Field(10, ge=1, le=MAX_LISTED)
    before: CheckpointId | None = None
    checkpoint: CheckpointId | None = None
    metadata: dict[str, Any] | None = None


class Starting:
    """A run that a request asks for."""

    def __init__(
        self,
        payload: protocol.RunPayload,
        caller: Caller,
        runs: Runs,
        graphs: Mapping[str, Graph],
        collections: Collections,
        store: Store,
    ) -> None:
        self.payload, self._caller, self._runs = payload, caller, runs
        self._graphs, self._collections, self._store = graphs, collections, store

    @property
    def detach(self) -> bool:
        return self.payload.on_disconnect == "continue"

    async def run(self, thread_id: str | None, *, detach: bool) -> tuple[Run, Messages]:
        """The run, and the messages before its answer."""
        payload, caller = self.payload, self._caller
        payload.check()
        parsed, options = protocol.Asked(payload.input), payload.options()
        workflow = _known(payload.assistant_id, self._graphs)
        collection = await self._collections.chosen(caller, payload.collection())
        before = await self._dialogue(thread_id) if thread_id is not None else []
        with within(collection):
            run = await self._runs.start(
                workflow,
                parsed.question,
                options,
                thread_id,
                owner=caller.owner,
                detach=detach,
                resumable=payload.stream_resumable,
            )
        return run, [*before, *parsed.messages]

    async def _dialogue(self, thread_id: str) -> Messages:
        try:
            return protocol.dialogue(await _turns(self._store, thread_id, self._caller.owner))
        except NotFound:
            if self.payload.if_not_exists == "reject":
                raise
            return []


async def _starting(
    body: protocol.RunPayload,
    caller: CurrentCaller,
    runs: LiveRuns,
    graphs: LiveGraphs,
    collections: LiveCollections,
    store: LiveStore,
) -> Starting:
    return Starting(body, caller, runs, graphs, collections, store)


class ThreadStates:
    """The states of the caller's threads, one after each turn."""

    def __init__(self, store: Store, owner: str) -> None:
        self._store, self._owner = store, owner

    async def state(self, thread_id: str, checkpoint_id: str | None) -> dict[str, Any]:
        """The latest, or that of a checkpoint. Raises NotFound."""
        turns = await _turns(self._store, thread_id, self._owner)
        if checkpoint_id is None:
            number = len(turns)
        else:
            number = 1 + next(
                (n for n, turn in enumerate(turns) if turn["run_id"] == checkpoint_id), -1
            )
            if not number:
                raise NotFound(f"There is no checkpoint {checkpoint_id} of thread {thread_id}.")
        if not number:
            return protocol.empty_state(thread_id)
        (state,) = await self._built(thread_id, turns, [number])
        return state

    async def history(self, thread_id: str, request: HistoryRequest) -> list[dict[str, Any]]:
        turns = await _turns(self._store, thread_id, self._owner)
        numbers = list(range(len(turns), 0, -1))
        names = [turns[number - 1]["run_id"] for number in numbers]
        for place, is_left_out in ((request.before, True), (request.checkpoint, False)):
            if place is not None and place.checkpoint_id in names:
                numbers = numbers[names.index(place.checkpoint_id) + is_left_out :]
                break
        facts = (request.metadata or {}).items()
        matching = [n for n in numbers if facts <= protocol.facts_of(turns[n - 1], n).items()]
        return await self._built(thread_id, turns, matching[: request.limit])

    async def _built(
        self, thread_id: str, turns: list[dict[str, Any]], numbers: Sequence[int]
    ) -> list[dict[str, Any]]:
        run_ids = [turns[number - 1]["run_id"] for number in numbers]
        answers = await self._store.runs.answers(run_ids)
        return await asyncio.to_thread(
            lambda: [
                protocol.thread_state(thread_id, turns[:n], json.loads(answers.get(run_id, "{}")))
                for n, run_id in zip(numbers, run_ids, strict=True)
            ]
        )


async def _thread_states(store: LiveStore, caller: CurrentCaller) -> ThreadStates:
    return ThreadStates(store, caller.owner)


NewRun = Annotated[Starting, Depends(_starting)]
KeptThreads = Annotated[ThreadStates, Depends(_thread_states)]


@router.post("/assistants/search")
async def search_assistants(body: AssistantSearch, graphs: LiveGraphs) -> list[dict[str, Any]]:
    assistants = [_assistant(name) for name in graphs if body.graph_id in (None, name)]
    metadata = (body.metadata or {}).items()
    assistants = [each for each in assistants if metadata <= each["metadata"].items()]
    return assistants[body.offset : body.offset + body.limit]


@router.get("/assistants/{assistant_id}")
async def get_assistant(assistant_id: str, graphs: LiveGraphs) -> dict[str, Any]:
    return _assistant(_known(assistant_id, graphs))


@router.get("/assistants/{assistant_id}/graph")
async def get_graph(
    assistant_id: str, graphs: LiveGraphs, xray: bool | Annotated[int, Field(ge=0, le=10)] = False
) -> dict[str, Any]:
    return await asyncio.to_thread(_drawn, graphs[_known(assistant_id, graphs)], xray)


@router.get("/assistants/{assistant_id}/schemas")
async def get_schemas(assistant_id: str, graphs: LiveGraphs) -> dict[str, Any]:
    return {"graph_id": _known(assistant_id, graphs), **_schemas()}


@router.post("/threads")
async def create_thread(
    body: ThreadCreate, caller: CurrentCaller, store: LiveStore
) -> dict[str, Any]:
    """Empty until a run has answered on it; `metadata` of a thread are not kept."""
    thread_id = body.thread_id or uuid.uuid4().hex
    if not await store.threads.create(thread_id, caller.owner) and body.if_exists == "raise":
        raise ThreadExists(thread_id)
    row, _ = await store.threads.get(thread_id, caller.owner)
    return {
        "thread_id": thread_id,
        "created_at": replay.iso(row["created_at"]),
        "updated_at": replay.iso(row["updated_at"]),
        "metadata": {},
        "status": "busy" if row["run_id"] else "idle",
        "values": None,
    }


@router.get("/threads/{thread_id}/state")
async def get_state(thread_id: InThread, threads: KeptThreads) -> Response:
    return _json(await threads.state(thread_id, None))


@router.get("/threads/{thread_id}/state/{checkpoint_id}")
async def get_state_at(thread_id: InThread, checkpoint_id: str, threads: KeptThreads) -> Response:
    return _json(await threads.state(thread_id, checkpoint_id))


@router.post("/threads/{thread_id}/state/checkpoint")
async def get_state_of(thread_id: InThread, body: StateRequest, threads: KeptThreads) -> Response:
    return _json(await threads.state(thread_id, body.checkpoint.checkpoint_id))


@router.post("/threads/{thread_id}/history")
async def get_history(thread_id: InThread, body: HistoryRequest, threads: KeptThreads) -> Response:
    """Latest first, those before a checkpoint or from it on."""
    return _json(await threads.history(thread_id, body))


@router.get("/threads/{thread_id}/runs")
async def list_runs(
    thread_id: InThread,
    caller: CurrentCaller,
    store: LiveStore,
    limit: Limit = 10,
    offset: Offset = 0,
) -> list[dict[str, Any]]:
    await store.writer.flush()
    rows, _ = await store.runs.page(caller.owner, limit, offset, RunFilter(thread_id))
    return [_run(row) for row in rows]


@router.post("/runs")
@router.post("/threads/{thread_id}/runs")
async def create_run(
    starting: NewRun, store: LiveStore, thread_id: ThreadId | None = None
) -> Response:
    """In the background, to its end or its deadline."""
    run, _ = await starting.run(thread_id, detach=True)
    row = await store.run_of(run.id, run.record.owner)
    return JSONResponse(_run(row), headers=_places(run))


@router.post("/runs/wait")
@router.post("/threads/{thread_id}/runs/wait")
async def wait_for_run(
    request: Request, starting: NewRun, runs: LiveRuns, thread_id: ThreadId | None = None
) -> Response:
    """The last values of a run, or below `__error__` why it failed."""
    run, messages = await starting.run(thread_id, detach=starting.detach)

    async def reply() -> Response:
        values = _last_values(run.record, messages, await run.outcome())
        return _json(values, headers=_places(run))

    return await while_client_stays(request, reply(), run, runs, starting.detach)


@router.post("/runs/stream")
@router.post("/threads/{thread_id}/runs/stream")
async def stream_run(
    starting: NewRun, runs: LiveRuns, thread_id: ThreadId | None = None
) -> Response:
    modes = starting.payload.modes()
    run, messages = await starting.run(thread_id, detach=starting.detach)
    subgraphs = starting.payload.stream_subgraphs
    parts = protocol.StreamParts(run.record, messages, modes, subgraphs=subgraphs)
    places = _places(run)
    if run.is_resumable:  # otherwise there is nothing to come back to
        places["Location"] = f"{places['Content-Location']}/stream"
    return EventStream(run, runs, starting.detach, encode=parts, headers=places)


@router.get("/threads/{thread_id}/runs/{run_id}")
async def get_run(
    thread_id: InThread, run_id: RunId, caller: CurrentCaller, store: LiveStore
) -> dict[str, Any]:
    return _run(await _row(store, thread_id, run_id, caller.owner))


@router.get("/threads/{thread_id}/runs/{run_id}/join")
async def join_run(
    thread_id: InThread, run_id: RunId, caller: CurrentCaller, store: LiveStore, runs: LiveRuns
) -> Response:
    """Its last values, once it has ended."""
    row = await _row(store, thread_id, run_id, caller.owner)
    last: Event | None = None
    if run := runs.live(run_id):
        last = await run.outcome()
    else:
        with suppress(NotFound):
            last = await replay.outcome(store.runs, run_id)
    messages = await _messages_before(store, row)
    return _json(_last_values(_record(row), messages, last))


@router.get("/threads/{thread_id}/runs/{run_id}/stream")
async def join_stream(
    thread_id: InThread,
    run_id: RunId,
    caller: CurrentCaller,
    store: LiveStore,
    runs: LiveRuns,
    stream_mode: Annotated[list[str] | None, Query()] = None,
    cancel_on_disconnect: bool = False,
    last_event_id: Annotated[int, Header(ge=-1, le=1_000_000_000)] = -1,
) -> Response:
    """What the run tells from now on, and after the event a client has heard last all of it."""
    row = await _row(store, thread_id, run_id, caller.owner)
    modes = protocol.modes_of(stream_mode or ["values"])
    messages = await _messages_before(store, row)
    parts = protocol.StreamParts(_record(row), messages, modes, after=last_event_id)
    if cancel_on_disconnect and (run := runs.live(run_id)):
        return EventStream(run, runs, detach=False, encode=parts)
    return stream_of(run_id, runs, store, encode=parts)


@router.post("/threads/{thread_id}/runs/{run_id}/cancel")
async def cancel_run(
    thread_id: InThread,
    run_id: RunId,
    caller: CurrentCaller,
    store: LiveStore,
    runs: LiveRuns,
    wait: bool = False,
) -> Response:
    """Ends it wherever it is under way; its followers hear the best answer so far."""
    row = await _row(store, thread_id, run_id, caller.owner)
    if run := runs.live(run_id):
        runs.ask_to_stop(run)
        if wait:
            await runs.cancel(run)
    elif row["status"] == "running":
        await store.runs.ask_to_cancel(run_id)
    return Response(status_code=202)


def _known(assistant_id: str, graphs: Mapping[str, Graph]) -> str:
    if assistant_id not in graphs:
        raise NotFound(f"There is no assistant {assistant_id!r}; there are: {', '.join(graphs)}.")
    return assistant_id


def _assistant(name: str) -> dict[str, Any]:
    return {
        "assistant_id": name,
        "graph_id": name,
        "name": name,
        "description": WORKFLOWS[name].description,
        "config": {},
        "context": {},
        "metadata": {"created_by": "system"},
        "version": 1,
        "created_at": SINCE,
        "updated_at": SINCE,
    }


@lru_cache(maxsize=64)
def _drawn(graph: Graph, xray: bool | int) -> dict[str, Any]:
    return graph.get_graph(xray=xray).to_json()


@lru_cache(maxsize=1)
def _schemas() -> dict[str, Any]:
    context = Context.model_json_schema()
    written = protocol.GraphOutput.model_json_schema()
    return {
        "input_schema": protocol.GraphInput.model_json_schema(),
        "output_schema": written,
        "state_schema": written,
        "context_schema": context,
        "config_schema": context,
    }


async def _turns(store: Store, thread_id: str, owner: str) -> list[dict[str, Any]]:
    _, turns = await store.threads.get(thread_id, owner)
    return [
        {
            **turn,
            "citations": json.loads(turn["citations"]),
            "answered_at": replay.iso(turn["answered_at"]),
        }
        for turn in turns
    ]


async def _messages_before(store: Store, row: Row) -> Messages:
    """The dialogue of the run's thread before the run."""
    try:
        turns = await _turns(store, row["thread_id"], row["owner"])
    except NotFound:
        return []
    return protocol.dialogue([turn for turn in turns if turn["asked_at"] < row["created_at"]])


async def _row(store: Store, thread_id: str, run_id: str, owner: str) -> Row:
    row = await store.run_of(run_id, owner)
    if row["thread_id"] != thread_id:
        raise NotFound(f"There is no run {run_id}.")
    return row


def _record(row: Row) -> RunRecord:
    return RunRecord(**{field.name: row[field.name] for field in fields(RunRecord)})


def _run(row: Row) -> dict[str, Any]:
    created = replay.iso(row["created_at"])
    return {
        "run_id": row["id"],
        "thread_id": row["thread_id"],
        "assistant_id": row["workflow"],
        "status": protocol.STATUSES[row["status"]],
        "created_at": created,
        "updated_at": replay.iso(row["ended_at"]) if row["ended_at"] else created,
        "metadata": {},
        "kwargs": json.loads(row["request"]),
        "multitask_strategy": "reject",
    }


def _last_values(record: RunRecord, messages: Messages, last: Event | None) -> dict[str, Any]:
    if not isinstance(last, AnswerEvent):
        problem = getattr(last, "problem", None)
        title, detail = (problem.title, problem.detail) if problem else ("Lost", "No answer.")
        return {"__error__": {"error": title, "message": detail}}
    state = protocol.RunValues(record, messages)
    state.change(last)
    return state.values


def _places(run: Run) -> dict[str, str]:
    """From which a client learns the ids of what it has created."""
    return {"Content-Location": f"/threads/{run.thread_id}/runs/{run.id}"}


def _json(value: object, headers: Mapping[str, str] | None = None) -> Response:
    return Response(as_json(value), media_type="application/json", headers=headers)
