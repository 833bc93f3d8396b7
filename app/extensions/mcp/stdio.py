"""`selfcrag mcp`: an MCP server on standard input and output, with parts of its own."""

import asyncio
import logging
import signal

from mcp.server.stdio import stdio_server

from app.cli.interrupt import exit_at_once
from app.cli.terminal import fail
from app.composition.services import open_services
from app.errors import ServiceError
from app.extensions.mcp.server import mcp_server
from app.extensions.mcp.tools import Parts
from app.ingest.uploads import uploads_into
from app.main import DaemonThreads
from app.observability.tracing import set_tracing
from app.runs.manager import Runs
from app.runs.search import SEARCH, build_search
from app.settings import Settings, load_settings
from app.storage.collections import CollectionStore
from app.storage.database import open_engine
from app.storage.lifecycle import open_store
from graphs.workflows.registry import WORKFLOWS


def serve_stdio() -> None:
    """Until standard input ends."""
    logging.basicConfig(level=logging.ERROR)
    # What reads standard input cannot be cancelled: a silent client would hold Ctrl-C up.
    signal.signal(signal.SIGINT, exit_at_once)
    try:
        asyncio.run(_serve(load_settings(Settings)))
    except ServiceError as error:
        fail(str(error))


async def _serve(settings: Settings) -> None:
    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    set_tracing(settings.langsmith)
    # First of all, so that nothing that is printed meanwhile is taken for a message.
    async with (
        stdio_server() as (read, write),
        open_services(settings) as services,
        open_engine(settings) as engine,
        open_store(settings, engine) as store,
    ):
        graphs = {name: workflow.build(services) for name, workflow in WORKFLOWS.items()}
        built = {**graphs, SEARCH: build_search(services)}
        runs = Runs(
            built,
            services,
            settings.max_runs,
            store,
            preset=settings.preset,
            keeps_prompts=settings.keep_prompts,
        )
        uploads = uploads_into(services.retriever, settings)
        parts = Parts(runs, tuple(graphs), CollectionStore(engine, uploads), uploads)
        server = mcp_server(parts)
        try:
            await server.run(read, write, server.create_initialization_options())
        finally:
            await runs.aclose()
            if uploads is not None:
                await uploads.aclose()
