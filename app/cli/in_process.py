"""Runs of a command: the parts, the database and the workflows, opened without the service."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from app.composition.services import open_services
from app.ingest.uploads import Uploads, uploads_into
from app.main import DaemonThreads
from app.observability.tracing import set_tracing
from app.runs.manager import Runs
from app.runs.search import SEARCH, build_search
from app.settings import Settings
from app.storage.collections import CollectionStore
from app.storage.database import open_engine
from app.storage.lifecycle import Store, open_store
from graphs.ports import Services
from graphs.workflows.registry import WORKFLOWS


@dataclass(frozen=True, slots=True)
class InProcess:
    """What a command works with; `uploads` is None where the index is not one of ours."""

    services: Services
    engine: AsyncEngine
    store: Store
    runs: Runs
    collections: CollectionStore
    uploads: Uploads | None


@asynccontextmanager
async def open_runs(settings: Settings, at_once: int = 1) -> AsyncIterator[InProcess]:
    """All workflows over the settings' parts, `at_once` runs at a time. Raises ServiceError."""
    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    set_tracing(settings.langsmith)
    async with (
        open_services(settings) as services,
        open_engine(settings) as engine,
        open_store(settings, engine) as store,
    ):
        graphs = {name: workflow.build(services) for name, workflow in WORKFLOWS.items()}
        runs = Runs(
            {**graphs, SEARCH: build_search(services)},
            services,
            at_once,
            store,
            preset=settings.preset,
            keeps_prompts=settings.keep_prompts,
        )
        uploads = uploads_into(services.retriever, settings)
        collections = CollectionStore(engine, uploads)
        try:
            yield InProcess(services, engine, store, runs, collections, uploads)
        finally:
            await runs.aclose()
            if uploads is not None:
                await uploads.aclose()
