"""`POST /ask`: an answer, as JSON or as events, `/ask/ui`: in the AI SDK's stream; `/workflows`."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response

from app.api.dependencies import CurrentCaller, LiveParts
from app.api.problems import problem_response, problems
from app.api.sse import EVENT_STREAM, RUN_HEADER, EventStream, stream_of, while_client_stays
from app.errors import AlreadyBegun, InvalidRequest
from app.protocols.messages import DialogueTurn, image_of, question_of
from app.runs import replay
from app.runs.manager import Runs
from app.runs.request import RunRequest
from app.schemas.ask import (
    MAX_IMAGE_CHARS,
    AnswerEvent,
    AskRequest,
    AskResponse,
    ErrorEvent,
    WorkflowInfo,
    Workflows,
)
from app.storage.lifecycle import Store
from app.storage.runs import IdempotencyKey
from graphs.errors import InvalidImage
from graphs.ports import Services
from graphs.state import Context, Question
from graphs.workflows.registry import DEFAULT_WORKFLOW, IMAGE_WORKFLOW, WORKFLOWS, Graph

router = APIRouter(tags=["ask"])
TOO_LONG = f"the data URL of an image has at most {MAX_IMAGE_CHARS:,} characters"
MAX_KEY_CHARS = 200
KEY_HEADER = "Idempotency-Key"
KEY_USED = "names another request of the last day: a key goes with one body"


def accepts_events(request: Request) -> bool:
    """Whether its `Accept` header asks for an event stream; `q=0` refuses it."""
    accept = request.headers.get("accept", "").lower().replace(" ", "")
    kinds = (kind.partition(";") for kind in accept.split(","))
    return any(name == EVENT_STREAM and weight not in ("q=0", "q=0.0") for name, _, weight in kinds)


def built(workflow: str | None, graphs: Mapping[str, Graph]) -> str:
    """The workflow that is asked, the default where none is named. Raises InvalidRequest."""
    name = DEFAULT_WORKFLOW if workflow is None else workflow
    if name not in graphs:
        raise InvalidRequest("#/workflow", f"unknown; built are: {', '.join(graphs)}")
    return name


REFUSALS = problems(404, 409, 413, 422, 429, 500, 503)


@router.post("/ask", response_model=AskResponse, responses=REFUSALS)
async def ask(
    body: AskRequest,
    request: Request,
    caller: CurrentCaller,
    parts: LiveParts,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=MAX_KEY_CHARS,
            description="Names the request for a day: sent again with the same body it is told the"
            " run that it began.",
        ),
    ] = None,
) -> Response:
    """Answer a question; `stream` or `Accept: text/event-stream` sends the steps as they happen."""
    key = key_of(body, idempotency_key)
    is_streamed = body.stream or accepts_events(request)
    of_image = IMAGE_WORKFLOW if body.image else None
    workflow = built(of_image if body.workflow is None else body.workflow, parts.graphs)
    runs, store = parts.runs, parts.store
    if run_id := await begun_before(store, caller.owner, key):
        return await told_again(request, run_id, runs, store, is_streamed)
    question = body.as_question()
    if body.image:
        question["image"] = await plain_image(body.image, workflow, parts.services, "#/image")
    try:
        run = await runs.start(
            RunRequest(
                workflow,
                question,
                body.options,
                await parts.collections.scope(caller, body.collection),
                body.thread_id,
                detach=body.detach,
                resumable=is_streamed,  # by Last-Event-ID
                key=key,
            )
        )
    except AlreadyBegun:
        if run_id := await begun_before(store, caller.owner, key):
            return await told_again(request, run_id, runs, store, is_streamed)
        raise
    if is_streamed:
        return EventStream(run, runs, body.detach)
    return await while_client_stays(request, whole(request, run.outcome()), run, runs, body.detach)


def key_of(body: AskRequest, name: str | None) -> IdempotencyKey | None:
    """The request's key; how its answer is to be told is no part of what is asked."""
    if name is None:
        return None
    payload = body.model_dump(mode="json", exclude={"stream"}, exclude_unset=True)
    text = json.dumps(payload, sort_keys=True)
    return IdempotencyKey(name, hashlib.sha256(text.encode()).hexdigest())


async def begun_before(store: Store, owner: str, key: IdempotencyKey | None) -> str | None:
    """The run that this very request has begun. Raises InvalidRequest where another one has it."""
    if key is None or (record := await store.runs.begun_with(owner, key.key)) is None:
        return None
    run_id, digest = record
    if digest != key.digest:
        raise InvalidRequest(f"#/{KEY_HEADER.lower()}", KEY_USED)
    return run_id


async def told_again(
    request: Request, run_id: str, runs: Runs, store: Store, is_streamed: bool
) -> Response:
    """What a run tells, to another client than the one that began it."""
    if run := runs.live(run_id):
        run.is_shared = True
    if is_streamed:
        return stream_of(run_id, runs, store)
    last = run.outcome() if run else replay.outcome(store.runs, run_id)
    answer = await while_client_stays(request, whole(request, last), run, runs)
    answer.headers[RUN_HEADER] = run_id
    return answer


async def asked_of(
    turns: Sequence[DialogueTurn], workflow: str, services: Services, pointer: str = "#/messages"
) -> Question:
    """The question of a dialogue, and the image that it is about. Raises InvalidRequest."""
    question = question_of(turns, pointer)
    if (shown := image_of(turns)) is not None:
        image, place = shown
        question["image"] = await plain_image(image, workflow, services, place)
    return question


async def plain_image(image: str, workflow: str, services: Services, pointer: str) -> str:
    """The question's image without all but its pixels. Raises InvalidRequest."""
    if workflow != IMAGE_WORKFLOW or services.images is None:
        raise InvalidRequest(pointer, f"only {IMAGE_WORKFLOW} is asked about an image")
    if len(image) > MAX_IMAGE_CHARS:
        raise InvalidRequest(pointer, TOO_LONG)
    try:
        return await services.images.plain(image)
    except InvalidImage as error:
        raise InvalidRequest(pointer, str(error)) from None


async def whole(request: Request, outcome: Awaitable[AnswerEvent | ErrorEvent]) -> Response:
    """The run's last word as one JSON body: its answer, or the problem that ended it."""
    last = await outcome
    if isinstance(last, ErrorEvent):
        return problem_response(request.scope, last.problem)
    return Response(last.data, media_type="application/json")


@router.get("/workflows", response_model=Workflows, responses=problems(422))
async def workflows(
    parts: LiveParts,
    xray: Annotated[bool, Query(description="Draw the nodes of subgraphs, too.")] = False,
) -> Response:
    """What can be asked: each workflow with its drawing and the schema of its options."""
    has_model = parts.services.chat is not None
    described = await asyncio.to_thread(_described, tuple(parts.graphs.items()), xray, has_model)
    return Response(described, media_type="application/json")


@lru_cache(maxsize=2)
def _described(graphs: tuple[tuple[str, Graph], ...], xray: bool, has_model: bool) -> str:
    """The same for every caller; drawing takes long enough to hold up others."""
    schema = Context.model_json_schema()
    infos = [
        WorkflowInfo(
            name=name,
            description=WORKFLOWS[name].description,
            mermaid=graph.get_graph(xray=xray).draw_mermaid(),
            context_schema=schema,
        )
        for name, graph in graphs
    ]
    offered = Workflows(workflows=infos, default=DEFAULT_WORKFLOW, language_model=has_model)
    return offered.model_dump_json()
