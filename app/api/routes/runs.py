"""`/runs`: runs looked at, followed, cancelled, judged, compared. `/threads`: conversations."""

import asyncio
import json
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request, Response

from app.api.dependencies import CurrentCaller, LiveParts, LiveRuns, LiveStore
from app.api.openapi import merged
from app.api.problems import problems
from app.api.routes.ask import REFUSALS, accepts_events, whole
from app.api.sse import EVENT_STREAM, EventStream, stream_of, while_client_stays
from app.runs import replay
from app.runs.fork import fork_of
from app.runs.prompts import unpacked
from app.runs.request import RunRequest
from app.schemas.ask import AskResponse, ThreadId, as_json
from app.schemas.runs import (
    Feedback,
    FeedbackRequest,
    ForkRequest,
    RunList,
    RunPrompts,
    RunState,
    Status,
    StoredRun,
    Thread,
)
from app.storage.run_diff import RunDiff, difference
from app.storage.runs import RunFilter
from graphs.state import Context, Question
from graphs.types import Action, Verdict

runs_router = APIRouter(prefix="/runs", tags=["runs"])
threads_router = APIRouter(prefix="/threads", tags=["threads"])

RunId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="The run's id.")]
PAGE = 50


@runs_router.get("", responses=problems(422, 503))
async def list_runs(
    caller: CurrentCaller,
    store: LiveStore,
    limit: Annotated[int, Query(ge=1, le=200)] = PAGE,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    thread_id: ThreadId | None = None,
    q: Annotated[str, Query(max_length=200, description="Part of the question.")] = "",
    workflow: Annotated[str | None, Query(max_length=64)] = None,
    status: Status | None = None,
    action: Action | None = None,
    verdict: Verdict | None = None,
) -> RunList:
    """The caller's runs, newest first, those under way among them; all, or those that match."""
    await store.writer.flush()
    filters = RunFilter(thread_id, q.strip(), workflow, status, action, verdict)
    rows, total = await store.runs.page(caller.owner, limit, offset, filters)
    answers = await store.runs.answers([row["id"] for row in rows])
    # In a thread, since each answer is read whole.
    runs = await asyncio.to_thread(
        lambda: [replay.summary(row, answers.get(row["id"])) for row in rows]
    )
    return RunList(runs=runs, total=total, limit=limit, offset=offset)


@runs_router.get("/{run_id}", response_model=StoredRun, responses=problems(404, 422, 503))
async def get_run(run_id: RunId, caller: CurrentCaller, store: LiveStore) -> Response:
    """The whole trace: request, thresholds, every event with its time, answer and feedback."""
    row = await store.run_of(run_id, caller.owner)
    events = await store.runs.events(run_id)
    trace = replay.trace(row, events, await store.runs.judgements(run_id))
    return Response(as_json(trace), media_type="application/json")


@runs_router.get(
    "/{run_id}/events",
    response_class=Response,
    responses={
        200: {"content": {EVENT_STREAM: {}}},
        204: {"description": "The run has ended and nothing follows."},
        **problems(404, 422, 503),
    },
)
async def follow_run(
    run_id: RunId,
    caller: CurrentCaller,
    store: LiveStore,
    runs: LiveRuns,
    last_event_id: Annotated[int, Header(ge=-1, le=1_000_000_000)] = -1,
    after: Annotated[int, Query(ge=-1, le=1_000_000_000)] = -1,
) -> Response:
    """The events after `Last-Event-ID` and `after` as they were sent, then those to come.

    204 where a run has ended and nothing follows: browsers stop asking then.
    """
    row = await store.run_of(run_id, caller.owner)
    start = max(after, last_event_id) + 1
    has_ended = runs.live(run_id) is None and row["status"] != "running"
    if has_ended and not await store.runs.events(run_id, start):
        return Response(status_code=204)
    return stream_of(run_id, runs, store, start)


