"""What goes over the wire about documents; clients may import this module without the service."""

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.schemas.ask import COLLECTION_RULE, CollectionName, Event

Phase = Literal["reading", "indexing"]


class DocumentInfo(BaseModel):
    """A document of the knowledge base; `source` is the name of the file, its path, or its URL."""

    id: str
    source: str
    title: str
    chunks: int
    bytes: int
    language: str | None = Field(None, description="`en` or `zh`.")
    added_at: str = Field(description="UTC, in ISO 8601.")
    shared: bool = Field(description="Whether everyone's questions find it.")
    collection: str = Field(description="The collection it is in.")


class RefusedDocument(BaseModel):
    source: str
    reason: str


class IngestReport(BaseModel):
    """Sources by what became of them; `chunks` counts those that were written."""

    added: list[str]
    updated: list[str]
    skipped: list[str]
    refused: list[RefusedDocument]
    removed: list[str]
    chunks: int
    took_s: float
    documents: list[DocumentInfo]


class Uploaded(BaseModel):
    report: IngestReport


class Documents(BaseModel):
    """One part of the list; `total` counts all that match."""

    documents: list[DocumentInfo]
    total: int


class DocumentBlock(BaseModel):
    """A part of a document's text at [start, end), which is searched as one; see `strip_id`."""

    id: str
    start: int
    end: int
    heading: str = Field(description="The headings it stands under, outermost first.")
    page: int | None = Field(None, description="From 1, where the document has pages.")


class DocumentText(DocumentInfo):
    """A document with its text, the parts that are searched joined."""

    text: str
    blocks: list[DocumentBlock]


class CollectionRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: CollectionName = Field(description=f"{COLLECTION_RULE}.")


class Collection(BaseModel):
    """A named set of documents; the counts are of those that the caller sees."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    documents: int
    chunks: int


class Collections(BaseModel):
    """By name, the caller's default first; a collection may be empty."""

    collections: list[Collection]


class ProgressEvent(Event):
    """`done` of `total` documents are read; `source` is being read now."""

    name: ClassVar[str] = "progress"
    done: int
    total: int
    source: str
    phase: Phase


class ReportEvent(Event):
    name: ClassVar[str] = "report"
    report: IngestReport
