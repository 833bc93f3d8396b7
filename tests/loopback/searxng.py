"""Speaks SearXNG's GET /search?format=json."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from tests.loopback.corpus import matches
from tests.loopback.pages import EngineServer
from tests.loopback.server import pause


class SearxngServer(EngineServer):
    """`has_json` False is how an instance comes out of the box."""

    def reset(self) -> None:
        super().reset()
        self.has_json = True

    def routes(self) -> Sequence[BaseRoute]:
        return [Route("/search", self.search)]

    async def search(self, request: Request) -> Response:
        self.record(request)
        await pause(request, self.delay_s)
        if self.status != 200:
            return Response("told to fail", status_code=self.status)
        if request.query_params.get("format") != "json" or not self.has_json:
            return Response("Forbidden", status_code=403)
        if not request.query_params.get("q", "").strip():
            return Response("Bad request", status_code=400)
        if self.raw_reply is not None:
            return Response(self.raw_reply, 200, self.reply_headers, "application/json")
        results = [
            {
                "url": self.pages.page_url(entry.slug),
                "title": entry.title,
                "content": entry.paragraphs[0],
                "engine": "loopback",
                "score": score,
            }
            for entry, score in matches(request.query_params["q"])
        ]
        return JSONResponse({"query": request.query_params["q"], "results": results})
