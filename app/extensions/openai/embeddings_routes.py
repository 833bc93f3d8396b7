"""`/v1/embeddings`: vectors of the knowledge base's embedder for OpenAI's clients."""

import asyncio

from fastapi import APIRouter, Response

from app.api.dependencies import LiveTextEmbedding
from app.errors import EmbeddingFailed
from app.extensions.openai.chat import NotOffered
from app.extensions.openai.chat_routes import errors
from app.extensions.openai.embeddings import (
    ANY_MODEL,
    EmbeddingList,
    EmbeddingsRequest,
    embedding_list,
)
from app.retrieval.embedder import EmbedderFailed

router = APIRouter(prefix="/v1", tags=["OpenAI"])


@router.post(
    "/embeddings",
    response_model=EmbeddingList,
    responses=errors(400, 404, 413, 422, 500, 503),
)
async def embed(body: EmbeddingsRequest, embedding: LiveTextEmbedding) -> Response:
    """Vectors of length 1 for texts, as the index of the knowledge base holds them."""
    name = embedding.embedder.name if embedding else ""
    if embedding is None or body.model not in (name, ANY_MODEL):
        raise NotOffered(
            404,
            f"The model {body.model!r:.80} does not exist; there is: {name or 'none'}.",
            param="model",
            code="model_not_found",
        )
    if body.dimensions not in (None, embedding.embedder.dimensions):
        own = embedding.embedder.dimensions
        detail = f"{name} has {own} dimensions, no others."
        raise NotOffered(400, detail, param="dimensions", code="unsupported_value")
    try:
        vectors = await embedding.embed(body.texts, body.input_type)
    except EmbedderFailed as error:
        raise EmbeddingFailed(str(error)) from error
    as_base64 = body.encoding_format == "base64"
    made = await asyncio.to_thread(
        lambda: embedding_list(body.texts, vectors, name, as_base64=as_base64).model_dump_json()
    )
    return Response(made, media_type="application/json")
