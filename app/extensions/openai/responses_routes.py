"""`/v1/responses`: the workflows as models of OpenAI's Responses; a run is a stored response."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from app.api.dependencies import (
    ClientAddresses,
    CurrentCaller,
    LiveParts,
    LiveRuns,
    LiveStore,
)
from app.api.problems import problem_response
from app.api.routes.ask import asked_of
from app.api.sse import EVENT_STREAM, EventStream, stream_of, while_client_stays
from app.errors import NotFound, ThreadBusy
from app.extensions.openai import open_webui
from app.extensions.openai.chat import NotOffered
from app.extensions.openai.chat_routes import COLLECTION, errors, model, named, options_of
from app.extensions.openai.responses import (
    MESSAGE,
    REFERENCE,
    RESPONSE,
    DeletedResponse,
    ResponseEcho,
    ResponseEvents,
    ResponseObject,
    ResponseRequest,
    response_of,
)
from app.protocols.addresses import Addresses
from app.protocols.messages import MAX_MESSAGES, DialogueTurn, prefer_thread
from app.runs import replay
from app.runs.request import RunRequest
from app.runs.run import Run
from app.schemas.ask import AskResponse, ErrorEvent, as_json, event_of
from app.storage.lifecycle import Store
from graphs.ports import Services
from graphs.state import Question
from graphs.types import Message
from graphs.workflows.registry import IMAGE_WORKFLOW

router = APIRouter(prefix="/v1/responses", tags=["OpenAI"])
STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {EVENT_STREAM: {"schema": {"type": "string"}}}}
}
CANCELLED_WITHIN_S = 2.0
"""Longest wait for another process to end a run."""
_RUN_ID = re.compile("[0-9a-f]{32}")
Row = Mapping[str, Any]


@router.post(
    "",
    response_model=ResponseObject,
    responses={**STREAM, **errors(400, 404, 409, 413, 422, 429, 500, 503)},
)
async def respond(
    body: ResponseRequest,
    request: Request,
    caller: CurrentCaller,
    parts: LiveParts,
    addresses: ClientAddresses,
) -> Response:
    """Answer the last message of the user; `stream` tells the steps as a summary of reasoning."""
    name, runs = model(body.model, parts.graphs).id, parts.runs
    _check(body)
    question, thread = await question_and_thread(body, parts.store, caller.owner, parts.services)
    scope = await parts.collections.scope(caller, named(body, "collection", COLLECTION))
    run = await runs.start(
        RunRequest(
            name,
            question,
            options_of(body),
            scope,
            thread,
            detach=bool(body.background),
            keep=body.store is not False,
            protocol=echo_of(body).model_dump(exclude_defaults=True),
        )
    )
    if body.stream:
        encode = ResponseEvents(run.record, addresses)
        return EventStream(run, runs, detach=bool(body.background), encode=encode)
    if body.background:
        return _json(response_of(run.record, (), addresses))
    return await while_client_stays(request, whole(request, run, addresses), run, runs)


def _check(body: ResponseRequest) -> None:
    """Raises NotOffered for what excludes each other."""
    if body.background and body.store is False:
        both, param = "background and store: false", "store"
    elif body.previous_response_id and body.conversation:
        both, param = "previous_response_id and conversation", "conversation"
    else:
        return
    raise NotOffered(400, f"{both} exclude each other.", param=param, code="invalid_value")


async def question_and_thread(
    body: ResponseRequest, store: Store, owner: str, services: Services
) -> tuple[Question, str | None]:
    """What the graphs are asked, and on which thread. Raises InvalidRequest, NotOffered."""
    dialogue = await turns(body, store, owner)
    question = await asked_of(dialogue, body.model, services, "#/input")
    open_webui.refuse_task(question["question"], "input")
    thread = body.thread or named(body, "thread_id", open_webui.THREAD)
    if (before := body.previous_response_id) is None:
        if thread is not None and body.store is False:  # the run does not enter the thread
            question["history"] = question["history"] or await _dialogue_of(thread, store, owner)
        elif thread is not None:
            prefer_thread(question)
        return question, thread
    unknown = NotOffered(
        404,
        f"Previous response with id {before!r:.80} not found.",
        param="previous_response_id",
        code="previous_response_not_found",
    )
    run_id = before.removeprefix(RESPONSE)
    row = await _row(run_id, store, owner, unknown)
    past = await store.threads.history(row["thread_id"], until_run=run_id)
    question["history"] = [*past, *question["history"]][-MAX_MESSAGES:]
    return question, row["thread_id"]


async def _dialogue_of(thread: str, store: Store, owner: str) -> list[Message]:
    """The dialogue of a thread; none where the owner has no such thread."""
    try:
        await store.threads.get(thread, owner)
    except NotFound:
        return []
    return await store.threads.history(thread)


async def turns(body: ResponseRequest, store: Store, owner: str) -> list[DialogueTurn]:
    """The messages of the input, those that it refers to as they were answered."""
    if isinstance(body.input, str):
        return [DialogueTurn("user", body.input, "#/input", set())]
    dialogue = []
    first = len(body.input) - MAX_MESSAGES
    for n, item in enumerate(body.input):
        if item.kind == "message":
            sees_images = body.model == IMAGE_WORKFLOW
            dialogue.append(item.turn(f"#/input/{n}/content", sees_images=sees_images))
        elif item.kind == REFERENCE and (item.id or "").startswith(MESSAGE) and n >= first:
            run_id = str(item.id).removeprefix(MESSAGE)
            reason = f"Item with id {item.id!r:.80} not found."
            unknown = NotOffered(404, reason, param=f"input[{n}].id", code="not_found")
            await _row(run_id, store, owner, unknown)
            payload = (await store.runs.answers([run_id])).get(run_id)
            if payload is not None:
                answer = AskResponse.model_validate_json(payload).answer
                dialogue.append(DialogueTurn("assistant", answer, f"#/input/{n}", set()))
    return dialogue


async def _row(run_id: str, store: Store, owner: str, unknown: Exception) -> Row:
    """Raises `unknown` where the owner has no such run."""
    if not _RUN_ID.fullmatch(run_id):
        raise unknown
    try:
        return await store.run_of(run_id, owner)
    except NotFound:
        raise unknown from None


def echo_of(body: ResponseRequest) -> ResponseEcho:
    fields = body.model_dump(include={*ResponseEcho.model_fields}, exclude_none=True)
    return ResponseEcho(**{**fields, "conversation": body.thread and {"id": body.thread}})


async def whole(request: Request, run: Run, addresses: Addresses) -> Response:
    """The run's last word as one JSON body: the response, or the error that ended it."""
    last = await run.outcome()
    if isinstance(last, ErrorEvent):
        return problem_response(request.scope, last.problem)
    events = await run.all_events()
    return _json(await asyncio.to_thread(response_of, run.record, events, addresses))


