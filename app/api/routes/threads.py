"""`/threads`: conversations read again, and forgotten with all that was kept of them."""

from fastapi import APIRouter, Response

from app.api.dependencies import CurrentCaller, LiveStore
from app.errors import problems
from app.runs import replay
from app.schemas.ask import ThreadId
from app.schemas.runs import Thread

router = APIRouter(prefix="/threads", tags=["threads"])


@router.get("/{thread_id}", response_model_exclude_none=True, responses=problems(404, 422, 503))
async def get_thread(thread_id: ThreadId, caller: CurrentCaller, store: LiveStore) -> Thread:
    """The questions and answers of a conversation, oldest first."""
    return replay.thread(*await store.threads.get(thread_id, caller.owner))


@router.delete("/{thread_id}", status_code=204, responses=problems(404, 409, 422, 503))
async def delete_thread(thread_id: ThreadId, caller: CurrentCaller, store: LiveStore) -> Response:
    """Forget a conversation, the traces of its runs and their feedback."""
    await store.threads.delete(thread_id, caller.owner)
    return Response(status_code=204)
