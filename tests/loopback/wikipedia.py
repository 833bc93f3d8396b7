"""Speaks the part of MediaWiki's API that joins a search with introductions, en and zh."""

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from tests.loopback.corpus import Entry, matches, terms
from tests.loopback.pages import EngineServer
from tests.loopback.server import pause


class WikipediaServer(EngineServer):
    """`api_url` is what the adapter takes; every word of a search must be in an article."""

    @property
    def api_url(self) -> str:
        return f"{self.url}/{{language}}/w/api.php"

    @property
    def queries(self) -> list[str]:
        return [request.query["gsrsearch"] for request in self.requests]

    def routes(self) -> Sequence[BaseRoute]:
        return [Route("/{language}/w/api.php", self.api)]

    async def api(self, request: Request) -> Response:
        self.record(request)
        await pause(request, self.delay_s)
        if not request.headers.get("user-agent", "").startswith("self-crag/"):
            return Response("Please set a user-agent that says who you are.", status_code=403)
        if self.status != 200:
            return Response("told to fail", status_code=self.status)
        if self.raw_reply is not None:
            return Response(self.raw_reply, 200, self.reply_headers, "application/json")
        asked = request.query_params
        wanted = {"action": "query", "format": "json", "generator": "search"}
        if any(asked.get(name) != value for name, value in wanted.items()):
            return _error("badvalue", "Unrecognized value for a parameter.")
        if not asked.get("gsrsearch", "").strip():
            return _error("missingparam", 'The "gsrsearch" parameter must be set.')
        if not 1 <= int(asked.get("gsrlimit", "10")) <= 500:
            return _error("outofrange", 'The value of "gsrlimit" is out of range.')
        return JSONResponse(self._reply(asked["gsrsearch"], request.path_params["language"]))

    def _reply(self, search: str, language: str) -> dict[str, Any]:
        choices = search.split(" OR ")
        found = [
            entry
            for entry, _ in matches(search)
            if entry.language == language and any(_holds(entry, words) for words in choices)
        ]
        if not found:
            return {"batchcomplete": True}
        pages = [
            {
                "pageid": 100 + rank,
                "ns": 0,
                "title": entry.title,
                "index": rank + 1,
                "extract": "\n".join(entry.paragraphs[:2]),
                "fullurl": self.pages.page_url(entry.slug),
            }
            for rank, entry in enumerate(found)
        ]
        # The real one sorts by page id, which says nothing about the rank.
        return {"batchcomplete": True, "query": {"pages": pages[::-1]}}


def _holds(entry: Entry, words: str) -> bool:
    return terms(words) <= terms(f"{entry.title} {entry.text}")


def _error(code: str, info: str) -> Response:
    return JSONResponse({"error": {"code": code, "info": info}})