@runs_router.get("/{run_id}/prompts", responses=problems(404, 422, 503))
async def get_prompts(
    run_id: RunId, caller: CurrentCaller, store: LiveStore, runs: LiveRuns
) -> RunPrompts:
    """What the run's steps sent to language models, so far where it is under way here.

    At most 50 calls; of a message longer than 20,000 characters the middle is left out. Nothing
    with `SELFCRAG_KEEP_PROMPTS=false`.
    """
    await store.run_of(run_id, caller.owner)
    if run := runs.live(run_id):
        return RunPrompts(prompts=list(run.prompts))
    return RunPrompts(prompts=unpacked(await store.runs.prompts(run_id)))


@runs_router.post("/{run_id}/cancel", status_code=202, responses=problems(404, 422, 503))
async def cancel_run(
    run_id: RunId, caller: CurrentCaller, store: LiveStore, runs: LiveRuns
) -> RunState:
    """Stop a run wherever it is under way; whoever follows it hears the best answer so far."""
    row = await store.run_of(run_id, caller.owner)
    if run := runs.live(run_id):
        runs.ask_to_stop(run)
    elif row["status"] == "running":
        await store.runs.ask_to_cancel(run_id)
    return RunState(run_id=run_id, status=row["status"])


@runs_router.post("/{run_id}/fork", response_model=AskResponse, responses=REFUSALS)
async def fork_run(
    run_id: RunId,
    body: ForkRequest,
    request: Request,
    caller: CurrentCaller,
    parts: LiveParts,
) -> Response:
    """Answer the same question again from one of the run's steps on, with other options.

    What was found up to that step is kept: with `grade` the action alone is chosen anew. The fork
    is a run and a conversation of its own; its request names the run in `from_run`.
    """
    runs, store = parts.runs, parts.store
    row = await store.run_of(run_id, caller.owner)
    original = json.loads(row["request"])
    changed = body.options.model_dump(mode="json", exclude_unset=True)
    context = Context.model_validate(merged(original["options"], changed))
    saved = await store.runs.fork_data(run_id)
    fork = fork_of(run_id, row["question"], saved, body.step, context, parts.services)
    question = Question(question=row["question"], history=fork.state["history"])
    is_streamed = body.stream or accepts_events(request)
    scope = await parts.collections.scope(caller, original.get("collection"))
    run = await runs.start(
        RunRequest(row["workflow"], question, context, scope, detach=body.detach, fork=fork)
    )
    if is_streamed:
        return EventStream(run, runs, body.detach)
    return await while_client_stays(request, whole(request, run.outcome()), run, runs, body.detach)


@runs_router.post("/{run_id}/feedback", status_code=201, responses=problems(404, 413, 422, 503))
async def judge_run(
    run_id: RunId, body: FeedbackRequest, caller: CurrentCaller, store: LiveStore
) -> Feedback:
    """Say how good an answer was; `selfcrag runs export` makes training rows of it."""
    await store.run_of(run_id, caller.owner)
    return replay.feedback(await store.runs.judge(run_id, body))


@runs_router.get("/{run_id}/diff/{other_id}", responses=problems(404, 422, 503))
async def compare_runs(
    run_id: RunId, other_id: RunId, caller: CurrentCaller, store: LiveStore
) -> RunDiff:
    """What changed from one run to another: request, grades, branch, strips, drafts, answer."""
    traces = []
    for one in (run_id, other_id):
        row = await store.run_of(one, caller.owner)
        traces.append(replay.trace(row, await store.runs.events(one), ()))
    return await asyncio.to_thread(difference, *traces)


@threads_router.get(
    "/{thread_id}", response_model_exclude_none=True, responses=problems(404, 422, 503)
)
async def get_thread(thread_id: ThreadId, caller: CurrentCaller, store: LiveStore) -> Thread:
    """The questions and answers of a conversation, oldest first."""
    return replay.thread(*await store.threads.get(thread_id, caller.owner))


@threads_router.delete("/{thread_id}", status_code=204, responses=problems(404, 409, 422, 503))
async def delete_thread(thread_id: ThreadId, caller: CurrentCaller, store: LiveStore) -> Response:
    """Forget a conversation, the traces of its runs and their feedback."""
    await store.threads.delete(thread_id, caller.owner)
    return Response(status_code=204)
