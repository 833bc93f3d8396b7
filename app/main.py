"""The service as an ASGI app: `create_app` for embedding, `serve` for the command line."""

import asyncio
import logging
import math
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from copy import deepcopy
from dataclasses import fields
from threading import Thread
from typing import Any, Literal, ParamSpec, TypeVar

import uvicorn
from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware
from uvicorn.config import LOGGING_CONFIG

from app.api.connections import connection_options
from app.api.middleware import BodyLimit, BodyTimeout, add_authentication, check_address
from app.api.openapi import ABOUT, describe
from app.api.problems import add_error_handlers
from app.api.readiness import Readiness
from app.api.request_ids import RequestIds
from app.api.routes import (
    ask,
    collections,
    documents,
    images,
    operation,
    runs,
    search,
)
from app.composition.parts import Source, open_parts
from app.composition.services import open_services
from app.errors import StartFailed
from app.extension import load_extensions
from app.observability.logging import (
    NO_PLACE,
    NO_SOCKET,
    AccessTextFormatter,
    JsonFormatter,
    RunLog,
    Seldom,
    ServerTextFormatter,
    TextFormatter,
)
from app.observability.metrics import CountRequests, ServiceMetrics
from app.observability.redaction import redact
from app.retrieval.image_index import has_images
from app.retrieval.images import ImageStore
from app.retrieval.text_embedding import text_embedding_of
from app.runs.admission import Quotas
from app.runs.manager import Runs
from app.settings import Settings, load_settings
from app.storage.api_keys import KeyRing

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
COMPRESSED_FROM = 1000
"""Bytes of a body that compression is worth."""
STOP_WITHIN_S = 5
"""For open requests to end when no run is left."""

P = ParamSpec("P")
A = TypeVar("A")


def create_app(
    settings: Settings | None = None, source: Source = open_services, *, authenticates: bool = True
) -> FastAPI:
    """The service; its lifespan opens what `source` yields. Raises StartFailed on bad settings.

    Without authentication everyone is let in: for a server around it that knows whom to admit.
    """
    chosen = settings or load_settings(Settings)
    redact.learn(chosen)
    loaded = load_extensions(chosen.extensions_off)
    extensions = [each for each in loaded if authenticates or not each.is_server]

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        observers = [app.state.metrics.observe, RunLog().observe]
        quotas = Quotas(
            {
                "runs": chosen.quota_runs,
                "tokens": chosen.quota_tokens,
                "searches": chosen.quota_searches,
                "uploads": chosen.quota_uploads,
            }
        )
        async with AsyncExitStack() as listening:
            for each in extensions:
                observers += await listening.enter_async_context(each.listening(app))
            async with (
                open_parts(
                    chosen,
                    chosen.max_runs,
                    source,
                    observers=observers,
                    quotas=quotas,
                    queue_wait_s=chosen.queue_wait_s,
                ) as parts,
                aclosing(KeyRing(parts.engine)) as keys,
                AsyncExitStack() as opened,
            ):
                retriever = parts.services.retriever
                images = ImageStore(chosen.data_dir, was_there=await has_images(retriever))
                readiness = Readiness(parts.services, parts.engine, chosen.data_dir, images)
                app.state.parts, app.state.keys, app.state.readiness = parts, keys, readiness
                app.state.text_embedding = text_embedding_of(retriever)
                for part in fields(parts):
                    setattr(app.state, part.name, getattr(parts, part.name))
                parts.runs.begin_taking_over()
                for each in extensions:
                    await opened.enter_async_context(each.opened(app))
                yield

    app = FastAPI(**ABOUT, lifespan=lifespan)
    app.state.extensions = extensions
    app.state.metrics, app.state.public_url = ServiceMetrics(), chosen.public_url
    app.state.image_address_hours = chosen.image_address_hours
    app.state.data_dir = chosen.data_dir
    for router in (
        *(ask.router, search.router, runs.runs_router, runs.threads_router),
        *(documents.router, images.router, collections.router),
        operation.router,
    ):
        app.include_router(router)
    for each in extensions:
        each.add_to(app)
    add_error_handlers(app)
    # What is added last is met first. Streams of events are never compressed.
    app.add_middleware(
        GZipMiddleware, minimum_size=COMPRESSED_FROM, compresslevel=6, thread_minimum_size=32 * 1024
    )
    app.add_middleware(BodyLimit, except_to={documents.PATH})
    if authenticates:
        add_authentication(app, chosen)
    app.add_middleware(BodyTimeout)
    app.add_middleware(CountRequests, metrics=app.state.metrics)
    app.add_middleware(RequestIds)
    describe(app)
    return app


