"""Worker app: an ASGI app around one loaded checkpoint, used in-process and over HTTP alike."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client import generate_latest as metrics_text
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evaluator.errors import (
    EvaluatorError,
    InvalidTexts,
    Overloaded,
    TooManyPairs,
    UnknownModel,
    UnknownTask,
    WeightsError,
)
from evaluator.inference.scorer import (
    LanguageModel,
    Scorer,
    TextEmbedder,
    load_embedder,
    load_language_model,
    load_scorers,
)
from evaluator.model.checkpoint import load_thresholds
from evaluator.schema import (
    CalibratedThresholds,
    Ready,
    ScoreRequest,
    ScoreResponse,
    Task,
    WorkerProblem,
)
from evaluator.serving import compression_api, embeddings_api
from evaluator.serving.batching import Batcher
from evaluator.serving.compression_api import Compressing
from evaluator.serving.disconnect import while_connected
from evaluator.serving.embeddings_api import Embeddings
from evaluator.serving.load_shedding import Limits
from evaluator.serving.metrics import WorkerMetrics
from evaluator.settings import EvaluatorSettings, read_settings

_STATUS: dict[type[EvaluatorError], tuple[int, str]] = {
    UnknownTask: (422, "Task not known to this checkpoint"),
    UnknownModel: (404, "Model not loaded"),
    InvalidTexts: (422, "Texts that cannot be embedded"),
    TooManyPairs: (413, "Too many pairs"),
    Overloaded: (429, "Evaluator overloaded"),
    WeightsError: (404, "Not part of these weights"),
}  # what is not in it is a 500


@dataclass
class _Worker:
    settings: EvaluatorSettings
    limits: Limits
    metrics: WorkerMetrics
    scorers: tuple[Scorer, ...] = ()
    embedder: TextEmbedder | None = None
    batchers: tuple[Batcher, ...] = ()  # the evaluator's first; none until all are warm
    embeddings: Embeddings | None = None
    compressor: Compressing | None = None

    def load(self) -> LanguageModel | None:
        """All that the settings name, where nothing was given."""
        if not self.scorers:
            self.scorers = load_scorers(self.settings)
            self.embedder = load_embedder(self.settings)
        return load_language_model(self.settings)

    def batcher_of(self, task: Task) -> Batcher:
        """Who scores this task; UnknownTask where nobody does."""
        for batcher in self.batchers:
            if task in batcher.scorer.tasks:
                return batcher
        if task == "rerank":
            raise UnknownTask(
                "No reranker is loaded: name its folder by SELFCRAG_EVALUATOR_RERANKER."
            )
        scorer = self.batchers[0].scorer
        raise UnknownTask(
            f"The checkpoint {scorer.name} was not trained for the task {task!r}; it knows: "
            f"{', '.join(scorer.tasks)}."
        )


def create_app(
    settings: EvaluatorSettings | None = None,
    *scorers: Scorer,
    embedder: TextEmbedder | None = None,
    limits: Limits | None = None,
) -> FastAPI:
    """The worker's app; its lifespan loads what the settings name and warms it up.

    `scorers`, the evaluator first, and `embedder` are taken instead where scorers are given.
    In-process use enters the lifespan itself: `async with app.router.lifespan_context(app)`.
    Entering raises WeightsError when the configured weights cannot be loaded.
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
    _add_routes(app)
    _add_error_handlers(app)
    app.add_middleware(_BodyLimit, max_bytes=worker.limits.max_body_bytes)
    return app


@contextlib.asynccontextmanager
async def _running(worker: _Worker) -> AsyncIterator[None]:
    language_model = await asyncio.to_thread(worker.load)
    async with contextlib.AsyncExitStack() as stack:
        batchers = [
            await stack.enter_async_context(_batching(worker, scorer)) for scorer in worker.scorers
        ]
        if worker.embedder:
            worker.embeddings = Embeddings(worker.embedder, worker.limits.max_queued_pairs)
            stack.callback(worker.embeddings.close)
            await worker.embeddings.embed(["Is it warm?"])
        if language_model:
            worker.compressor = Compressing(language_model, worker.limits.max_queued_pairs)
            stack.callback(worker.compressor.close)
            await worker.compressor.warm_up()
        worker.batchers = tuple(batchers)
        try:
            yield
        finally:
            worker.batchers, worker.embeddings, worker.compressor = (), None, None


@contextlib.asynccontextmanager
async def _batching(worker: _Worker, scorer: Scorer) -> AsyncIterator[Batcher]:
    """A queue and a thread of its own for each model; yields once it is warm."""
    batcher = Batcher(scorer, worker.settings.batch_tokens, worker.limits, worker.metrics)
    loop = asyncio.create_task(batcher.run(), name="evaluator-batches")
    try:
        warm_up = await batcher.score(scorer.tasks[0], [("Is it warm?", "It is warm now.")])
        if warm_up.errors:
            raise WeightsError(f"{scorer.name} cannot score: {warm_up.errors[0].reason}")
        yield batcher
    finally:
        loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loop


