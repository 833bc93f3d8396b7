"""`POST /ask/ui`: what the AI SDK's `useChat` asks, answered in its stream of message parts."""

from fastapi import APIRouter, Response

from app.errors import InvalidRequest, problems
from app.protocols.dialogue import question_of
from app.protocols.ui_stream import HEADERS, UIParts
from app.routes.ask import check_thresholds
from app.routes.deps import CurrentCaller, LiveGraphs, LiveRuns, LiveServices
from app.stream import EventStream
from app.ui_schemas import UIRequest
from graphs.workflows import DEFAULT_WORKFLOW

router = APIRouter(tags=["AI SDK"])


@router.post(
    "/ask/ui",
    response_class=EventStream,
    responses=problems(401, 403, 409, 413, 422, 429, 500, 503),
)
async def ask_ui(
    body: UIRequest,
    caller: CurrentCaller,
    runs: LiveRuns,
    graphs: LiveGraphs,
    services: LiveServices,
) -> Response:
    """Answer the last message of the user as the parts of one message; the chat is the thread."""
    workflow = DEFAULT_WORKFLOW if body.workflow is None else body.workflow
    if workflow not in graphs:
        raise InvalidRequest("#/workflow", f"unknown; built are: {', '.join(graphs)}")
    check_thresholds(body.options, services)
    question = question_of(body.turns())
    run = await runs.start(workflow, question, body.options, body.id, owner=caller.owner)
    parts = UIParts(run, question["question"], body.drafts)
    return EventStream(run, runs, detach=False, encode=parts, headers=HEADERS)
