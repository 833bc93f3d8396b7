"""A host with sitemaps, pages that have versions, and rules for robots."""

from collections.abc import Sequence
from html import escape

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tests.loopback.server import LoopbackServer

URLSET = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{}</urlset>'
INDEX = '<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{}</sitemapindex>'


class SiteServer(LoopbackServer):
    """`files` maps paths to (Content-Type, body); a robots.txt of None answers 404."""

    def reset(self) -> None:
        super().reset()
        self.robots: str | None = None
        self.files: dict[str, tuple[str, bytes]] = {}
        self.versions: dict[str, str] = {}
        """ETags, by path."""
        self.redirects: dict[str, str] = {}

    def page(self, path: str, text: str, title: str = "Page") -> str:
        """Puts a page there and tells its URL."""
        html = f"<html><title>{title}</title><body><p>{escape(text)}</p></body></html>"
        self.files[path] = ("text/html; charset=utf-8", html.encode())
        return self.url + path

    def sitemap(self, path: str, *urls: str, of_sitemaps: bool = False) -> str:
        inner, outer = ("sitemap", INDEX) if of_sitemaps else ("url", URLSET)
        entries = "".join(f"<{inner}><loc>{escape(url)}</loc></{inner}>" for url in urls)
        self.files[path] = ("application/xml", outer.format(entries).encode())
        return self.url + path

    def asked(self) -> list[str]:
        return [request.path for request in self.requests if request.path != "/robots.txt"]

    def routes(self) -> Sequence[BaseRoute]:
        return [Route("/robots.txt", self._rules), Route("/{path:path}", self._file)]

    async def _rules(self, request: Request) -> Response:
        self.record(request)
        if self.robots is None:
            return Response(status_code=404)
        return Response(self.robots, media_type="text/plain")

    async def _file(self, request: Request) -> Response:
        self.record(request)
        path = request.url.path
        if path in self.redirects:
            return Response(status_code=302, headers={"Location": self.redirects[path]})
        if self.status != 200 or path not in self.files:
            return Response(status_code=404 if self.status == 200 else self.status)
        headers = {"ETag": self.versions[path]} if path in self.versions else {}
        if headers and request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        kind, body = self.files[path]
        return Response(body, headers={"Content-Type": kind, **headers})
