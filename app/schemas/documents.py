"""What goes over the wire about documents; clients may import this module without the service."""

from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from app.schemas.ask import Event

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
