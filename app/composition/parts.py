"""The opened parts of a service or of a command: services, database, workflows and runs."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import langsmith
from sqlalchemy.ext.asyncio import AsyncEngine

from app.composition.services import open_services
from app.ingest.uploads import Uploads, uploads_into
from app.runs.admission import WAIT_S, Quotas
from app.runs.manager import Observe, Runs
from app.runs.search import SEARCH, build_search
from app.settings import Settings
from app.storage.collections import CollectionStore
from app.storage.database import open_engine
from app.storage.lifecycle import Store, open_store
from graphs.ports import Services
from graphs.workflows.registry import WORKFLOWS, Graph

Source = Callable[[Settings], AbstractAsyncContextManager[Services]]


@dataclass(frozen=True, slots=True)
class Parts:
    """What is open while runs go on; `uploads` is None where the index is not one of ours."""

    services: Services
    engine: AsyncEngine
    store: Store
    graphs: Mapping[str, Graph]
    runs: Runs
    collections: CollectionStore
    uploads: Uploads | None


@asynccontextmanager
async def open_parts(
    settings: Settings,
    most: int,
    source: Source = open_services,
    *,
    observers: Sequence[Observe] = (),
    quotas: Quotas | None = None,
    queue_wait_s: float = WAIT_S,
) -> AsyncIterator[Parts]:
    """All workflows over what `source` yields, `most` runs at a time. Raises ServiceError."""
    # LangSmith exports whole texts: the setting decides, whatever its own variables say.
    langsmith.configure(enabled=settings.langsmith)
    async with (
        source(settings) as services,
        open_engine(settings) as engine,
        open_store(settings, engine) as store,
    ):
        graphs = {name: workflow.build(services) for name, workflow in WORKFLOWS.items()}
        runs = Runs(
            {**graphs, SEARCH: build_search(services)},
            services,
            most,
            store,
            preset=settings.preset,
            observers=observers,
            keeps_prompts=settings.keep_prompts,
            quotas=quotas,
            queue_wait_s=queue_wait_s,
        )
        uploads = uploads_into(services.retriever, settings)
        collections = CollectionStore(engine, uploads)
        try:
            yield Parts(services, engine, store, graphs, runs, collections, uploads)
        finally:
            await runs.aclose()
            if uploads is not None:
                await uploads.aclose()
