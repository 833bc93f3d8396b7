"""Speaks Tavily's POST /search; the results depend on the query."""

import json
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from tests.loopback.corpus import matches
from tests.loopback.pages import EngineServer
from tests.loopback.server import json_error, pause

TAVILY_KEY = "tvly-loopback-7f3a9c"


def refusal(status: int, message: str) -> Response:
    return json_error(status, {"detail": {"error": message}})


class TavilyServer(EngineServer):
    @property
    def queries(self) -> list[str]:
        return [request.body["query"] for request in self.requests]

    def routes(self) -> Sequence[BaseRoute]:
        return [Route("/search", self.search, methods=["POST"])]

    async def search(self, request: Request) -> Response:
        try:
            body = json.loads(await request.body())
        except ValueError:
            return refusal(400, "Request body is not valid JSON.")
        self.record(request, body)
        await pause(request, self.delay_s)
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        if key != TAVILY_KEY:
            return refusal(401, f"Unauthorized: the key {key} is missing or invalid.")
        if self.status != 200:
            return refusal(self.status, f"Told to fail, with the key {key}.")
        if self.raw_reply is not None:
            return Response(self.raw_reply, 200, self.reply_headers, "application/json")
        return self._check(body) or self._results(body)

    def _check(self, body: Any) -> Response | None:
        if not isinstance(body, dict) or not isinstance(body.get("query"), str):
            return json_error(422, {"detail": [{"loc": ["body", "query"], "msg": "missing"}]})
        if not body["query"].strip():
            return refusal(400, "Query is missing.")
        if len(body["query"]) > 400:
            return refusal(400, "Query is too long. Max query length is 400 characters.")
        most = body.get("max_results", 5)
        if not isinstance(most, int) or isinstance(most, bool):
            return json_error(422, {"detail": [{"loc": ["body", "max_results"], "msg": "int"}]})
        if not 0 <= most <= 20:
            return refusal(400, "Max results must be between 0 and 20.")
        return None

    def _results(self, body: dict[str, Any]) -> Response:
        results = [
            {
                "url": self.pages.page_url(entry.slug),
                "title": entry.title,
                "content": entry.paragraphs[0],
                "score": round(score, 4),
                "raw_content": None,
            }
            for entry, score in matches(body["query"])[: body.get("max_results", 5)]
        ]
        return JSONResponse(
            {
                "query": body["query"],
                "answer": None,
                "images": [],
                "follow_up_questions": None,
                "results": results,
                "response_time": 0.01,
            }
        )
