"""The pages that search results point to: good ones, broken ones and hostile ones."""

import asyncio
import gzip
import html
import zlib
from collections.abc import AsyncIterator, Sequence

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from tests.loopback.corpus import BY_SLUG, Entry
from tests.loopback.server import LoopbackServer, pause

SECRET = "internal secret of the metadata service"


def page_html(entry: Entry) -> str:
    body = "".join(f"<p>{html.escape(text)}</p>" for text in entry.paragraphs)
    return (
        f'<!doctype html><html lang="{entry.language}"><head><meta charset="utf-8">'
        f"<title>{entry.title}</title><style>p {{ color: red }}</style></head><body>"
        "<nav><p>Home, about us and everything else</p></nav>"
        f"<main><h1>{entry.title}</h1>{body}<p>short</p></main>"
        "<footer><p>All rights reserved by nobody at all</p></footer></body></html>"
    )


class PageServer(LoopbackServer):
    """`status` other than 200 breaks every page; `page_url(slug)` is where a page stands."""

    def reset(self) -> None:
        super().reset()
        self.bytes_sent = 0
        self.markup = ""
        """What /html answers."""

    def page_url(self, slug: str) -> str:
        return f"{self.url}/pages/{slug}"

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/pages/{slug}", self.page),
            Route("/html", self.raw_html),
            Route("/redirect", self.redirect),
            Route("/loop", self.loop),
            Route("/hop/{count:int}", self.hop),
            Route("/slow", self.slow),
            Route("/drip", self.drip),
            Route("/endless", self.endless),
            Route("/endless-redirect", self.endless_redirect),
            Route("/bomb", self.bomb),
            Route("/gzip/{slug}", self.zipped),
            Route("/broken-gzip", self.broken_gzip),
            Route("/typed", self.typed),
            Route("/cookie", self.cookie),
        ]

    async def page(self, request: Request) -> Response:
        self.record(request)
        await self.hold(request)
        entry = BY_SLUG.get(request.path_params["slug"])
        if self.status != 200 or entry is None:
            return Response("gone", status_code=self.status if self.status != 200 else 404)
        return Response(page_html(entry), media_type="text/html")

    async def raw_html(self, request: Request) -> Response:
        self.record(request)
        return Response(self.markup, media_type="text/html")

    async def redirect(self, request: Request) -> Response:
        self.record(request)
        return RedirectResponse(request.query_params["to"])

    async def loop(self, request: Request) -> Response:
        self.record(request)
        return RedirectResponse("/loop")

    async def hop(self, request: Request) -> Response:
        self.record(request)
        left = request.path_params["count"]
        return RedirectResponse(f"/hop/{left - 1}" if left > 1 else "/pages/lighthouse")

    async def slow(self, request: Request) -> Response:
        self.record(request)
        await pause(request, 60)
        return Response("late")

    async def drip(self, request: Request) -> Response:
        """Never a pause long enough for a timeout between two bytes."""
        self.record(request)

        async def drops() -> AsyncIterator[bytes]:
            while True:
                yield b"<p>"
                await asyncio.sleep(0.05)

        return StreamingResponse(drops(), media_type="text/html")

    async def _flood(self) -> AsyncIterator[bytes]:
        yield b"<h1>Flood</h1><p>The first paragraph of a page without an end.</p>"
        chunk = b"<!-- " + b"x" * 65_000 + b" -->"
        while self.bytes_sent < 200_000_000:
            self.bytes_sent += len(chunk)
            yield chunk
            # Room to notice that the client has left.
            await asyncio.sleep(0)

    async def endless(self, request: Request) -> Response:
        self.record(request)
        return StreamingResponse(self._flood(), media_type="text/html")

    async def endless_redirect(self, request: Request) -> Response:
        self.record(request)
        return StreamingResponse(
            self._flood(), status_code=302, headers={"Location": "/pages/lighthouse"}
        )

    async def bomb(self, request: Request) -> Response:
        """A gigabyte of paragraphs in about a megabyte."""
        self.record(request)

        async def blocks() -> AsyncIterator[bytes]:
            packer = zlib.compressobj(wbits=31)
            block = b"<p>boom boom boom</p>" * 50_000
            for _ in range(1000):
                if piece := packer.compress(block):
                    yield piece
                await asyncio.sleep(0)
            yield packer.flush()

        return StreamingResponse(
            blocks(), media_type="text/html", headers={"Content-Encoding": "gzip"}
        )

    async def zipped(self, request: Request) -> Response:
        self.record(request)
        body = gzip.compress(page_html(BY_SLUG[request.path_params["slug"]]).encode())
        return Response(body, media_type="text/html", headers={"Content-Encoding": "gzip"})

    async def broken_gzip(self, request: Request) -> Response:
        self.record(request)
        return Response(b"no gzip", media_type="text/html", headers={"Content-Encoding": "gzip"})

    async def typed(self, request: Request) -> Response:
        self.record(request)
        content_type = request.query_params["type"]
        return Response(
            b"One block of plain words.\n\nAnother block of plain words.",
            headers={"Content-Type": content_type},
        )

    async def cookie(self, request: Request) -> Response:
        self.record(request)
        response = Response(page_html(BY_SLUG["bees"]), media_type="text/html")
        response.set_cookie("seen", "yes")
        return response


class EngineServer(LoopbackServer):
    """A search engine: results point to the pages of `pages`; `raw_reply` is sent as it is."""

    def __init__(self, pages: PageServer) -> None:
        super().__init__()
        self.pages = pages

    def reset(self) -> None:
        super().reset()
        self.raw_reply: bytes | None = None
        self.reply_headers: dict[str, str] = {}
