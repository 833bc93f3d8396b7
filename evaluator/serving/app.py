"""Worker app: an ASGI app around one loaded checkpoint, used in-process and over HTTP alike."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import prometheus_client
from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evaluator import errors, schema
from evaluator.inference import scorer as inference
from evaluator.model.checkpoint import load_thresholds
from evaluator.serving import compression_api, embeddings_api, images_api
from evaluator.serving.batching import Batcher, Limits
from evaluator.serving.metrics import WorkerMetrics
from evaluator.settings import EvaluatorSettings, read_settings

Answer = TypeVar("Answer")
_STATUS: dict[type[errors.EvaluatorError], tuple[int, str]] = {
    errors.UnknownTask: (422, "Task not known to this checkpoint"),
    errors.UnknownModel: (404, "Model not loaded"),
    errors.InvalidTexts: (422, "Texts that cannot be embedded"),
    errors.TooManyPairs: (413, "Too many pairs"),
    errors.Overloaded: (429, "Evaluator overloaded"),
    errors.WeightsError: (404, "Not part of these weights"),
}  # what is not in it is a 500


@dataclass
class _Worker:
    settings: EvaluatorSettings
    limits: Limits
    metrics: WorkerMetrics
    scorers: tuple[inference.Scorer, ...] = ()
    embedder: inference.TextEmbedder | None = None
    batchers: tuple[Batcher, ...] = ()  # the evaluator's first; none until all are warm
    embeddings: embeddings_api.Embeddings | None = None
    compressor: compression_api.Compressing | None = None
    image_embeddings: images_api.ImageEmbeddings | None = None

    def load(self) -> inference.LanguageModel | None:
        """All that the settings name, where nothing was given."""
        if not self.scorers:
            self.scorers = inference.load_scorers(self.settings)
            self.embedder = inference.load_embedder(self.settings)
        return inference.load_language_model(self.settings)

    def batcher_of(self, task: schema.Task) -> Batcher:
        """Who scores this task; UnknownTask where nobody does."""
        for batcher in self.batchers:
            if task in batcher.scorer.tasks:
                return batcher
        if task == "rerank":
            raise errors.UnknownTask(
                "No reranker is loaded: name its folder by SELFCRAG_EVALUATOR_RERANKER."
            )
        scorer = self.batchers[0].scorer
        raise errors.UnknownTask(
            f"The checkpoint {scorer.name} was not trained for the task {task!r}; it knows: "
            f"{', '.join(scorer.tasks)}."
        )


def create_app(
    settings: EvaluatorSettings | None = None,
    *scorers: inference.Scorer,
    embedder: inference.TextEmbedder | None = None,
    limits: Limits | None = None,
) -> FastAPI:
    """The worker's app; its lifespan loads what the settings name (WeightsError) and warms it up.

    `scorers`, the evaluator first, and `embedder` are taken instead where scorers are given.
    """
    worker = _Worker(
        settings or read_settings(), limits or Limits(), WorkerMetrics(), scorers, embedder
    )

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with _running(worker):
            yield

    app = FastAPI(title="self-crag evaluator", lifespan=lifespan)
    app.state.worker = worker
    app.include_router(router)
    app.add_exception_handler(errors.EvaluatorError, _evaluator_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected_error)
    app.add_middleware(_BodyLimit, max_bytes=worker.limits.max_body_bytes)
    return app


@contextlib.asynccontextmanager
async def _running(worker: _Worker) -> AsyncIterator[None]:
    language_model = await asyncio.to_thread(worker.load)
    max_texts = worker.limits.max_queued_pairs
    async with contextlib.AsyncExitStack() as stack:
        batchers = [
            await stack.enter_async_context(_batching(worker, scorer)) for scorer in worker.scorers
        ]
        if worker.embedder:
            worker.embeddings = embeddings_api.Embeddings(worker.embedder, max_texts)
            stack.callback(worker.embeddings.close)
            await worker.embeddings.embed(["Is it warm?"])
        if image_embedder := await asyncio.to_thread(
            inference.load_image_embedder, worker.settings
        ):
            worker.image_embeddings = images_api.ImageEmbeddings(image_embedder, max_texts)
            stack.callback(worker.image_embeddings.close)
            await asyncio.to_thread(image_embedder.embed_texts, ["Is it warm?"])
        if language_model:
            worker.compressor = compression_api.Compressing(language_model, max_texts)
            stack.callback(worker.compressor.close)
            await asyncio.to_thread(language_model.tokens, "It is warm.", "Is it warm?")
        worker.batchers = tuple(batchers)
        try:
            yield
        finally:
            worker.batchers, worker.embeddings, worker.compressor = (), None, None
            worker.image_embeddings = None


@contextlib.asynccontextmanager
async def _batching(worker: _Worker, scorer: inference.Scorer) -> AsyncIterator[Batcher]:
    """A queue and a thread of its own for each model; yields once it is warm."""
    batcher = Batcher(scorer, worker.settings.batch_tokens, worker.limits, worker.metrics)
    loop = asyncio.create_task(batcher.run(), name="evaluator-batches")
    try:
        warm_up = await batcher.score(scorer.tasks[0], [("Is it warm?", "It is warm now.")])
        if warm_up.errors:
            raise errors.WeightsError(f"{scorer.name} cannot score: {warm_up.errors[0].reason}")
        yield batcher
    finally:
        loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loop


def _any_worker(request: Request) -> _Worker:
    worker: _Worker = request.app.state.worker
    return worker


AnyWorker = Annotated[_Worker, Depends(_any_worker)]


def _warm_worker(worker: AnyWorker) -> _Worker:
    if not worker.batchers:
        raise HTTPException(503, "The evaluator is still starting.", {"Retry-After": "1"})
    if any(batcher.ended for batcher in worker.batchers):
        raise HTTPException(503, "The evaluator has stopped.")
    return worker


WarmWorker = Annotated[_Worker, Depends(_warm_worker)]
router = APIRouter()


@router.post("/score")
async def score(
    body: schema.ScoreRequest, worker: WarmWorker, connection: Request
) -> schema.ScoreResponse:
    batcher = worker.batcher_of(body.task)
    worker.limits.check(len(body.pairs), "pairs")
    with worker.metrics.seconds.time():
        response = await _while_connected(connection, batcher.score(body.task, body.pairs))
    worker.metrics.pairs.labels(body.task).inc(len(body.pairs) - len(response.errors))
    worker.metrics.row_errors.inc(len(response.errors))
    return response


@router.post("/v1/embeddings")
async def embeddings(
    body: embeddings_api.EmbeddingRequest, worker: WarmWorker, connection: Request
) -> Response:
    """One unit vector a text, in the order asked, in OpenAI's form."""
    loaded = worker.embeddings
    if loaded is None:
        raise errors.UnknownModel(
            "This worker has no embedder: name a sentence-transformers folder, or e5, by "
            "SELFCRAG_EVALUATOR_EMBEDDER."
        )
    worker.limits.check(len(body.texts), "texts")
    content = await _while_connected(connection, loaded.answer(body))
    return Response(content, media_type="application/json")