@router.get("/{response_id}", response_model=ResponseObject, responses=errors(404, 422, 503))
async def stored(
    response_id: str,
    caller: CurrentCaller,
    runs: LiveRuns,
    store: LiveStore,
    addresses: ClientAddresses,
    stream: Annotated[bool, Query(description="Tell its events, and those to come.")] = False,
    starting_after: Annotated[
        int, Query(ge=-1, le=1_000_000_000, description="The last `sequence_number` that came.")
    ] = -1,
) -> Response:
    """A response by its id, from whichever process it came; one under way as far as it got."""
    row = await _response_row(response_id, store, caller.owner)
    if not stream:
        return _json(await _restored(row, store, addresses))
    encode = ResponseEvents(row, addresses, after=starting_after, ended_at=row["ended_at"])
    return stream_of(row["id"], runs, store, encode=encode)


@router.post(
    "/{response_id}/cancel", response_model=ResponseObject, responses=errors(404, 422, 503)
)
async def cancel(
    response_id: str,
    caller: CurrentCaller,
    runs: LiveRuns,
    store: LiveStore,
    addresses: ClientAddresses,
) -> Response:
    """Stop a response wherever it is under way; one that has ended stays as it is."""
    row = await _response_row(response_id, store, caller.owner)
    if run := runs.live(row["id"]):
        await runs.cancel(run)
    elif row["status"] == "running":
        await store.runs.ask_to_cancel(row["id"])
        for _ in range(round(CANCELLED_WITHIN_S / replay.POLL_S)):
            if (await store.runs.get(row["id"], None))["status"] != "running":
                break
            await asyncio.sleep(replay.POLL_S)
    row = await _response_row(response_id, store, caller.owner)
    return _json(await _restored(row, store, addresses))


@router.delete("/{response_id}", responses=errors(404, 409, 422, 503))
async def delete(response_id: str, caller: CurrentCaller, store: LiveStore) -> DeletedResponse:
    """Forget a response: its run, its turn of the conversation, and what was said of it."""
    row = await _response_row(response_id, store, caller.owner)
    if row["status"] == "running":
        raise ThreadBusy(row["thread_id"])
    await store.threads.delete_run(row["thread_id"], row["id"])
    return DeletedResponse(id=RESPONSE + row["id"])


async def _response_row(response_id: str, store: Store, owner: str) -> Row:
    """Of the run that is the response. Raises NotFound."""
    run_id = response_id.removeprefix(RESPONSE) if response_id.startswith(RESPONSE) else ""
    return await _row(run_id, store, owner, NotFound(f"There is no response {response_id:.80}."))


async def _restored(row: Row, store: Store, addresses: Addresses) -> ResponseObject:
    stored = await store.runs.events(row["id"])
    # In a thread, since each event is read whole.
    return await asyncio.to_thread(_from_rows, row, stored, addresses)


def _from_rows(row: Row, stored: Sequence[Any], addresses: Addresses) -> ResponseObject:
    events = [event for each in stored if (event := event_of(each.name, each.data)) is not None]
    return response_of(row, events, addresses, row["ended_at"])


def _json(response: ResponseObject) -> Response:
    return Response(as_json(response.model_dump()), media_type="application/json")
