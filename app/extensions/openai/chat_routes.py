"""`/v1`: the workflows as models that any client of OpenAI's chat completions can ask."""

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from pydantic import Json, TypeAdapter

from app.api.dependencies import ClientAddresses, CurrentCaller, LiveParts
from app.api.problems import DETAILS, problem_response
from app.api.routes.ask import asked_of
from app.api.sse import EventStream, while_client_stays
from app.errors import ThreadBusy
from app.extensions.openai import chat as openai
from app.extensions.openai import open_webui
from app.protocols.addresses import Addresses
from app.protocols.messages import checked, prefer_thread
from app.protocols.progress_text import ProgressText
from app.runs.request import RunRequest
from app.runs.run import Run
from app.schemas.ask import CollectionName, ErrorEvent, Problem, as_json
from graphs.options import Context
from graphs.workflows.registry import WORKFLOWS, Graph

router = APIRouter(prefix="/v1", tags=["OpenAI"])
T = TypeVar("T")
OPTIONS: TypeAdapter[Context] = TypeAdapter(Context)
COLLECTION: TypeAdapter[str] = TypeAdapter(CollectionName)
OPTIONS_TEXT: TypeAdapter[Context] = TypeAdapter(Json[Context])


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route's documentation, as `problems` elsewhere."""
    return {
        status: {
            "model": openai.OpenAIErrorBody,
            "description": "Invalid request" if status == 422 else HTTPStatus(status).phrase,
            "content": {"application/json": {"example": openai.error_of(problem)}},
        }
        for status in (401, 403, *statuses)
        if (problem := Problem(title="", status=status, detail=DETAILS[status]))
    }


def model(name: str, graphs: Mapping[str, Graph]) -> openai.Model:
    """The workflow of that name as a model. Raises NotOffered."""
    if name not in graphs:
        raise openai.NotOffered(
            404,
            f"The model {name!r} does not exist; models are: {', '.join(graphs)}.",
            param="model",
            code="model_not_found",
        )
    return openai.Model(id=name, description=WORKFLOWS[name].description)


@router.get("/models", responses=errors())
async def models(parts: LiveParts) -> openai.ModelList:
    """The workflows as models."""
    return openai.ModelList(data=[model(name, parts.graphs) for name in parts.graphs])


@router.get("/models/{name}", responses=errors(404, 422))
async def one_model(name: str, parts: LiveParts) -> openai.Model:
    """One workflow as a model."""
    return model(name, parts.graphs)


@router.post(
    "/chat/completions",
    response_model=openai.ChatCompletion,
    responses=errors(400, 404, 409, 413, 422, 429, 500, 503),
)
async def complete(
    body: openai.ChatRequest,
    request: Request,
    caller: CurrentCaller,
    parts: LiveParts,
    addresses: ClientAddresses,
) -> Response:
    """Answer the last message of the user; `stream` tells the steps as `reasoning_content`."""
    name, runs = model(body.model, parts.graphs).id, parts.runs
    if body.n not in (None, 1):
        raise openai.NotOffered(400, DETAILS[400], param="n", code="unsupported_value")
    open_webui.refuse_task(body.messages[-1].text, "messages")
    question, context = await asked_of(body.turns(), name, parts.services), options_of(body)
    thread = named(body, "thread_id", open_webui.THREAD)
    if thread is not None:
        prefer_thread(question)
    chat = None if thread else open_webui.thread_of(request.headers)
    scope = await parts.collections.scope(caller, named(body, "collection", COLLECTION))
    run_request = RunRequest(name, question, context, scope, thread or chat)
    try:
        run = await runs.start(run_request)
    except ThreadBusy:
        if chat is None:
            raise
        # Open WebUI asks several models in one chat at once; the messages carry the dialogue.
        run = await runs.start(replace(run_request, thread_id=None))
    text = question["question"]
    if body.stream:
        form = open_webui.WebUIChunks if open_webui.speaks(request.headers) else openai.Chunks
        return EventStream(
            run, runs, detach=False, encode=form(run, text, body.wants_usage, addresses)
        )
    return await while_client_stays(request, whole(request, run, text, addresses), run, runs)


def options_of(body: openai.RunParameters) -> Context:
    """Those of the body, else those in its metadata. Raises InvalidRequest."""
    is_text = isinstance((body.metadata or {}).get("options"), str)
    return named(body, "options", OPTIONS_TEXT if is_text else OPTIONS) or Context()


def named(body: openai.RunParameters, field: str, kind: TypeAdapter[T]) -> T | None:
    """A field of the body, or of its metadata where the body has none. Raises InvalidRequest."""
    value: T | None = getattr(body, field)
    in_metadata = (body.metadata or {}).get(field)
    if value is not None or in_metadata is None:
        return value
    return checked(kind, in_metadata, f"#/metadata/{field}")


async def whole(request: Request, run: Run, question: str, addresses: Addresses) -> Response:
    """The run's last word as one JSON body: the completion, or the error that ended it."""
    last, progress = await run.outcome(), ProgressText(question)
    if isinstance(last, ErrorEvent):
        return problem_response(request.scope, last.problem)
    reasoning = [line for event in await run.all_events() for line in progress.lines(event)]
    completed = openai.completion(run, last.response, reasoning, addresses)
    return Response(as_json(completed.model_dump()), media_type="application/json")
