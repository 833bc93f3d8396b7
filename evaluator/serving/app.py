"""The worker: an ASGI app around one loaded checkpoint, used in-process and over HTTP alike."""

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
from evaluator.inference.scorer import Scorer, load_scorers
from evaluator.schema import (
    Problem,
    Ready,
    ScoreRequest,
    ScoreResponse,
    Task,
    Thresholds,
    load_thresholds,
)
from evaluator.serving import compression_api as compressing
from evaluator.serving.batching import Batcher
from evaluator.serving.disconnect import while_connected
from evaluator.serving.embeddings_api import Embedder, Embeddings, load_embedder
from evaluator.serving.embeddings_api import router as embeddings_router
from evaluator.serving.metrics import Metrics
from evaluator.settings import EvaluatorSettings

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
    metrics: Metrics
    scorers: tuple[Scorer, ...] = ()
    embedder: Embedder | None = None
    batchers: tuple[Batcher, ...] = ()  # the evaluator's first; none until all are warm
    embeddings: Embeddings | None = None
    compressor: compressing.Compressing | None = None

    def load(self) -> None:
        """All that the settings name, where nothing was given."""
        if not self.scorers:
            self.scorers = load_scorers(self.settings)
            self.embedder = load_embedder(self.settings)

    def judge(self, task: Task) -> Batcher:
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
    settings: EvaluatorSettings | None = None, *scorers: Scorer, embedder: Embedder | None = None
) -> FastAPI:
    """The worker's app; its lifespan loads what the settings name and warms it up.

    `scorers`, the evaluator first, and `embedder` are taken instead where scorers are given.
    In-process use enters the lifespan itself: `async with app.router.lifespan_context(app)`.
    Entering raises WeightsError when the configured weights cannot be loaded.
    """
    worker = _Worker(settings or EvaluatorSettings(), Metrics(), scorers, embedder)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with _running(worker):
            yield

    app = FastAPI(title="self-crag evaluator", lifespan=lifespan)
    app.state.worker = worker
    _add_routes(app)
    _add_error_handlers(app)
    app.add_middleware(_BodyLimit, max_bytes=worker.settings.max_body_bytes)
    return app


@contextlib.asynccontextmanager
async def _running(worker: _Worker) -> AsyncIterator[None]:
    await asyncio.to_thread(worker.load)
    async with contextlib.AsyncExitStack() as stack:
        batchers = [
            await stack.enter_async_context(_batching(worker, scorer)) for scorer in worker.scorers
        ]
        if worker.embedder:
            worker.embeddings = Embeddings(worker.embedder, worker.settings.max_queued_pairs)
            stack.callback(worker.embeddings.close)
            await worker.embeddings.embed(["Is it warm?"])
        worker.compressor = await stack.enter_async_context(compressing.running(worker.settings))
        worker.batchers = tuple(batchers)
        try:
            yield
        finally:
            worker.batchers, worker.embeddings, worker.compressor = (), None, None


@contextlib.asynccontextmanager
async def _batching(worker: _Worker, scorer: Scorer) -> AsyncIterator[Batcher]:
    """A queue and a thread of its own for each model; yields once it is warm."""
    batcher = Batcher(
        scorer,
        batch_tokens=worker.settings.batch_tokens,
        max_queued_pairs=worker.settings.max_queued_pairs,
        cached_pairs=worker.settings.score_cache_pairs,
        metrics=worker.metrics,
    )
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
    app.include_router(embeddings_router)
    app.include_router(compressing.router)
    app.get("/thresholds")(_thresholds)
    app.get("/health/live")(_live)
    app.get("/health/ready")(_ready)
    app.get("/metrics")(_metrics)


async def _score(request: ScoreRequest, worker: WarmWorker, connection: Request) -> ScoreResponse:
    batcher = worker.judge(request.task)
    if len(request.pairs) > worker.settings.max_pairs:
        raise TooManyPairs(
            f"{len(request.pairs)} pairs in one request; at most {worker.settings.max_pairs}."
        )
    with worker.metrics.seconds.time():
        response = await while_connected(connection, batcher.score(request.task, request.pairs))
    worker.metrics.pairs.labels(request.task).inc(len(request.pairs) - len(response.errors))
    worker.metrics.row_errors.inc(len(response.errors))
    return response


async def _thresholds(worker: AnyWorker, allow_foreign: bool = False) -> Thresholds:
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
    worker.metrics.places.set(sum(batcher.queue_places for batcher in worker.batchers))
    return Response(metrics_text(worker.metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _problem(problem: Problem, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(
        problem.model_dump(exclude_none=True),
        status_code=problem.status,
        headers=headers,
        media_type="application/problem+json",
    )


def _refused(scope: Scope, problem: Problem, headers: dict[str, str] | None = None) -> JSONResponse:
    if scope["path"] == "/score":
        worker: _Worker = scope["app"].state.worker
        worker.metrics.refusals.labels(problem.status).inc()
    return _problem(problem, headers)


def _pointer(found: Mapping[str, Any]) -> str:
    """Where the fault lies as a JSON pointer; `#`, the whole body, where it is no JSON."""
    steps = () if found["type"] == "json_invalid" else found["loc"][1:]
    named = [str(step).replace("~", "~0").replace("/", "~1") for step in steps]
    return "/".join(["#", *named])


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
            problem = Problem(title="Request failed", status=413, detail=detail)
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
    async def told(request: Request, error: EvaluatorError) -> JSONResponse:
        status, title = _STATUS.get(type(error), (500, "Evaluator failed"))
        headers = None
        if isinstance(error, Overloaded):
            _worker(request).metrics.overloads.inc()
            headers = {"Retry-After": str(error.retry_after_s)}
        problem = Problem(title=title, status=status, detail=str(error))
        return _refused(request.scope, problem, headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        errors = [
            {"pointer": _pointer(found), "detail": found["msg"]} for found in error.errors()[:20]
        ]
        detail = f"The request does not fit: {errors[0]['pointer']}: {errors[0]['detail']}"
        problem = Problem(title="Invalid request", status=422, detail=detail, errors=errors)
        return _refused(request.scope, problem)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        problem = Problem(title="Request failed", status=error.status_code, detail=error.detail)
        return _refused(request.scope, problem, dict(error.headers or {}))

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> JSONResponse:
        detail = f"The evaluator failed on this request ({type(error).__name__})."
        problem = Problem(title="Evaluator failed", status=500, detail=detail)
        return _refused(request.scope, problem)
