"""`POST /ask`: an answer, as JSON or as events. `GET /workflows`: what can be asked."""

import asyncio
from functools import lru_cache

from fastapi import APIRouter, Request, Response

from app.api.dependencies import Choose, CurrentCaller, LiveGraphs, LiveRuns
from app.api.problems import problem_response, problems
from app.api.sse import EVENT_STREAM, ClientLeft, EventStream, while_client_stays
from app.errors import InvalidRequest
from app.runs.run import Run
from app.schemas.ask import (
    AnswerEvent,
    AskRequest,
    AskResponse,
    ErrorEvent,
    WorkflowInfo,
    Workflows,
)
from app.schemas.event_json import data_of
from graphs.state import Context, Question
from graphs.workflows.registry import DEFAULT_WORKFLOW, WORKFLOWS, Graph

router = APIRouter(tags=["ask"])
# Nobody reads it; the log does.
CLIENT_CLOSED_REQUEST = 499


def accepts_events(accept: str) -> bool:
    """Whether the header asks for an event stream; `q=0` refuses it."""
    kinds = (kind.replace(" ", "").partition(";") for kind in accept.lower().split(","))
    return any(name == EVENT_STREAM and weight not in ("q=0", "q=0.0") for name, _, weight in kinds)


@router.post("/ask", response_model=AskResponse, responses=problems(404, 409, 413, 422, 500, 503))
async def ask(
    body: AskRequest,
    request: Request,
    caller: CurrentCaller,
    runs: LiveRuns,
    graphs: LiveGraphs,
    choose: Choose,
) -> Response:
    """Answer a question; `stream` or `Accept: text/event-stream` sends the steps as they happen."""
    workflow = DEFAULT_WORKFLOW if body.workflow is None else body.workflow
    if workflow not in graphs:
        raise InvalidRequest("#/workflow", f"unknown; built are: {', '.join(graphs)}")
    options = choose(body.options)
    run = await runs.start(
        workflow,
        Question(question=body.question),
        options,
        body.thread_id,
        owner=caller.owner,
        detach=body.detach,
    )
    if body.stream or accepts_events(request.headers.get("accept", "")):
        return EventStream(run, runs, body.detach)
    try:
        return await while_client_stays(request, whole(request, run))
    except ClientLeft:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    finally:
        if not body.detach:
            await runs.cancel(run)


async def whole(request: Request, run: Run) -> Response:
    """The run's last word as one JSON body: its answer, or the problem that ended it."""
    for event in await run.all_events():
        if isinstance(event, AnswerEvent):
            return Response(data_of(event), media_type="application/json")
        if isinstance(event, ErrorEvent):
            return problem_response(request.scope, event.problem)
    raise RuntimeError("a run ended without an answer or an error")


@router.get("/workflows", response_model=Workflows, responses=problems())
async def workflows(graphs: LiveGraphs) -> Response:
    """What can be asked: each workflow with its drawing and the schema of its options."""
    described = await asyncio.to_thread(_described, tuple(graphs.items()))
    return Response(described, media_type="application/json")


@lru_cache(maxsize=1)
def _described(graphs: tuple[tuple[str, Graph], ...]) -> str:
    """The same for every caller; drawing takes long enough to hold up others."""
    schema = Context.model_json_schema()
    infos = [
        WorkflowInfo(
            name=name,
            description=WORKFLOWS[name].description,
            mermaid=graph.get_graph(xray=1).draw_mermaid(),
            context_schema=schema,
        )
        for name, graph in graphs
    ]
    return Workflows(workflows=infos, default=DEFAULT_WORKFLOW).model_dump_json()
