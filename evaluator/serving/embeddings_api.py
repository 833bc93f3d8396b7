"""`POST /v1/embeddings` and `GET /v1/models`, in OpenAI's form, of one loaded embedder."""

import asyncio
import base64
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal, Protocol, cast

import numpy as np
import numpy.typing as npt
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from evaluator.errors import InvalidTexts, TooManyPairs, UnknownModel
from evaluator.inference.scorer import import_torch
from evaluator.schema import Text
from evaluator.serving.disconnect import while_connected
from evaluator.serving.load_shedding import Admission
from evaluator.settings import EvaluatorSettings

AT_ONCE = 64  # texts; a small request is embedded between two parts of a large one

InputType = Literal["query", "passage"]
Vectors = npt.NDArray[np.float32]


class Embedder(Protocol):
    """A loaded model; `embed` is CPU work: call it in a thread."""

    name: str
    dimensions: int

    def embed(self, texts: Sequence[str], input_type: InputType | None) -> tuple[Vectors, int]:
        """Unit vectors (texts, dimensions) and the number of tokens read."""


def load_embedder(settings: EvaluatorSettings) -> Embedder | None:
    """The configured embedder, None where none is. Raises WeightsError."""
    if settings.embedder is None:
        return None
    return cast("Embedder", import_torch("embedder").load(settings))


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
    """Lets requests in as the score queue does, and embeds one part of one request after another.

    Its thread is its own. A request's texts are sorted by length, so that little is padded.
    """

    def __init__(self, embedder: Embedder, most_texts: int) -> None:
        self.embedder = embedder
        self._admission = Admission(most_texts)
        self._inside = 0  # requests
        self._thread = ThreadPoolExecutor(1, "evaluator-embedding")

    async def embed(
        self, texts: Sequence[str], input_type: InputType | None = None
    ) -> tuple[Vectors, int]:
        """Vectors in the order of the texts, and tokens. Raises Overloaded."""
        self._admission.enter(len(texts), others_wait=self._inside > 1)
        self._inside += 1
        try:
            return await self._embedded(texts, input_type)
        finally:
            self._inside -= 1
            self._admission.leave(len(texts))

    async def _embedded(
        self, texts: Sequence[str], input_type: InputType | None
    ) -> tuple[Vectors, int]:
        loop = asyncio.get_running_loop()
        vectors = np.zeros((len(texts), self.embedder.dimensions), dtype=np.float32)
        order, tokens = sorted(range(len(texts)), key=lambda place: len(texts[place])), 0
        for start in range(0, len(order), AT_ONCE):
            part = order[start : start + AT_ONCE]
            asked = [texts[place] for place in part]
            vectors[part], read, took_s = await loop.run_in_executor(
                self._thread, self._timed, asked, input_type
            )
            self._admission.computed(len(part), took_s)
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
    found: Embeddings | None = worker.embeddings
    if found is None:
        raise UnknownModel(
            "This worker has no embedder: name a sentence-transformers folder by "
            "SELFCRAG_EVALUATOR_EMBEDDER."
        )
    return found


Loaded = Annotated[Embeddings, Depends(_embeddings)]
router = APIRouter(prefix="/v1")


@router.get("/models")
async def models(request: Request) -> dict[str, Any]:
    """The embedder, if there is one."""
    found: Embeddings | None = request.app.state.worker.embeddings
    named = [found.embedder.name] if found else []
    return {
        "object": "list",
        "data": [{"id": name, "object": "model", "owned_by": "self-crag"} for name in named],
    }


@router.post("/embeddings")
async def embeddings(asked: EmbeddingRequest, loaded: Loaded, connection: Request) -> Response:
    """One unit vector a text, in the order asked."""
    _check(asked, loaded.embedder, connection.app.state.worker.settings.max_pairs)
    vectors, tokens = await while_connected(connection, loaded.embed(asked.texts, asked.input_type))
    body = await asyncio.to_thread(_body, asked, vectors, tokens, loaded.embedder.name)
    return Response(body, media_type="application/json")


def _check(asked: EmbeddingRequest, embedder: Embedder, most: int) -> None:
    if asked.model not in ("", embedder.name, embedder.name.split("@")[0]):
        raise UnknownModel(f"This worker embeds with {embedder.name}, not {asked.model!r:.80}.")
    if asked.dimensions not in (None, embedder.dimensions):
        raise InvalidTexts(f"{embedder.name} has {embedder.dimensions} dimensions, no others.")
    if len(asked.texts) > most:
        raise TooManyPairs(f"{len(asked.texts)} texts in one request; at most {most}.")
    blank = [str(place) for place, text in enumerate(asked.texts) if not text.strip()]
    if blank or not asked.texts:
        raise InvalidTexts(f"Nothing to read in input {', '.join(blank[:10]) or 'at all'}.")


def _body(asked: EmbeddingRequest, vectors: Vectors, tokens: int, model: str) -> bytes:
    if asked.encoding_format == "base64":
        little = vectors.astype("<f4")
        written: list[Any] = [base64.b64encode(row.tobytes()).decode() for row in little]
    else:
        written = vectors.tolist()
    data = [
        {"object": "embedding", "index": index, "embedding": row}
        for index, row in enumerate(written)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    answer = {"object": "list", "data": data, "model": model, "usage": usage}
    return json.dumps(answer).encode()
