"""What routes ask for, as annotated aliases; async, for FastAPI sends others to a thread."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

from fastapi import Depends, Request

from app.errors import DocumentsProblem
from app.ingest.uploads import Uploads
from app.observability.metrics import ServiceMetrics
from app.runs.manager import Runs
from app.runs.option_checks import chosen
from app.storage.api_keys import Caller
from app.storage.lifecycle import Store
from graphs.ports import Services
from graphs.state import Context
from graphs.workflows.registry import Graph


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


async def _runs(request: Request) -> Runs:
    runs: Runs = request.app.state.runs
    return runs


async def _store(request: Request) -> Store:
    store: Store = request.app.state.store
    return store


async def _graphs(request: Request) -> dict[str, Graph]:
    graphs: dict[str, Graph] = request.app.state.graphs
    return graphs


async def _caller(request: Request) -> Caller:
    """Whom the door found; where there is no door everyone is the one owner ""."""
    caller: Caller = getattr(request.state, "caller", None) or Caller()
    return caller


async def _metrics(request: Request) -> ServiceMetrics:
    metrics: ServiceMetrics = request.app.state.metrics
    return metrics


async def _uploads(request: Request) -> Uploads:
    uploads: Uploads | None = request.app.state.uploads
    if uploads is None:
        raise DocumentsProblem(503, "The knowledge base of this service cannot be changed here.")
    return uploads


CurrentCaller = Annotated[Caller, Depends(_caller)]
LiveStore = Annotated[Store, Depends(_store)]
LiveServices = Annotated[Services, Depends(_services)]


async def _choose(request: Request, services: LiveServices) -> Callable[[Context], Context]:
    """A request's options checked, and filled by the service's preset."""
    return partial(chosen, preset=request.app.state.preset, services=services)


Choose = Annotated[Callable[[Context], Context], Depends(_choose)]
LiveRuns = Annotated[Runs, Depends(_runs)]
LiveGraphs = Annotated[dict[str, Graph], Depends(_graphs)]
LiveMetrics = Annotated[ServiceMetrics, Depends(_metrics)]
LiveUploads = Annotated[Uploads, Depends(_uploads)]
