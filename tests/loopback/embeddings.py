"""Speaks the OpenAI embeddings API; near are texts that share words."""

import base64
import json
import re
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from tests.loopback.openai import OPENAI_KEY, refusal
from tests.loopback.server import LoopbackServer

EMBEDDINGS_MODEL = "stand-in-embeddings"
WIDTH = 24


class EmbeddingsServer(LoopbackServer):
    """`answers` is how many requests it still answers before `status` counts; None: all."""

    def reset(self) -> None:
        super().reset()
        self.answers: int | None = None
        self.headers: dict[str, str] = {}
        self.width = WIDTH

    @property
    def batches(self) -> list[list[str]]:
        """The texts of each request that was answered."""
        return [request.body["input"] for request in self.requests if request.body]

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/v1/embeddings", self.embeddings, methods=["POST"]),
            Route("/v1/models", self.models),
        ]

    async def models(self, request: Request) -> Response:
        self.record(request)
        return JSONResponse({"object": "list", "data": [{"id": EMBEDDINGS_MODEL}]})

    async def embeddings(self, request: Request) -> Response:
        body = json.loads(await request.body())
        problem = self._problem(request, body)
        self.record(request, None if problem else body)
        if problem:
            return problem
        await self.hold(request)
        data = [
            {"object": "embedding", "index": place, "embedding": self._written(body, text)}
            for place, text in enumerate(body["input"])
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return JSONResponse(
            {"object": "list", "data": data, "model": body["model"], "usage": usage}
        )

    def _problem(self, request: Request, body: dict[str, Any]) -> Response | None:
        if request.headers.get("authorization") != f"Bearer {OPENAI_KEY}":
            return refusal(401, f"Incorrect API key: {request.headers.get('authorization')}.")
        if body["model"] != EMBEDDINGS_MODEL:
            return refusal(404, f"The model `{body['model']}` does not exist.")
        if not all(isinstance(text, str) for text in body["input"]):
            return refusal(400, "Texts are wanted, not tokens.")
        if self.status != 200 and self.answers is None:
            self.answers = 0
        if self.answers is not None:
            self.answers -= 1
            if self.answers < 0:
                answer = refusal(self.status if self.status != 200 else 500, "Told to fail.")
                answer.headers.update(self.headers)
                return answer
        return None

    def _written(self, body: dict[str, Any], text: str) -> str | list[float]:
        vector = np.full(self.width, 0.01, dtype="<f4")
        for word in re.findall(r"\w", text) if not text.isascii() else re.findall(r"\w+", text):
            vector[zlib.crc32(word.lower().encode()) % self.width] += 1
        if body.get("encoding_format") == "base64":
            return base64.b64encode(vector.tobytes()).decode()
        return [float(value) for value in vector]
