"""A host of pages and files."""

from collections.abc import Sequence
from html import escape

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tests.loopback.server import LoopbackServer


class SiteServer(LoopbackServer):
    """`files` maps paths to (Content-Type, body)."""

    def reset(self) -> None:
        super().reset()
        self.files: dict[str, tuple[str, bytes]] = {}
        self.redirects: dict[str, str] = {}

    def page(self, path: str, text: str, title: str = "Page") -> str:
        """Puts a page there and tells its URL."""
        html = f"<html><title>{title}</title><body><p>{escape(text)}</p></body></html>"
        self.files[path] = ("text/html; charset=utf-8", html.encode())
        return self.url + path

    def routes(self) -> Sequence[BaseRoute]:
        return [Route("/{path:path}", self._file)]

    async def _file(self, request: Request) -> Response:
        self.record(request)
        path = request.url.path
        if path in self.redirects:
            return Response(status_code=302, headers={"Location": self.redirects[path]})
        if self.status != 200 or path not in self.files:
            return Response(status_code=404 if self.status == 200 else self.status)
        kind, body = self.files[path]
        return Response(body, headers={"Content-Type": kind})
