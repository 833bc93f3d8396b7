"""`POST /v1/embeddings` and `GET /v1/models`, in OpenAI's form, of one loaded embedder."""

import asyncio
import base64
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from evaluator.errors import InvalidTexts, TooManyPairs, UnknownModel
from evaluator.inference.scorer import InputType, TextEmbedder, Vectors
from evaluator.schema import Text
from evaluator.serving.disconnect import while_connected
from evaluator.serving.load_shedding import Permits

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


def _embeddings(request: Request) -> Embeddings:
    worker = request.app.state.worker
    if not worker.batchers:
        raise HTTPException(503, "The worker is still starting.", {"Retry-After": "1"})
    loaded: Embeddings | None = worker.embeddings
    if loaded is None:
        raise UnknownModel(
            "This worker has no embedder: name a sentence-transformers folder by "
            "SELFCRAG_EVALUATOR_EMBEDDER."
        )
    return loaded


Loaded = Annotated[Embeddings, Depends(_embeddings)]
router = APIRouter(prefix="/v1")


@router.get("/models")
async def models(request: Request) -> dict[str, Any]:
    """The embedder, if there is one."""
    loaded: Embeddings | None = request.app.state.worker.embeddings
    names = [loaded.embedder.name] if loaded else []
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "owned_by": "self-crag"} for name in names],
    }


@router.post("/embeddings")
async def embeddings(body: EmbeddingRequest, loaded: Loaded, connection: Request) -> Response:
    """One unit vector a text, in the order asked."""
    _check(body, loaded.embedder, connection.app.state.worker.limits.max_pairs)
    vectors, tokens = await while_connected(connection, loaded.embed(body.texts, body.input_type))
    content = await asyncio.to_thread(_content, body, vectors, tokens, loaded.embedder.name)
    return Response(content, media_type="application/json")


def _check(body: EmbeddingRequest, embedder: TextEmbedder, max_texts: int) -> None:
    if body.model not in ("", embedder.name, embedder.name.split("@")[0]):
        raise UnknownModel(f"This worker embeds with {embedder.name}, not {body.model!r:.80}.")
    if body.dimensions not in (None, embedder.dimensions):
        raise InvalidTexts(f"{embedder.name} has {embedder.dimensions} dimensions, no others.")
    if len(body.texts) > max_texts:
        raise TooManyPairs(f"{len(body.texts)} texts in one request; at most {max_texts}.")
    blank = [str(place) for place, text in enumerate(body.texts) if not text.strip()]
    if blank or not body.texts:
        raise InvalidTexts(f"Nothing to read in input {', '.join(blank[:10]) or 'at all'}.")


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
