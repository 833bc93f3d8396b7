"""Settings of the embedder, inherited by the service's and by `selfcrag ingest`."""

from typing import Literal, Self

from pydantic import BaseModel, Field, SecretStr, model_validator


class EmbedderSettings(BaseModel):
    worker_url: tuple[str, ...] = ()

    embedder: Literal["static", "openai", "worker"] = Field(
        default="static",
        description="static: the shipped table; openai asks an OpenAI-compatible endpoint; worker "
        "asks the evaluator's workers.",
    )
    embedder_base_url: str = Field(
        default="https://api.openai.com/v1",
        description="Address of the endpoint with /embeddings (OpenAI, vLLM, Ollama, TEI).",
    )
    embedder_model: str = Field(
        default="",
        description="Model to ask there; a worker may be left to name its own.",
    )
    embedder_key: SecretStr = Field(
        default=SecretStr(""),
        description="Key of that endpoint; any value where the endpoint asks for none.",
    )
    embedder_dimensions: int = Field(
        default=0, ge=0, description="Width of the vectors; 0 asks the endpoint at start."
    )
    embedder_query_prefix: str = Field(
        default="", description="Put before questions, as models of E5's and BGE's kind want it."
    )
    embedder_passage_prefix: str = Field(default="", description="Put before passages.")
    embedder_batch: int = Field(
        default=64, ge=1, le=2048, description="Most passages of one request to the endpoint."
    )
    embedder_max_concurrent: int = Field(
        default=4, ge=1, le=64, description="Most such requests under way at once."
    )
    embedder_timeout_s: float = Field(
        default=15.0, gt=0, description="Longest wait for one answer of the endpoint."
    )

    @model_validator(mode="after")
    def _the_embedder_is_complete(self) -> Self:
        wanting = {
            "embedder openai needs SELFCRAG_EMBEDDER_KEY": (
                self.embedder == "openai" and not self.embedder_key.get_secret_value()
            ),
            "embedder openai needs SELFCRAG_EMBEDDER_MODEL": (
                self.embedder == "openai" and not self.embedder_model
            ),
            "embedder worker needs SELFCRAG_WORKER_URL": (
                self.embedder == "worker" and not self.worker_url
            ),
        }
        if missing := [reason for reason, holds in wanting.items() if holds]:
            raise ValueError("; ".join(missing))
        return self
