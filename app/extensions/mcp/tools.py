"""MCP tools: what each takes, does and tells. Runs are those of `POST /ask`."""

import base64
import binascii
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from mcp_types import (
    CallToolResult,
    ContentBlock,
    ResourceLink,
    TextContent,
    Tool,
    ToolAnnotations,
)
from pydantic import BaseModel, ConfigDict, Field

from app.api.routes.documents import mapped
from app.composition.parts import Parts
from app.errors import DocumentsProblem, InvalidRequest, ScopeMissing, ServiceError
from app.ingest.uploads import UploadBroken, Uploads, UploadTooLarge
from app.protocols.answers import is_web_address
from app.protocols.progress_text import ProgressText, caution
from app.runs.request import RunRequest
from app.runs.run import Run
from app.runs.search import SEARCH, corrected_knowledge
from app.schemas.ask import (
    AskRequest,
    CollectionName,
    ErrorEvent,
    KnowledgePassage,
    SearchRequest,
    ThreadId,
)
from app.schemas.documents import RefusedDocument
from app.storage.api_keys import Caller
from graphs.state import Context, Question
from graphs.text.inert_markup import inert
from graphs.types import Action, Citation, Degraded, Verdict
from graphs.workflows.registry import DEFAULT_WORKFLOW

URI = "selfcrag://documents/{document_id}"
NO_DOCUMENTS = "The knowledge base of this service cannot be changed here."


def documents_of(parts: Parts, caller: Caller) -> Uploads:
    """Raises ScopeMissing, DocumentsProblem."""
    if "documents" not in caller.scopes:
        raise ScopeMissing("documents")
    if parts.uploads is None:
        raise DocumentsProblem(503, NO_DOCUMENTS)
    return parts.uploads