def listen(host: str, port: int) -> socket.socket:
    """The bound socket. Raises StartFailed when the address is taken or not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named: asyncio switches Nagle's delay off only for sockets that say TCP.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        # At once: a second service that starts meanwhile could bind to the address as well.
        bound.listen()
    except OSError as error:
        bound.close()
        raise StartFailed(
            f"cannot listen on {host}:{port} ({error.strerror}): is another service running there?"
            " Choose another with SELFCRAG_PORT."
        ) from None
    return bound


def log_config(level: str, form: Literal["text", "json"] = "text") -> dict[str, Any]:
    """uvicorn's own configuration from `level` on, with time and fields, or as JSON lines.

    What others log in this process looks alike, unless that is configured already; libraries tell
    nothing below INFO, for there they tell the texts that they send and store.
    """
    is_json = form == "json"
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if is_json else TextFormatter(LOG_FORMAT))
    logging.basicConfig(level="INFO" if level == "debug" else level.upper(), handlers=[handler])
    for package in ("app", "evaluator", "graphs"):
        logging.getLogger(package).setLevel(level.upper())
    logging.getLogger("asyncio").addFilter(Seldom(NO_SOCKET))
    logging.getLogger("uvicorn.error").addFilter(Seldom(NO_PLACE))
    config = deepcopy(LOGGING_CONFIG)
    texts = {"default": ServerTextFormatter, "access": AccessTextFormatter}
    for name, formatter in config["formatters"].items():
        formatter["()"] = JsonFormatter if is_json else texts[name]
        formatter["fmt"] = f"%(asctime)s {formatter['fmt']}"
        if is_json:
            formatter.pop("use_colors", None)
    for logger in config["loggers"].values():
        logger["level"] = level.upper()
    return config


class DaemonThreads(ThreadPoolExecutor):
    """An event loop's executor whose calls hold up neither each other nor the end of the process.

    asyncio's own has half a dozen threads and is waited for at the end, and behind a firewall that
    swallows its questions a look-up of a name takes half a minute.
    """

    def submit(self, fn: Callable[P, A], /, *args: P.args, **kwargs: P.kwargs) -> Future[A]:
        future: Future[A] = Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:  # noqa: BLE001 - whoever waits for it is told
                    future.set_exception(error)

        Thread(target=work, daemon=True).start()
        return future


class Server(uvicorn.Server):
    """At its end runs get some time to end, too; then they are told with the best answer so far."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: FastAPI,
        runs_end_within_s: float,
        announce: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._app, self._announce = app, announce
        self.runs_end_within_s = runs_end_within_s

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        stopping = asyncio.create_task(self._stop_runs())
        try:
            await super().shutdown(sockets)
        finally:
            stopping.cancel()

    async def _stop_runs(self) -> None:
        for extension in self._app.state.extensions:
            extension.stop(self._app)
        runs: Runs = self._app.state.runs
        await runs.drain(self.runs_end_within_s)
        await runs.aclose()


async def serve(
    settings: Settings, announce: Callable[[str], None], prepare: Callable[[], Awaitable[None]]
) -> None:
    """Serves until a signal ends it, once the port is ours and `prepare` has ended.

    Raises StartFailed before anything is announced.
    """
    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    await check_address(settings)
    with listen(settings.host, settings.port) as bound:
        logs = log_config(settings.log_level, settings.log_format)
        logging.getLogger("httpx").setLevel(logging.WARNING)
        await prepare()
        async with open_services(settings) as services:
            # The services are open already: what fails in opening them is told before the app is.
            app = create_app(settings, lambda _: nullcontext(services))
            config = uvicorn.Config(
                app,
                log_config=logs,
                timeout_graceful_shutdown=math.ceil(settings.shutdown_grace_s) + STOP_WITHIN_S,
                **connection_options(settings.max_connections),
            )
            host, port = bound.getsockname()[:2]
            url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            server = Server(
                config,
                app,
                settings.shutdown_grace_s,
                announce=lambda: announce(f"self-crag answers on {url}"),
            )
            await asyncio.sleep(0)  # what was interrupted until here ends here
            await server.serve(sockets=[bound])
