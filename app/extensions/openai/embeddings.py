"""`/v1/embeddings`: texts in, vectors of the knowledge base's embedder out."""

import asyncio
import base64
from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Response
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
)

from app.api.dependencies import LiveTextEmbedding
from app.errors import EmbeddingFailed
from app.extensions.openai.chat import NotOffered
from app.extensions.openai.chat_routes import errors
from app.retrieval.embedder import EmbedderFailed, Vectors
from app.retrieval.text_embedding import InputType
from graphs.text.sentences import token_count

router = APIRouter(prefix="/v1", tags=["OpenAI"])
ANY_MODEL = "embedder"
"""Names the embedder that is there, whichever it is."""
MAX_TEXTS, MAX_TEXT_CHARS = 2048, 32_000


def _no_tokens(value: object) -> object:
    if isinstance(value, list) and any(isinstance(each, int | list) for each in value):
        raise ValueError(
            "token ids cannot be read; send texts (LangChain: check_embedding_ctx_length=False)"
        )
    return value


def _form(value: object) -> str:
    return "texts" if isinstance(value, list) else "text"


InputText = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_TEXT_CHARS, pattern=r"\S")
]
InputTexts = Annotated[list[InputText], Field(min_length=1, max_length=MAX_TEXTS)]


class EmbeddingsRequest(BaseModel):
    """Parameters of OpenAI's that are not named here change nothing."""

    model_config = ConfigDict(strict=True)

    model: str = Field(description=f"The embedder's name, or `{ANY_MODEL}` whichever it is.")
    input: Annotated[
        Annotated[InputText, Tag("text")] | Annotated[InputTexts, Tag("texts")],
        Discriminator(_form),
        BeforeValidator(_no_tokens),
    ] = Field(description="A text of at most 32,000 characters, or at most 2,048 of them.")
    encoding_format: Literal["float", "base64"] = Field(
        "float", description="base64: little-endian float32."
    )
    dimensions: int | None = Field(None, description="The embedder's own, if any.")
    input_type: InputType = Field(
        "passage", description="Whether the texts are passages, or questions to find them with."
    )

    @property
    def texts(self) -> list[str]:
        return [self.input] if isinstance(self.input, str) else self.input


class Embedding(BaseModel):
    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingsUsage(BaseModel):
    """Estimated from the texts, four tokens for three words."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(BaseModel):
    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: EmbeddingsUsage


def embedding_list(
    texts: Sequence[str], vectors: Vectors, model: str, *, as_base64: bool
) -> EmbeddingList:
    little = vectors.astype("<f4")
    rows: list[list[float] | str] = (
        [base64.b64encode(row.tobytes()).decode() for row in little]
        if as_base64
        else vectors.tolist()
    )
    tokens = sum(map(token_count, texts))
    return EmbeddingList(
        data=[Embedding(index=index, embedding=row) for index, row in enumerate(rows)],
        model=model,
        usage=EmbeddingsUsage(prompt_tokens=tokens, total_tokens=tokens),
    )


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
