"""`/documents`: bring files into the knowledge base, list them, delete them."""

import asyncio
import errno
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, replace
from itertools import count
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter
from starlette.requests import ClientDisconnect

from app.api.dependencies import CurrentCaller, LiveCollections, LiveRuns, LiveUploads
from app.api.languages import in_language, language_of, translated
from app.api.problems import problems
from app.api.routes.ask import accepts_events
from app.api.sse import CLIENT_CLOSED_REQUEST, EVENT_STREAM, HEADERS, never_silent
from app.errors import DocumentsProblem, InvalidRequest, NotFound, internal_problem
from app.ingest.uploads import (
    Brought,
    LeftBehind,
    Received,
    SharedDocument,
    UploadBroken,
    Uploads,
    UploadTooLarge,
)
from app.protocols.messages import checked
from app.retrieval.embedder import EmbedderFailed
from app.retrieval.index import IndexMismatch, IngestBusy, StoredDocument
from app.schemas import documents as schemas
from app.schemas.ask import CollectionName, DoneEvent, ErrorEvent, Event, Problem, encoded
from graphs.types import Language

router = APIRouter(tags=["documents"])
log = logging.getLogger(__name__)
PATH = "/documents"
STOPPED = Problem(title="Stopped", status=503, detail="The service ended before the upload did.")
_FILES = {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}
COLLECTION: TypeAdapter[str] = TypeAdapter(CollectionName)
_PROPERTIES = {"files": _FILES, "collection": COLLECTION.json_schema()}
_FIELDS = {"type": "object", "required": ["files"], "properties": _PROPERTIES}
NamedCollection = Annotated[
    CollectionName | None,
    Query(description="Of this collection; left out: the key's first, or `default`."),
]
FORM = {"required": True, "content": {"multipart/form-data": {"schema": _FIELDS}}}


@router.post(
    PATH,
    response_model=schemas.Uploaded,
    openapi_extra={"requestBody": FORM},
    responses=problems(409, 413, 422, 429, 500, 503),
)
async def upload(
    request: Request,
    uploads: LiveUploads,
    collections: LiveCollections,
    runs: LiveRuns,
    caller: CurrentCaller,
    collection: NamedCollection = None,
) -> Response:
    """Bring files in: new ones are added, changed ones replaced, unchanged ones skipped.

    The form's field `files` holds one file or several; its field `collection` says where they go,
    as the parameter does. What cannot be read is refused by name in the report, the rest goes in.
    `Accept: text/event-stream` tells the progress.
    """
    language = language_of(request.scope)
    collections.writable(caller, collection)
    await runs.quotas.take("uploads", caller.owner)
    async with AsyncExitStack() as stack:
        kind = request.headers.get("content-type", "")
        try:
            form = await stack.enter_async_context(uploads.received(request.stream(), kind))
        except UploadTooLarge as error:
            raise DocumentsProblem(413, str(error)) from None
        except UploadBroken as error:
            raise InvalidRequest("#/files", str(error)) from None
        except OSError as error:
            raise _unwritable(error) from None
        except ClientDisconnect:
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        if form.collection is not None:
            collection = checked(COLLECTION, form.collection, "#/collection")
        place = collections.writable(caller, collection)
        events: asyncio.Queue[Event] = asyncio.Queue()
        # From here on it goes on to its end, whether or not its client stays.
        files, tell = form.files, events.put_nowait
        work = uploads.go_on(
            _work(uploads, stack.pop_all(), files, caller.owner, place, language, tell)
        )
    if accepts_events(request):

        def conclude(ended: asyncio.Task[schemas.IngestReport]) -> None:
            events.put_nowait(_outcome(ended, language))
            events.put_nowait(DoneEvent())

        work.add_done_callback(conclude)
        texts = never_silent(_events(events))
        return StreamingResponse(texts, media_type=EVENT_STREAM, headers=HEADERS)
    uploaded = schemas.Uploaded(report=await asyncio.shield(work))
    return Response(uploaded.model_dump_json(), media_type="application/json")


