"""`POST /ask/ui`: what the AI SDK's `useChat` asks, answered in its stream of message parts."""

from fastapi import APIRouter, Response

from app.api.dependencies import Choose, CurrentCaller, LiveGraphs, LiveRuns
from app.api.problems import problems
from app.api.sse import EVENT_STREAM, EventStream
from app.errors import InvalidRequest
from app.protocols.ai_sdk import HEADERS, UIParts
from app.protocols.messages import prefer_thread, question_of
from app.schemas.ai_sdk import UIRequest
from graphs.workflows.registry import DEFAULT_WORKFLOW

router = APIRouter(tags=["AI SDK"])
STREAM = {
    "description": "The parts of one message, one `data:` line each, `[DONE]` at the end.",
    "content": {
        EVENT_STREAM: {
            "schema": {"type": "string"},
            "example": 'data: {"type":"text-delta","id":"text-0","delta":"It is tall [1]."}\n\n',
        }
    },
}
# The first answer again: there is no dialogue before it, whatever the thread remembers.
REGENERATE = "regenerate-message"


@router.post(
    "/ask/ui",
    response_class=Response,
    responses={200: STREAM, **problems(404, 409, 413, 422, 500, 503)},
)
async def ask_ui(
    body: UIRequest,
    caller: CurrentCaller,
    runs: LiveRuns,
    graphs: LiveGraphs,
    choose: Choose,
) -> Response:
    """Answer the last message of the user as the parts of one message; the chat is the thread."""
    workflow = DEFAULT_WORKFLOW if body.workflow is None else body.workflow
    if workflow not in graphs:
        raise InvalidRequest("#/workflow", f"unknown; built are: {', '.join(graphs)}")
    options = choose(body.options)
    question = question_of(body.turns())
    if body.trigger != REGENERATE:
        prefer_thread(question)
    run = await runs.start(workflow, question, options, body.id, owner=caller.owner)
    parts = UIParts(run, question["question"], body.drafts)
    return EventStream(run, runs, detach=False, encode=parts, headers=HEADERS)


@router.get("/ask/ui/{chat_id}/stream", include_in_schema=False)
async def resume_ui() -> Response:
    """What `useChat` asks with `resume`: nothing to go on with, for a run ends with its client.

    The AI SDK reads 204 as that, and everything else that is no stream as a failure.
    """
    return Response(status_code=204)
