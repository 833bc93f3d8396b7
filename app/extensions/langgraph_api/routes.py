"""LangGraph's API for `RemoteGraph`, langgraph-sdk and `useStream`: assistants, threads, runs.

Described by its makers, so it stands not in our OpenAPI. Runs are those of `POST /ask`: the same
admission, quotas, owners, deadlines and store.
"""

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Request, Response
from langchain_core.messages import AnyMessage
from langgraph_sdk import schema
from pydantic import BaseModel, Field

from app.api.dependencies import CurrentCaller, LiveParts
from app.api.routes import runs as native
from app.api.sse import EventStream, stream_of, while_client_stays
from app.composition.parts import Parts
from app.errors import NotFound, ThreadExists
from app.extensions.langgraph_api import protocol
from app.runs import replay
from app.runs.request import RunRequest
from app.runs.run import Run
from app.schemas.ask import AnswerEvent, ErrorEvent, ThreadId, as_json
from app.storage.api_keys import Caller
from app.storage.runs import RunFilter, RunRecord
from graphs.workflows.registry import WORKFLOWS

router = APIRouter(include_in_schema=False)
SINCE = datetime.now(UTC)
MAX_LISTED = 100
"""Of runs and states at once: a state holds the whole dialogue until then."""

Row = Mapping[str, Any]
Messages = Sequence[AnyMessage]
InThread = Annotated[ThreadId, Path()]
Limit = Annotated[int, Query(ge=1, le=MAX_LISTED)]
Offset = Annotated[int, Query(ge=0, le=1_000_000)]


class CheckpointId(BaseModel):
    checkpoint_id: str | None = None


class HistoryRequest(BaseModel):
    """States before one, or from one on; none is found by its metadata."""

    limit: int = Field(10, ge=1, le=MAX_LISTED)
    before: CheckpointId = Field(default_factory=CheckpointId)
    checkpoint: CheckpointId = Field(default_factory=CheckpointId)
    metadata: None = None


@dataclass(frozen=True, slots=True)
class Backend:
    """What the routes ask of the service, for one caller."""

    caller: Caller
    parts: Parts

    def workflow(self, assistant_id: str) -> str:
        """Raises NotFound."""
        if assistant_id not in self.parts.graphs:
            there = ", ".join(self.parts.graphs)
            raise NotFound(f"There is no assistant {assistant_id!r}; there are: {there}.")
        return assistant_id

    async def start(
        self, payload: protocol.RunPayload, thread_id: str | None, *, detach: bool
    ) -> tuple[Run, Messages]:
        """The run, and the messages before its answer."""
        workflow = self.workflow(payload.assistant_id)
        question = payload.input.as_question()
        name = payload.config.configurable.collection
        scope = await self.parts.collections.scope(self.caller, name)
        missing_ok = payload.if_not_exists == "create"
        turns = await self.turns(thread_id, missing_ok=missing_ok) if thread_id else []
        run = await self.parts.runs.start(
            RunRequest(
                workflow,
                question,
                payload.options(),
                scope,
                thread_id,
                detach=detach,
                resumable=payload.stream_resumable,
            )
        )
        return run, [*protocol.dialogue(turns), *payload.input.messages]

    async def turns(self, thread_id: str, *, missing_ok: bool = False) -> list[dict[str, Any]]:
        """Raises NotFound."""
        try:
            _, turns = await self.parts.store.threads.get(thread_id, self.caller.owner)
        except NotFound:
            if missing_ok:
                return []
            raise
        return [
            {
                **turn,
                "citations": json.loads(turn["citations"]),
                "answered_at": replay.iso(turn["answered_at"]),
            }
            for turn in turns
        ]

    async def states(
        self, thread_id: str, limit: int, before: str | None = None, latest: str | None = None
    ) -> list[schema.ThreadState]:
        """The states of a thread, one after each turn, latest first. Raises NotFound."""
        turns = await self.turns(thread_id)
        ids = [turn["run_id"] for turn in turns]
        if before in ids:
            ids = ids[: ids.index(before)]
        elif latest in ids:
            ids = ids[: ids.index(latest) + 1]
        numbers = range(len(ids), max(len(ids) - limit, 0), -1)
        answers = await self.parts.store.runs.answers(ids[-limit:])
        return await asyncio.to_thread(
            lambda: [
                protocol.thread_state(
                    thread_id, turns[:number], json.loads(answers.get(ids[number - 1], "{}"))
                )
                for number in numbers
            ]
        )

    async def run(self, thread_id: str, run_id: str) -> tuple[RunRecord, Messages]:
        """A run and the dialogue of its thread before it. Raises NotFound."""
        row = await self.row(thread_id, run_id)
        run = RunRecord(**{field.name: row[field.name] for field in fields(RunRecord)})
        turns = await self.turns(thread_id, missing_ok=True)  # gone with the run that failed on it
        return run, protocol.dialogue([it for it in turns if it["asked_at"] < run.created_at])

    async def row(self, thread_id: str, run_id: str) -> Row:
        """Raises NotFound."""
        row = await self.parts.store.run_of(run_id, self.caller.owner)
        if row["thread_id"] != thread_id:
            raise NotFound(f"There is no run {run_id}.")
        return row