@router.get(PATH, responses=problems(404, 422, 500, 503))
async def documents(
    uploads: LiveUploads,
    collections: LiveCollections,
    caller: CurrentCaller,
    collection: NamedCollection = None,
    q: Annotated[str, Query(max_length=200, description="Part of a source or title.")] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> schemas.Documents:
    """The caller's documents and the shared ones of a collection, ordered by source."""
    chosen = await collections.chosen(caller, collection)
    with mapped():
        documents, total = await uploads.documents(caller.owner, q, limit, offset, chosen)
    return schemas.Documents(documents=[_info(document) for document in documents], total=total)


@router.get(PATH + "/{document_id}", responses=problems(404, 422, 500, 503))
async def document(
    document_id: str, uploads: LiveUploads, caller: CurrentCaller
) -> schemas.DocumentText:
    """A document's text, and where in it each searched part stands.

    A strip's `document_id` begins with the id of such a part.
    """
    with mapped():
        stored = await uploads.read(document_id, caller.owner, caller.collections)
    if stored is None:
        raise NotFound(f"There is no document {document_id}.")
    info = _info(stored.document).model_dump()
    return schemas.DocumentText(**info, text=stored.text, blocks=stored.parts)


@router.delete(
    PATH + "/{document_id}", status_code=204, responses=problems(404, 409, 422, 500, 503)
)
async def delete(document_id: str, uploads: LiveUploads, caller: CurrentCaller) -> None:
    """Remove a document of the caller's, and the file it was uploaded as."""
    with mapped():
        if not await uploads.delete(document_id, caller.owner, caller.collections):
            raise NotFound(f"There is no document {document_id}.")


async def _work(
    uploads: Uploads,
    stack: AsyncExitStack,
    files: list[Received],
    owner: str,
    collection: str,
    language: Language,
    tell: Callable[[Event], None],
) -> schemas.IngestReport:
    def progress(done: int, total: int, source: str) -> None:
        phase: schemas.Phase = "reading" if source else "indexing"
        tell(schemas.ProgressEvent(done=done, total=total, source=source, phase=phase))

    async with stack:
        with mapped():
            brought = await uploads.bring_in(files, owner, progress, collection)
    return _reported(brought, language)


async def _events(events: asyncio.Queue[Event]) -> AsyncGenerator[str]:
    for number in count():
        event = await events.get()
        yield encoded(number, event)
        if isinstance(event, DoneEvent):
            return


def _outcome(work: asyncio.Task[schemas.IngestReport], language: Language) -> Event:
    error = None if work.cancelled() else work.exception()
    if work.cancelled():
        problem = STOPPED
    elif error is None:
        return schemas.ReportEvent(report=work.result())
    elif isinstance(error, DocumentsProblem):
        problem = error.problem
    else:
        log.error("an upload failed", exc_info=error)
        problem = internal_problem()
    return ErrorEvent(problem=in_language(problem, language))


@contextmanager
def mapped() -> Iterator[None]:
    """What index and folder raise, as problems."""
    try:
        yield
    except IngestBusy as error:
        raise DocumentsProblem(409, f"{str(error).capitalize()}.") from None
    except IndexMismatch as error:
        raise _unusable(error) from None
    except EmbedderFailed as error:
        raise DocumentsProblem(503, str(error)) from None
    except OSError as error:
        raise _unwritable(error) from None
    except LeftBehind as left:
        raise DocumentsProblem(
            503, f"Deleted and found no more, but still on the service's disk: {left}."
        ) from None
    except SharedDocument:
        raise DocumentsProblem(
            403, "A shared document is removed at the service's machine: selfcrag ingest --prune."
        ) from None


def _unusable(error: IndexMismatch) -> DocumentsProblem:
    """The log says where it lies, too."""
    log.error("the index cannot be used: %s", error)
    detail = "The index of documents cannot be used at the moment; the service's log says why."
    return DocumentsProblem(503, detail)


def _unwritable(error: OSError) -> DocumentsProblem:
    """The log has the path, which is not the caller's to know."""
    log.error("the folder of documents cannot be used: %s", error)
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DocumentsProblem(503, "There is no room left on the service's disk.")
    return DocumentsProblem(503, "The service cannot use its folder of documents.")


def _reported(brought: Brought, language: Language) -> schemas.IngestReport:
    report = replace(brought.report, took_s=round(brought.report.took_s, 3))
    documents = [_info(document) for document in brought.documents]
    reported = schemas.IngestReport(**asdict(report), documents=documents)
    for refused in reported.refused:
        refused.reason = translated(refused.reason, language)
    return reported


def _info(document: StoredDocument) -> schemas.DocumentInfo:
    known = {**asdict(document), "language": document.language or None}
    return schemas.DocumentInfo(**known, shared=not document.owner)
