"""Settings of the knowledge base, inherited by the service's and by `selfcrag ingest`."""

from typing import Self

from pydantic import BaseModel, Field, SecretStr, model_validator

from app.retrieval.chunking import (
    CHUNK_OVERLAP,
    CHUNK_TOKENS,
    CHUNK_WINDOW,
    PARENT_TOKENS,
    Chunking,
    Cutting,
)


class KnowledgeSettings(BaseModel):
    index_url: str = Field(
        default="",
        description="Address of a Milvus, or a path ending in .db for Milvus Lite; empty keeps the "
        "index in the data folder.",
    )
    index_token: SecretStr = Field(
        default=SecretStr(""), description="Token or user:password of that Milvus."
    )
    chunking: Chunking = Field(
        default="sentence",
        description="sentence: chunks of whole sentences; small_to_big: small chunks are searched, "
        "the block around is returned; sliding_window: chunks return with their neighbours.",
    )
    chunk_tokens: int = Field(
        default=CHUNK_TOKENS, ge=20, le=1000, description="Most tokens of a chunk."
    )
    parent_tokens: int = Field(
        default=PARENT_TOKENS, ge=20, le=4000, description="Most tokens of a small_to_big block."
    )
    chunk_overlap: int = Field(
        default=CHUNK_OVERLAP,
        ge=0,
        le=500,
        description="Tokens of the chunk before by which a chunk is found too, but in sentence.",
    )
    chunk_window: int = Field(
        default=CHUNK_WINDOW,
        ge=0,
        le=10,
        description="Neighbours on either side that return with a sliding_window chunk.",
    )
    hypothetical_questions: int = Field(
        default=0,
        ge=0,
        le=10,
        description="Questions the chat endpoint writes for each chunk, by which it is found too.",
    )

    @property
    def cutting(self) -> Cutting:
        return Cutting(
            self.chunking,
            self.chunk_tokens,
            self.parent_tokens,
            self.chunk_overlap,
            self.chunk_window,
        )

    @model_validator(mode="after")
    def _sizes_nest(self) -> Self:
        if self.parent_tokens < self.chunk_tokens:
            raise ValueError("parent_tokens must not be below chunk_tokens")
        if self.chunk_overlap >= self.chunk_tokens:
            raise ValueError("chunk_overlap must be below chunk_tokens")
        return self