def _worker(request: Request) -> _Worker:
    worker: _Worker = request.app.state.worker
    return worker


def _warm_worker(request: Request) -> _Worker:
    worker = _worker(request)
    if not worker.batchers:
        raise HTTPException(503, "The evaluator is still starting.", {"Retry-After": "1"})
    if any(batcher.ended for batcher in worker.batchers):
        raise HTTPException(503, "The evaluator has stopped.")
    return worker


AnyWorker = Annotated[_Worker, Depends(_worker)]
WarmWorker = Annotated[_Worker, Depends(_warm_worker)]


def _add_routes(app: FastAPI) -> None:
    app.post("/score")(_score)
    app.include_router(embeddings_api.router)
    app.include_router(compression_api.router)
    app.get("/thresholds")(_thresholds)
    app.get("/health/live")(_live)
    app.get("/health/ready")(_ready)
    app.get("/metrics")(_metrics)


async def _score(request: ScoreRequest, worker: WarmWorker, connection: Request) -> ScoreResponse:
    batcher = worker.batcher_of(request.task)
    max_pairs = worker.limits.max_pairs
    if len(request.pairs) > max_pairs:
        raise TooManyPairs(f"{len(request.pairs)} pairs in one request; at most {max_pairs}.")
    with worker.metrics.seconds.time():
        response = await while_connected(connection, batcher.score(request.task, request.pairs))
    worker.metrics.pairs.labels(request.task).inc(len(request.pairs) - len(response.errors))
    worker.metrics.row_errors.inc(len(response.errors))
    return response


async def _thresholds(worker: AnyWorker, allow_foreign: bool = False) -> CalibratedThresholds:
    # Of the weights that score, whatever lies in their folder by now.
    loaded = worker.scorers[0].digest if worker.scorers else None
    return await asyncio.to_thread(
        load_thresholds, worker.settings.weights, loaded, allow_foreign=allow_foreign
    )


async def _live() -> dict[str, str]:
    return {"status": "live"}


async def _ready(worker: WarmWorker) -> Ready:
    scorers = [batcher.scorer for batcher in worker.batchers]
    if not all([await batcher.works() for batcher in worker.batchers]):
        raise HTTPException(503, "The model scores nothing; the log says why.")
    tasks = [task for scorer in scorers for task in scorer.tasks]
    compressor = worker.compressor.model.name if worker.compressor else None
    return Ready(model=scorers[0].name, tasks=tasks, compressor=compressor)


async def _metrics(worker: AnyWorker) -> Response:
    worker.metrics.queued.set(sum(batcher.queued_pairs for batcher in worker.batchers))
    return Response(metrics_text(worker.metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _problem(problem: WorkerProblem, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(
        problem.model_dump(exclude_none=True),
        status_code=problem.status,
        headers=headers,
        media_type="application/problem+json",
    )


def _refused(
    scope: Scope, problem: WorkerProblem, headers: dict[str, str] | None = None
) -> JSONResponse:
    if scope["path"] == "/score":
        worker: _Worker = scope["app"].state.worker
        worker.metrics.refusals.labels(problem.status).inc()
    return _problem(problem, headers)


def _pointer(fault: Mapping[str, Any]) -> str:
    """Where the fault lies as a JSON pointer; `#`, the whole body, where it is no JSON."""
    steps = () if fault["type"] == "json_invalid" else fault["loc"][1:]
    escaped = [str(step).replace("~", "~0").replace("/", "~1") for step in steps]
    return "/".join(["#", *escaped])


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
            problem = WorkerProblem(title="Request failed", status=413, detail=detail)
            await _refused(scope, problem)(scope, receive, send)
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


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(EvaluatorError)
    async def evaluator_error(request: Request, error: EvaluatorError) -> JSONResponse:
        status, title = _STATUS.get(type(error), (500, "Evaluator failed"))
        headers = None
        if isinstance(error, Overloaded):
            _worker(request).metrics.overloads.inc()
            headers = {"Retry-After": str(error.retry_after_s)}
        problem = WorkerProblem(title=title, status=status, detail=str(error))
        return _refused(request.scope, problem, headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        errors = [
            {"pointer": _pointer(fault), "detail": fault["msg"]} for fault in error.errors()[:20]
        ]
        detail = f"The request does not fit: {errors[0]['pointer']}: {errors[0]['detail']}"
        problem = WorkerProblem(title="Invalid request", status=422, detail=detail, errors=errors)
        return _refused(request.scope, problem)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        problem = WorkerProblem(
            title="Request failed", status=error.status_code, detail=error.detail
        )
        return _refused(request.scope, problem, dict(error.headers or {}))

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> JSONResponse:
        detail = f"The evaluator failed on this request ({type(error).__name__})."
        problem = WorkerProblem(title="Evaluator failed", status=500, detail=detail)
        return _refused(request.scope, problem)
