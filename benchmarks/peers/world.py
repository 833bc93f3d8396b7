"""What the compared systems meet: a counted model, embeddings, a recorded web."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from evaluator.data.hard_negatives import WordNeighbours
from evaluator.inference.scorer import TextEmbedder
from tests.loopback.server import LoopbackServer

RESULTS = 3
CALL_S = 120.0
RECORDED_AT = "https://recorded.invalid/"
"""Pages there cannot be read: what the search says of them is all there is."""


@dataclass(frozen=True)
class Page:
    title: str
    text: str


@dataclass
class Calls:
    """What went over the wire to the model."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class World(LoopbackServer):
    """One address for all of it, so that every system meets the same."""

    def __init__(
        self, model_url: str, key: str, embedder: TextEmbedder, web: Sequence[Page]
    ) -> None:
        super().__init__()
        self._headers = {"Content-Type": "application/json"}
        self._headers |= {"Authorization": f"Bearer {key}"} if key else {}
        self._completions = f"{model_url.rstrip('/')}/chat/completions"
        self._embedder, self._web = embedder, web
        self._index = WordNeighbours([f"{page.title} {page.text}" for page in web])
        self.counted = Calls()

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/v1/chat/completions", self.completions, methods=["POST"]),
            Route("/v1/embeddings", self.embeddings, methods=["POST"]),
            Route("/search", self.search),
        ]

    async def completions(self, request: Request) -> Response:
        """Passed on to the model as it came; usage is read from the reply."""
        self.counted.calls += 1
        body = await request.body()
        if json.loads(body).get("stream"):
            return StreamingResponse(self._passed_on(body), media_type="text/event-stream")
        async with self._client() as client:
            reply = await client.post(self._completions, content=body)
        self._count(reply.content)
        return Response(reply.content, reply.status_code, media_type="application/json")

    async def _passed_on(self, body: bytes) -> AsyncIterator[str]:
        """Line by line; a reader that leaves ends the model's work."""
        async with (
            self._client() as client,
            client.stream("POST", self._completions, content=body) as reply,
        ):
            reply.raise_for_status()
            async for line in reply.aiter_lines():
                if line.startswith("data: {"):
                    self._count(line.removeprefix("data: "))
                yield f"{line}\n"

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(timeout=CALL_S, headers=self._headers, trust_env=False)

    def _count(self, body: str | bytes) -> None:
        usage = json.loads(body).get("usage") or {}
        self.counted.input_tokens += usage.get("prompt_tokens", 0)
        self.counted.output_tokens += usage.get("completion_tokens", 0)

    async def embeddings(self, request: Request) -> Response:
        """Of passages where several texts come, of a question where one does."""
        texts = (await request.json())["input"]
        texts = [texts] if isinstance(texts, str) else texts
        vectors, _ = self._embedder.embed(texts, "passage" if len(texts) > 1 else "query")
        data = [{"index": n, "embedding": row.tolist()} for n, row in enumerate(vectors)]
        return JSONResponse({"object": "list", "data": data, "model": "e5"})

    async def search(self, request: Request) -> Response:
        """SearXNG's form, over the recorded pages by BM25."""
        numbers, *_ = self._index.nearest([request.query_params["q"]], RESULTS)
        results = [
            {
                "url": f"{RECORDED_AT}{number}",
                "title": self._web[number].title,
                "content": self._web[number].text,
            }
            for number in numbers
        ]
        return JSONResponse({"results": results})
