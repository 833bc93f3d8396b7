"""What routes ask for, as annotated aliases; async, for FastAPI sends others to a thread."""

from typing import Annotated, Any

from fastapi import Depends, Request

from app.api.readiness import Readiness
from app.composition.parts import Parts
from app.errors import DocumentsProblem
from app.ingest.uploads import Uploads
from app.observability.metrics import ServiceMetrics
from app.protocols.addresses import Addresses
from app.retrieval.text_embedding import TextEmbedding
from app.runs.manager import Runs
from app.storage.api_keys import Caller
from app.storage.collections import CollectionStore
from app.storage.lifecycle import Store


def live(name: str) -> Any:
    """A part that the app's lifespan has opened."""

    async def part(request: Request) -> Any:
        return getattr(request.app.state, name)

    return Depends(part)


async def _caller(request: Request) -> Caller:
    """Whom authentication found; where there is none everyone is the one owner ""."""
    return getattr(request.state, "caller", None) or Caller()


async def _uploads(request: Request) -> Uploads:
    uploads: Uploads | None = request.app.state.uploads
    if uploads is None:
        raise DocumentsProblem(503, "The knowledge base of this service cannot be changed here.")
    return uploads


async def _addresses(request: Request) -> Addresses:
    """Where a reader finds the page; what a proxy in front is called only a setting can tell."""
    state = request.app.state
    page = (state.public_url or str(request.base_url)).removesuffix("/")
    return Addresses(f"{page}/", (await _caller(request)).signer, state.image_address_hours * 3600)


ClientAddresses = Annotated[Addresses, Depends(_addresses)]
LiveParts = Annotated[Parts, live("parts")]
"""All of those that a run needs; the next three are among them."""
LiveRuns = Annotated[Runs, live("runs")]
LiveStore = Annotated[Store, live("store")]
LiveCollections = Annotated[CollectionStore, live("collections")]
LiveReadiness = Annotated[Readiness, live("readiness")]
LiveMetrics = Annotated[ServiceMetrics, live("metrics")]
LiveTextEmbedding = Annotated[TextEmbedding | None, live("text_embedding")]
LiveUploads = Annotated[Uploads, Depends(_uploads)]
CurrentCaller = Annotated[Caller, Depends(_caller)]
