"""The MCP server over its tools and documents, for any transport."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from app.api.routes.documents import mapped
from app.composition.parts import Parts
from app.errors import ServiceError, wrong_fields
from app.extensions.mcp.tools import TOOLS, URI, documents_of
from app.storage.api_keys import Caller

PAGE = 100
"""Documents told at once; the cursor is where the next ones begin."""
MAX_CURSOR_DIGITS = 9
ABOUT = (
    "A knowledge base that corrects itself: passages are graded, completed from the web where they"
    " do not suffice, and answers are checked against their sources. `ask` answers and cites;"
    " `search` tells the graded passages alone; `ingest` adds a document."
)
BEFORE_ID, _, _ = URI.partition("{")

RequestContext = ServerRequestContext[Any, Any]


def _caller(context: RequestContext) -> Caller:
    """Whom authentication found for this very request, whoever has opened the session."""
    request = context.request
    return getattr(request.state, "caller", None) or Caller() if request else Caller()


def _offset(params: types.PaginatedRequestParams | None) -> int:
    cursor = "0" if params is None or params.cursor is None else params.cursor
    if not cursor.isdecimal() or len(cursor) > MAX_CURSOR_DIGITS:
        raise MCPError(types.INVALID_PARAMS, "the cursor is none of ours")
    return int(cursor)


@contextmanager
def _mcp_errors() -> Iterator[None]:
    try:
        yield
    except ServiceError as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from None


class Handlers:
    """What the server answers its clients' requests with."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def list_tools(
        self, _: RequestContext, __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[kind.tool for kind in TOOLS.values()])

    async def call_tool(
        self, context: RequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        kind = TOOLS.get(params.name)
        if kind is None:
            raise MCPError(types.INVALID_PARAMS, f"unknown tool; there are: {', '.join(TOOLS)}")
        try:
            arguments = kind.arguments.model_validate(params.arguments or {})
            tell = context.session.report_progress
            return await kind.call(self._parts, _caller(context), arguments, tell)
        except (ValidationError, ServiceError) as error:  # told to the model that has called
            why = wrong_fields(error) if isinstance(error, ValidationError) else str(error)
            return types.CallToolResult(content=[types.TextContent(text=why)], is_error=True)

    async def list_resources(
        self, context: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Documents of the caller's default collection, by their source."""
        caller, offset = _caller(context), _offset(params)
        with _mcp_errors(), mapped():
            documents, total = await documents_of(self._parts, caller).documents(
                caller.owner, "", PAGE, offset, caller.default_collection
            )
        more = str(offset + PAGE) if offset + PAGE < total else None
        resources = [
            types.Resource(
                uri=URI.format(document_id=document.id),
                name=document.source,
                title=document.title,
                mime_type="text/plain",
            )
            for document in documents
        ]
        return types.ListResourcesResult(resources=resources, next_cursor=more)

    async def list_templates(
        self, _: RequestContext, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            uri_template=URI, name="document", title="A document", mime_type="text/plain"
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(
        self, context: RequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        caller, uri = _caller(context), str(params.uri)
        document = None
        if uri.startswith(BEFORE_ID):
            with _mcp_errors(), mapped():
                document = await documents_of(self._parts, caller).read(
                    uri.removeprefix(BEFORE_ID), caller.owner, caller.collections
                )
        if document is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no document {uri}.")
        contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=document.text)
        return types.ReadResourceResult(contents=[contents])


def mcp_server(parts: Parts) -> Server[Any]:
    """Serves whom authentication let in, or without HTTP whoever has started it."""
    handlers = Handlers(parts)
    return Server(
        "self-crag",
        version=version("self-crag"),
        title="self-crag",
        instructions=ABOUT,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
    )