@router.post("/embed_images")
async def embed_images(
    body: schema.ImageEmbeddingRequest, worker: WarmWorker, connection: Request
) -> schema.ImageEmbeddingResponse:
    """Texts and images in one space."""
    if worker.image_embeddings is None:
        raise errors.UnknownModel(
            "This worker has no image embedder: name the folder of a CLIP model by"
            " SELFCRAG_EVALUATOR_IMAGE_EMBEDDER."
        )
    return await _while_connected(connection, worker.image_embeddings.answer(body))


@router.get("/v1/models")
async def models(worker: AnyWorker) -> dict[str, Any]:
    """The embedder, if there is one, in OpenAI's form."""
    names = [worker.embeddings.embedder.name] if worker.embeddings else []
    data = [{"id": name, "object": "model", "owned_by": "self-crag"} for name in names]
    return {"object": "list", "data": data}


@router.post("/compress")
async def compress(
    body: schema.CompressRequest, worker: WarmWorker, connection: Request
) -> schema.CompressResponse:
    """One shorter text for each, in the order asked; empty where nothing of it was kept."""
    if worker.compressor is None:
        raise errors.UnknownModel(
            "This worker has no language model to compress with: name its folder by "
            "SELFCRAG_EVALUATOR_COMPRESSOR."
        )
    worker.limits.check(len(body.texts), "texts")
    return await _while_connected(connection, worker.compressor.compress(body))


