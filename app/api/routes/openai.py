"""`/v1`: the workflows as models that any client of OpenAI's chat completions can ask."""

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter

from app.api.dependencies import Choose, CurrentCaller, LiveGraphs, LiveRuns
from app.api.problems import DETAILS, problem_response
from app.api.routes.ask import CLIENT_CLOSED_REQUEST
from app.api.sse import ClientLeft, EventStream, while_client_stays
from app.errors import ThreadBusy
from app.protocols import open_webui
from app.protocols.messages import checked, parsed, prefer_thread, question_of
from app.protocols.openai import Chunks, NotOffered, completion, error_of
from app.protocols.progress_text import ProgressText
from app.runs.run import Run
from app.schemas.ask import AnswerEvent, ErrorEvent, Problem, ThreadId
from app.schemas.event_json import as_json
from app.schemas.openai import ChatCompletion, ChatRequest, Model, ModelList, OpenAIErrorBody
from graphs.options import Context
from graphs.workflows.registry import WORKFLOWS

router = APIRouter(prefix="/v1", tags=["OpenAI"])
THREAD: TypeAdapter[str] = TypeAdapter(ThreadId)
OPTIONS = TypeAdapter(Context)


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route's documentation, as `problems` elsewhere."""
    return {status: _documented(status) for status in (401, 403, *statuses)}


def _documented(status: int) -> dict[str, Any]:
    example = error_of(Problem(title="", status=status, detail=DETAILS[status]))
    return {
        "model": OpenAIErrorBody,
        "description": "Invalid request" if status == 422 else HTTPStatus(status).phrase,
        "content": {"application/json": {"example": example}},
    }


def model(name: str) -> Model:
    return Model(id=name, description=WORKFLOWS[name].description)


def check_model(name: str, graphs: LiveGraphs) -> None:
    if name not in graphs:
        raise NotOffered(
            404,
            f"The model {name!r} does not exist; models are: {', '.join(graphs)}.",
            param="model",
            code="model_not_found",
        )


@router.get("/models", responses=errors())
async def models(graphs: LiveGraphs) -> ModelList:
    """The workflows as models."""
    return ModelList(data=[model(name) for name in graphs])


@router.get("/models/{name}", responses=errors(404, 422))
async def one_model(name: str, graphs: LiveGraphs) -> Model:
    """One workflow as a model."""
    check_model(name, graphs)
    return model(name)


@router.post(
    "/chat/completions",
    response_model=ChatCompletion,
    responses=errors(400, 404, 409, 413, 422, 500, 503),
)
async def complete(
    body: ChatRequest,
    request: Request,
    caller: CurrentCaller,
    runs: LiveRuns,
    graphs: LiveGraphs,
    choose: Choose,
) -> Response:
    """Answer the last message of the user; `stream` tells the steps as `reasoning_content`."""
    check_model(body.model, graphs)
    if body.n not in (None, 1):
        raise NotOffered(400, DETAILS[400], param="n", code="unsupported_value")
    if open_webui.is_task(body.messages[-1].text):
        raise NotOffered(400, open_webui.NO_TASKS, param="messages", code="unsupported_value")
    question = question_of(body.turns())
    context = choose(options_of(body))
    thread = thread_of(body)
    if thread is not None:
        prefer_thread(question)
    chat = None if thread else open_webui.thread_of(request.headers)
    try:
        run = await runs.start(body.model, question, context, thread or chat, owner=caller.owner)
    except ThreadBusy:
        if chat is None:
            raise
        # Open WebUI asks several models in one chat at once; the messages carry the dialogue.
        run = await runs.start(body.model, question, context, owner=caller.owner)
    text = question["question"]
    if body.stream:
        form = open_webui.WebUIChunks if open_webui.speaks(request.headers) else Chunks
        return EventStream(run, runs, detach=False, encode=form(run, text, body.wants_usage))
    try:
        return await while_client_stays(request, whole(request, run, text))
    except ClientLeft:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    finally:
        await runs.cancel(run)


def options_of(body: ChatRequest) -> Context:
    """Those of the body, else those in its metadata. Raises InvalidRequest."""
    options = (body.metadata or {}).get("options")
    if body.options is not None or options is None:
        return body.options or Context()
    at = "#/metadata/options"
    return checked(OPTIONS, parsed(options, at), at)


def thread_of(body: ChatRequest) -> str | None:
    """Named in the body or in its metadata. Raises InvalidRequest."""
    thread_id = (body.metadata or {}).get("thread_id")
    if body.thread_id is not None or thread_id is None:
        return body.thread_id
    return checked(THREAD, thread_id, "#/metadata/thread_id")


async def whole(request: Request, run: Run, question: str) -> Response:
    """The run's last word as one JSON body: the completion, or the error that ended it."""
    progress, reasoning = ProgressText(question), list[str]()
    for event in await run.all_events():
        if isinstance(event, AnswerEvent):
            completed = completion(run, event.response, reasoning)
            return Response(as_json(completed.model_dump()), media_type="application/json")
        if isinstance(event, ErrorEvent):
            return problem_response(request.scope, event.problem)
        reasoning += progress.lines(event)
    raise RuntimeError("a run ended without an answer or an error")