async def _backend(caller: CurrentCaller, parts: LiveParts) -> Backend:
    return Backend(caller, parts)


LiveBackend = Annotated[Backend, Depends(_backend)]


@router.post("/assistants/search", response_model=None)
async def search_assistants(
    backend: LiveBackend,
    graph_id: Annotated[str | None, Body()] = None,
    limit: Annotated[int, Body(ge=1)] = 10,
    offset: Annotated[int, Body(ge=0)] = 0,
) -> list[schema.Assistant]:
    assistants = [_assistant(name) for name in backend.parts.graphs if graph_id in (None, name)]
    return assistants[offset : offset + limit]


@router.get("/assistants/{assistant_id}", response_model=None)
async def get_assistant(assistant_id: str, backend: LiveBackend) -> schema.Assistant:
    return _assistant(backend.workflow(assistant_id))


@router.get("/assistants/{assistant_id}/graph")
async def get_graph(
    assistant_id: str, backend: LiveBackend, xray: bool | Annotated[int, Field(ge=0, le=10)] = False
) -> dict[str, Any]:
    graph = backend.parts.graphs[backend.workflow(assistant_id)]
    return await asyncio.to_thread(lambda: graph.get_graph(xray=xray).to_json())


@router.post("/threads")
async def create_thread(
    backend: LiveBackend,
    thread_id: Annotated[ThreadId | None, Body()] = None,
    if_exists: Annotated[schema.OnConflictBehavior, Body()] = "raise",
) -> schema.Thread:
    """Empty until a run has answered on it; `metadata` of a thread are not kept."""
    threads, owner = backend.parts.store.threads, backend.caller.owner
    thread_id = thread_id or uuid.uuid4().hex
    if not await threads.create(thread_id, owner) and if_exists == "raise":
        raise ThreadExists(thread_id)
    row, _ = await threads.get(thread_id, owner)
    return {
        "thread_id": thread_id,
        "created_at": _time(row["created_at"]),
        "updated_at": _time(row["updated_at"]),
        "metadata": {},
        "status": "busy" if row["run_id"] else "idle",
        "values": None,
        "interrupts": {},
    }


@router.get("/threads/{thread_id}/state")
@router.post("/threads/{thread_id}/state/checkpoint")
async def get_state(
    thread_id: InThread,
    backend: LiveBackend,
    checkpoint: Annotated[CheckpointId, Body(default_factory=CheckpointId, embed=True)],
) -> Response:
    """The latest, or that of a checkpoint."""
    name = checkpoint.checkpoint_id
    states = await backend.states(thread_id, 1, latest=name)
    (state,) = states or [protocol.thread_state(thread_id, [], {})]
    if name not in (None, state["checkpoint"]["checkpoint_id"]):
        raise NotFound(f"There is no checkpoint {name} of thread {thread_id}.")
    return _json(state)


@router.post("/threads/{thread_id}/history")
async def get_history(thread_id: InThread, body: HistoryRequest, backend: LiveBackend) -> Response:
    """The latest first."""
    before, latest = body.before.checkpoint_id, body.checkpoint.checkpoint_id
    return _json(await backend.states(thread_id, body.limit, before, latest))


@router.get("/threads/{thread_id}/runs")
async def list_runs(
    thread_id: InThread, backend: LiveBackend, limit: Limit = 10, offset: Offset = 0
) -> list[schema.Run]:
    store = backend.parts.store
    await store.writer.flush()
    rows, _ = await store.runs.page(backend.caller.owner, limit, offset, RunFilter(thread_id))
    return [_run(row) for row in rows]


@router.post("/runs")
@router.post("/threads/{thread_id}/runs")
async def create_run(
    body: protocol.RunPayload,
    backend: LiveBackend,
    response: Response,
    thread_id: ThreadId | None = None,
) -> schema.Run:
    """In the background, to its end or its deadline."""
    run, _ = await backend.start(body, thread_id, detach=True)
    response.headers.update(_places(run))
    return _run(await backend.row(run.thread_id, run.id))


