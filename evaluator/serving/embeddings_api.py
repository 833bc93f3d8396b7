"""`POST /v1/embeddings` in OpenAI's form: its body, and the embedder's thread and answers."""

import asyncio
import base64
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, Field

from evaluator.errors import InvalidTexts, UnknownModel
from evaluator.inference.scorer import InputType, TextEmbedder, Vectors
from evaluator.schema import Text
from evaluator.serving.batching import Permits

AT_ONCE = 64  # texts; a small request is embedded between two parts of a large one


class EmbeddingRequest(BaseModel):
    """OpenAI's request, and `input_type` beside it; fields of it that mean nothing here pass."""

    input: Text | list[Text] = Field(description="A text, or several.")
    model: str = Field(default="", description="The loaded embedder's name, if any.")
    encoding_format: Literal["float", "base64"] = Field(
        default="float", description="base64: little-endian float32."
    )
    dimensions: int | None = Field(default=None, description="The embedder's own, if any.")
    input_type: InputType | None = Field(
        default=None, description="Which prefix to put before the texts; none where left out."
    )

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input


class Embeddings:
    """Embeds one part of one request after another, in a thread of its own.

    A request's texts are sorted by length, so that little is padded.
    """

    def __init__(self, embedder: TextEmbedder, max_texts: int) -> None:
        self.embedder = embedder
        self._permits = Permits(max_texts)
        self._thread = ThreadPoolExecutor(1, "evaluator-embedding")

    async def answer(self, body: EmbeddingRequest) -> bytes:
        """The response's JSON. Raises UnknownModel, InvalidTexts, Overloaded."""
        name, dimensions = self.embedder.name, self.embedder.dimensions
        if body.model not in ("", name, name.split("@")[0]):
            raise UnknownModel(f"This worker embeds with {name}, not {body.model!r:.80}.")
        if body.dimensions not in (None, dimensions):
            raise InvalidTexts(f"{name} has {dimensions} dimensions, no others.")
        blank = [str(place) for place, text in enumerate(body.texts) if not text.strip()]
        if blank or not body.texts:
            raise InvalidTexts(f"Nothing to read in input {', '.join(blank[:10]) or 'at all'}.")
        vectors, tokens = await self.embed(body.texts, body.input_type)
        return await asyncio.to_thread(_content, body, vectors, tokens, name)

    async def embed(
        self, texts: Sequence[str], input_type: InputType | None = None
    ) -> tuple[Vectors, int]:
        """Vectors in the order of the texts, and tokens. Raises Overloaded."""
        loop = asyncio.get_running_loop()
        vectors = np.zeros((len(texts), self.embedder.dimensions), dtype=np.float32)
        order, tokens = sorted(range(len(texts)), key=lambda place: len(texts[place])), 0
        with self._permits.taken(len(texts)):
            for start in range(0, len(order), AT_ONCE):
                places = order[start : start + AT_ONCE]
                part = [texts[place] for place in places]
                vectors[places], read, took_s = await loop.run_in_executor(
                    self._thread, self._timed, part, input_type
                )
                self._permits.computed(len(part), took_s)
                tokens += read
        return vectors, tokens

    def _timed(
        self, texts: Sequence[str], input_type: InputType | None
    ) -> tuple[Vectors, int, float]:
        started = time.perf_counter()
        vectors, tokens = self.embedder.embed(texts, input_type)
        return vectors, tokens, time.perf_counter() - started

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def _content(body: EmbeddingRequest, vectors: Vectors, tokens: int, model: str) -> bytes:
    if body.encoding_format == "base64":
        little = vectors.astype("<f4")
        rows: list[Any] = [base64.b64encode(row.tobytes()).decode() for row in little]
    else:
        rows = vectors.tolist()
    data = [
        {"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json.dumps({"object": "list", "data": data, "model": model, "usage": usage}).encode()
