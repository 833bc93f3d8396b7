"""`POST /ask/ui`: an answer in the AI SDK's message stream."""

from fastapi import APIRouter, Response

from app.api.dependencies import ClientAddresses, CurrentCaller, LiveParts
from app.api.routes.ask import REFUSALS, asked_of, built
from app.api.sse import EVENT_STREAM, EventStream
from app.extensions.ai_sdk.stream import HEADERS, UIParts, UIRequest
from app.protocols.messages import prefer_thread
from app.runs.request import RunRequest
from graphs.workflows.registry import IMAGE_WORKFLOW

router = APIRouter(tags=["AI SDK"])
_PART = 'data: {"type":"text-delta","id":"text-0","delta":"It is tall [1]."}\n\n'
UI_STREAM = {
    "description": "The parts of one message, one `data:` line each, `[DONE]` at the end.",
    "content": {EVENT_STREAM: {"schema": {"type": "string"}, "example": _PART}},
}
# The first answer again: there is no dialogue before it, whatever the thread remembers.
REGENERATE = "regenerate-message"


@router.post(
    "/ask/ui",
    response_class=Response,
    responses={200: UI_STREAM, **REFUSALS},
)
async def ask_ui(
    body: UIRequest,
    caller: CurrentCaller,
    parts: LiveParts,
    addresses: ClientAddresses,
) -> Response:
    """Answer the last message of the user as the parts of one message; the chat is the thread."""
    of_image = IMAGE_WORKFLOW if body.shows_image else None
    workflow = built(of_image if body.workflow is None else body.workflow, parts.graphs)
    question = await asked_of(body.turns(workflow), workflow, parts.services)
    if body.trigger != REGENERATE:
        prefer_thread(question)
    scope = await parts.collections.scope(caller, body.collection)
    run = await parts.runs.start(RunRequest(workflow, question, body.options, scope, body.id))
    encode = UIParts(question["question"], body.drafts, addresses)
    return EventStream(run, parts.runs, detach=False, encode=encode, headers=HEADERS)


@router.get("/ask/ui/{chat_id}/stream", include_in_schema=False)
async def resume_ui() -> Response:
    """What `useChat` asks with `resume`: nothing to go on with, for a run ends with its client.

    The AI SDK reads 204 as that, and everything else that is no stream as a failure.
    """
    return Response(status_code=204)