@router.post("/runs/wait")
@router.post("/threads/{thread_id}/runs/wait")
async def wait_for_run(
    body: protocol.RunPayload,
    request: Request,
    backend: LiveBackend,
    thread_id: ThreadId | None = None,
) -> Response:
    """The last values of a run, or below `__error__` why it failed."""
    detach = body.on_disconnect == "continue"
    run, before = await backend.start(body, thread_id, detach=detach)

    async def reply() -> Response:
        values = _last_values(run.record, before, await run.outcome())
        return _json(values, headers=_places(run))

    return await while_client_stays(request, reply(), run, backend.parts.runs, detach)


@router.post("/runs/stream")
@router.post("/threads/{thread_id}/runs/stream")
async def stream_run(
    body: protocol.RunPayload, backend: LiveBackend, thread_id: ThreadId | None = None
) -> Response:
    detach = body.on_disconnect == "continue"
    run, before = await backend.start(body, thread_id, detach=detach)
    parts = protocol.StreamParts(
        run.record, before, body.stream_mode, subgraphs=body.stream_subgraphs
    )
    places = _places(run)
    if run.is_resumable:  # otherwise there is nothing to come back to
        places["Location"] = f"{places['Content-Location']}/stream"
    return EventStream(run, backend.parts.runs, detach, encode=parts, headers=places)


@router.get("/threads/{thread_id}/runs/{run_id}")
async def get_run(thread_id: InThread, run_id: native.RunId, backend: LiveBackend) -> schema.Run:
    return _run(await backend.row(thread_id, run_id))


@router.get("/threads/{thread_id}/runs/{run_id}/join")
async def join_run(thread_id: InThread, run_id: native.RunId, backend: LiveBackend) -> Response:
    """Its last values, once it has ended."""
    record, before = await backend.run(thread_id, run_id)
    run = backend.parts.runs.live(run_id)
    last = await (run.outcome() if run else replay.outcome(backend.parts.store.runs, run_id))
    return _json(_last_values(record, before, last))


@router.get("/threads/{thread_id}/runs/{run_id}/stream")
async def join_stream(
    thread_id: InThread,
    run_id: native.RunId,
    backend: LiveBackend,
    stream_mode: Annotated[
        protocol.StreamModes, Query(default_factory=list, validate_default=True)
    ],
    last_event_id: Annotated[int, Header(ge=-1, le=1_000_000_000)] = -1,
) -> Response:
    """What the run tells after the event that a client has heard last."""
    record, before = await backend.run(thread_id, run_id)
    parts = protocol.StreamParts(record, before, stream_mode, after=last_event_id)
    return stream_of(run_id, backend.parts.runs, backend.parts.store, encode=parts)


@router.post("/threads/{thread_id}/runs/{run_id}/cancel", status_code=202)
async def cancel_run(
    thread_id: InThread, run_id: native.RunId, backend: LiveBackend, wait: bool = False
) -> None:
    """Ends it wherever it is under way; its followers hear the best answer so far."""
    await backend.row(thread_id, run_id)
    await native.cancel_run(run_id, backend.caller, backend.parts.store, backend.parts.runs)
    if wait and (run := backend.parts.runs.live(run_id)):
        await backend.parts.runs.cancel(run)


def _assistant(name: str) -> schema.Assistant:
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


def _run(row: Row) -> schema.Run:
    return {
        "run_id": row["id"],
        "thread_id": row["thread_id"],
        "assistant_id": row["workflow"],
        "status": protocol.STATUSES[row["status"]],
        "created_at": _time(row["created_at"]),
        "updated_at": _time(row["ended_at"] or row["created_at"]),
        "metadata": {},
        "multitask_strategy": "reject",
    }


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _last_values(
    record: RunRecord, before: Messages, last: AnswerEvent | ErrorEvent
) -> dict[str, Any]:
    if isinstance(last, ErrorEvent):
        return {"__error__": protocol.failure(last.problem)}
    state = protocol.RunValues(record, before)
    state.change(last)
    return state.values


def _places(run: Run) -> dict[str, str]:
    """From which a client learns the ids of what it has created."""
    return {"Content-Location": f"/threads/{run.thread_id}/runs/{run.id}"}


def _json(value: object, headers: Mapping[str, str] | None = None) -> Response:
    return Response(as_json(value), media_type="application/json", headers=headers)