TellProgress = Callable[..., Awaitable[None]]
"""Takes how far, of how much where that is known, and a message."""
Handler = Callable[[Parts, Caller, Any, TellProgress], Awaitable[CallToolResult]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ToolKind:
    """A tool as it is listed, and what does its work."""

    tool: Tool
    arguments: type[BaseModel]
    call: Handler


TOOLS: dict[str, ToolKind] = {}


def _tool(
    title: str, result: type[BaseModel], *, reads_only: bool = True
) -> Callable[[Handler], Handler]:
    """Lists a handler as a tool, by its name, docstring and model of arguments."""

    def listed(call: Handler) -> Handler:
        arguments: type[BaseModel] = call.__annotations__["arguments"]
        tool = Tool(
            name=call.__name__,
            title=title,
            description=" ".join((call.__doc__ or "").split()),
            input_schema=arguments.model_json_schema(),
            output_schema=result.model_json_schema(mode="serialization"),
            annotations=ToolAnnotations(read_only_hint=reads_only, destructive_hint=not reads_only),
        )
        TOOLS[tool.name] = ToolKind(tool, arguments, call)
        return call

    return listed


class AskArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    question: str = Field(description="The question, in English or Chinese.")
    workflow: str | None = Field(
        None, description="rag, crag, self_rag or self_crag, the default and most thorough."
    )
    collection: CollectionName | None = Field(None, description="Which documents to ask.")
    thread_id: ThreadId | None = Field(None, description="The conversation to go on with.")
    options: Context = Field(default_factory=Context, description="Tunables of this run.")


class AskResult(BaseModel):
    """The answer and what it rests on; `run_id` leads to the whole trace."""

    run_id: str
    thread_id: str
    answer: str
    verdict: Verdict
    confidence: float | None
    action: Action | None
    missing: list[str]
    citations: list[Citation]
    degraded: list[Degraded]


class SearchResult(BaseModel):
    """Corrected knowledge, best first; scores are grades from -1 to 1."""

    run_id: str
    action: Action | None
    passages: list[KnowledgePassage]
    degraded: list[Degraded]


class IngestArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(
        description="The file's name; its suffix tells the format, such as notes.md or table.csv."
    )
    text: str | None = Field(None, description="The content of a text file.")
    base64: str | None = Field(None, description="The content of a binary file, such as a PDF.")
    collection: CollectionName | None = Field(None, description="Where the document goes.")

    def content(self) -> bytes:
        """Raises InvalidRequest."""
        if (self.text is None) == (self.base64 is None):
            raise InvalidRequest("#/text", "give the content either as text or as base64")
        if self.text is not None:
            return self.text.encode("utf-8", "surrogatepass")
        try:
            return base64.b64decode(self.base64 or "", validate=True)
        except binascii.Error:
            raise InvalidRequest("#/base64", "is not base64") from None


class IngestResult(BaseModel):
    """`outcome` is added, updated, skipped as unchanged, or refused, with the reason."""

    outcome: str
    refused: list[RefusedDocument]
    document_ids: list[str]
    chunks: int


class RunFailed(ServiceError):
    """A run ended without an answer."""


@_tool("Ask the knowledge base", AskResult)
async def ask(
    parts: Parts, caller: Caller, arguments: AskArguments, tell: TellProgress
) -> CallToolResult:
    """Answers a question from the knowledge base, and from the web where that does not suffice,
    checks the answer against its sources and cites them.
    """
    request = AskRequest(**arguments.model_dump(exclude={"options"}), options=arguments.options)
    workflow = request.workflow or DEFAULT_WORKFLOW
    if workflow not in parts.graphs:
        raise InvalidRequest("#/workflow", f"unknown; built are: {', '.join(parts.graphs)}")
    response = (await _run(parts, caller, workflow, request, tell, Run.outcome)).response
    sources = [inert(f"[{c.n}] {c.title} — {c.source}", [c.source]) for c in response.citations]
    begins = "" if request.options.choices else caution(response.verdict, response.answer)
    text = "\n\n".join(filter(None, [begins + response.answer, "\n".join(sources)]))
    result = AskResult.model_validate(response, from_attributes=True)
    return _tool_result(text, result, response.citations)


@_tool("Search the knowledge base", SearchResult)
async def search(
    parts: Parts, caller: Caller, arguments: SearchRequest, tell: TellProgress
) -> CallToolResult:
    """Finds the passages that answer a question, graded and corrected, for you to answer from;
    nothing is written.
    """
    knowledge = await _run(parts, caller, SEARCH, arguments, tell, corrected_knowledge)
    texts = [f"[{n}] {p.title} — {p.source} ({p.score:.2f})\n{p.text}"
             for n, p in enumerate(knowledge.passages, start=1)]  # fmt: skip
    result = SearchResult.model_validate(knowledge, from_attributes=True)
    return _tool_result("\n\n".join(texts) or "Nothing was found.", result, knowledge.passages)


@_tool("Add a document", IngestResult, reads_only=False)
async def ingest(
    parts: Parts, caller: Caller, arguments: IngestArguments, tell: TellProgress
) -> CallToolResult:
    """Brings a document into the knowledge base; one of the same name is replaced."""
    uploads = documents_of(parts, caller)
    place = parts.collections.writable(caller, arguments.collection)
    await parts.runs.quotas.take("uploads", caller.owner)
    await tell(0, 1, arguments.name)
    try:
        async with uploads.written(arguments.name, arguments.content()) as file:
            with mapped():
                brought = await uploads.bring_in([file], caller.owner, collection=place)
    except UploadTooLarge as error:
        raise DocumentsProblem(413, str(error)) from None
    except UploadBroken as error:
        raise InvalidRequest("#/name", str(error)) from None
    report = brought.report
    kinds = ("added", "updated", "skipped", "refused")
    outcome = next((kind for kind in kinds if getattr(report, kind)), "skipped")
    refused = [RefusedDocument(source=it.source, reason=it.reason) for it in report.refused]
    ids = [document.id for document in brought.documents]
    result = IngestResult(outcome=outcome, refused=refused, document_ids=ids, chunks=report.chunks)
    why = f": {refused[0].reason}" if refused else ""
    reply = _tool_result(f"{arguments.name} was {outcome}{why}.", result, ())
    reply.is_error = bool(refused)
    await tell(1, 1, arguments.name)
    return reply


async def _run(
    parts: Parts,
    caller: Caller,
    workflow: str,
    request: AskRequest | SearchRequest,
    tell: TellProgress,
    outcome: Callable[[Run], Awaitable[T | ErrorEvent]],
) -> T:
    thread_id = request.thread_id if isinstance(request, AskRequest) else None
    scope = await parts.collections.scope(caller, request.collection)
    question = Question(question=request.question)
    run = await parts.runs.start(RunRequest(workflow, question, request.options, scope, thread_id))
    try:
        await _follow(run, tell)
        last = await outcome(run)
    finally:
        parts.runs.ask_to_stop(run)  # where the client has given up
    if isinstance(last, ErrorEvent):
        raise RunFailed(last.problem.detail)
    return last


async def _follow(run: Run, tell: TellProgress) -> None:
    """Tells the steps in the words that chat frontends show."""
    progress, count = ProgressText(run.question["question"]), 0
    async with aclosing(run.follow()) as events:
        async for _, event in events:
            for line in progress.lines(event):
                count += 1
                await tell(count, message=line)


def _tool_result(
    text: str, result: BaseModel, places: Iterable[Citation | KnowledgePassage]
) -> CallToolResult:
    """The text, a link to every document it comes from, and the same as data."""
    links: dict[str, ContentBlock] = {}
    for place in places:
        source = place.source
        document_id, dash, _ = place.strip_id.partition("-")
        if place.origin == "internal" and dash and len(document_id) == 16:
            uri = URI.format(document_id=document_id)
            links.setdefault(uri, ResourceLink(uri=uri, name=source, title=place.title))
        elif place.origin == "web" and is_web_address(source):
            links.setdefault(source, ResourceLink(uri=source, name=place.title or source))
    return CallToolResult(
        content=[TextContent(text=text), *links.values()],
        structured_content=result.model_dump(mode="json"),
    )