@router.get("/thresholds")
async def thresholds(worker: AnyWorker, allow_foreign: bool = False) -> schema.CalibratedThresholds:
    # Of the weights that score, whatever lies in their folder by now.
    loaded = worker.scorers[0].digest if worker.scorers else None
    return await asyncio.to_thread(
        load_thresholds, worker.settings.weights, loaded, allow_foreign=allow_foreign
    )


@router.get("/health/live")
async def live() -> dict[str, str]:
    return {"status": "live"}


@router.get("/health/ready")
async def ready(worker: WarmWorker) -> schema.Ready:
    scorers = [batcher.scorer for batcher in worker.batchers]
    if not all([await batcher.works() for batcher in worker.batchers]):
        raise HTTPException(503, "The model scores nothing; the log says why.")
    tasks = [task for scorer in scorers for task in scorer.tasks]
    compressor = worker.compressor.model.name if worker.compressor else None
    images = worker.image_embeddings.embedder.name if worker.image_embeddings else None
    return schema.Ready(
        model=scorers[0].name, tasks=tasks, compressor=compressor, image_embedder=images
    )


@router.get("/metrics")
async def metrics(worker: AnyWorker) -> Response:
    worker.metrics.queued.set(sum(batcher.queued_pairs for batcher in worker.batchers))
    text = prometheus_client.generate_latest(worker.metrics.registry)
    return Response(text, media_type=prometheus_client.CONTENT_TYPE_LATEST)


async def _while_connected(connection: Request, work: Coroutine[None, None, Answer]) -> Answer:
    """The answer; cancels the work when the client disconnects before it is there.

    The body must have been read: the next message of the connection is its end.
    """
    working = asyncio.create_task(work)
    leaving = asyncio.ensure_future(connection.receive())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise HTTPException(499, "The client left before its answer was there.")
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


def _problem(
    scope: Scope,
    status: int,
    title: str,
    detail: str,
    headers: Mapping[str, str] | None = None,
    faults: list[dict[str, str]] | None = None,
) -> JSONResponse:
    """RFC 9457 problem details; those of `/score` are counted."""
    if scope["path"] == "/score":
        scope["app"].state.worker.metrics.refusals.labels(status).inc()
    problem = schema.WorkerProblem(title=title, status=status, detail=detail, errors=faults)
    content, media_type = problem.model_dump(exclude_none=True), "application/problem+json"
    return JSONResponse(content, status, headers, media_type)


async def _evaluator_error(request: Request, error: Exception) -> Response:
    unknown = (500, "Evaluator failed")
    known = next((known for kind, known in _STATUS.items() if isinstance(error, kind)), unknown)
    headers = None
    if isinstance(error, errors.Overloaded):
        request.app.state.worker.metrics.overloads.inc()
        headers = {"Retry-After": str(error.retry_after_s)}
    return _problem(request.scope, *known, str(error), headers)


async def _invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [{"pointer": _pointer(fault), "detail": fault["msg"]} for fault in error.errors()[:20]]
    detail = f"The request does not fit: {faults[0]['pointer']}: {faults[0]['detail']}"
    return _problem(request.scope, 422, "Invalid request", detail, faults=faults)


def _pointer(fault: Mapping[str, Any]) -> str:
    """Where the fault lies as a JSON pointer; `#`, the whole body, where it is no JSON."""
    steps = () if fault["type"] == "json_invalid" else fault["loc"][1:]
    escaped = [str(step).replace("~", "~0").replace("/", "~1") for step in steps]
    return "/".join(["#", *escaped])


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    scope, status = request.scope, error.status_code
    return _problem(scope, status, "Request failed", error.detail, error.headers)


async def _unexpected_error(request: Request, error: Exception) -> Response:
    detail = f"The evaluator failed on this request ({type(error).__name__})."
    return _problem(request.scope, 500, "Evaluator failed", detail)


class _BodyLimit:
    """Answers 413 to a body over `max_bytes`, announced or not, before it is parsed."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app, self._max_bytes = app, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        detail = f"The body is larger than {self._max_bytes:,} bytes."
        announced = dict(scope["headers"]).get(b"content-length", b"")
        if announced.isdigit() and int(announced) > self._max_bytes:
            await _problem(scope, 413, "Request failed", detail)(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_bytes:
                raise HTTPException(413, detail)
            return message

        await self._app(scope, counted, send)
