"""Settings of the evaluator: the only place of this package that reads the environment."""

import logging
import re
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Self

import pydantic_settings
from pydantic import (
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from evaluator.errors import SettingsError

log = logging.getLogger(__name__)

WEIGHTS = Path(__file__).parent / "weights"

PREFIX = "SELFCRAG_EVALUATOR_"
_SOURCES = SettingsConfigDict(
    env_file=".env",
    env_file_encoding="utf-8-sig",  # Notepad begins UTF-8 with a mark, no part of the first name
    extra="ignore",
    env_ignore_empty=True,
)


class EvaluatorSettings(BaseSettings):
    """Settings of the worker, each as `SELFCRAG_EVALUATOR_<NAME>`; SettingsError if wrong."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, **_SOURCES)

    weights: Path = Field(
        default=WEIGHTS,
        description="Folder of the checkpoint: this project's form, or a "
        "T5ForSequenceClassification with one label.",
    )
    backend: Literal["onnx", "torch"] = Field(
        default="onnx",
        description="onnx: ONNX Runtime on the CPU; torch: PyTorch on a CPU or GPU, with the extra "
        "gpu.",
    )
    device: str = Field(
        default="auto",
        description="Device of the backend torch: auto, cpu, cuda or cuda:0; auto takes a GPU if "
        "there is one.",
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        default="auto",
        description="Precision of the backend torch; auto: bf16 on a GPU, fp32 on a CPU. T5 "
        "overflows in fp16.",
    )
    reranker: Path | None = Field(
        default=None,
        description="Folder of a reranker: monoT5, a cross-encoder or RankLLaMA; empty: none.",
    )
    embedder: Path | None = Field(
        default=None,
        description="Folder of an embedder, e5's or a sentence-transformers model; empty: none is "
        "served, and SELFCRAG_EMBEDDER=e5 takes the encoder of the weights.",
    )
    image_embedder: Path | None = Field(
        default=None, description="Folder of a CLIP model, for images; empty: none."
    )
    compressor: Path | None = Field(
        default=None,
        description="Folder of a causal language model that compresses knowledge; empty: none.",
    )
    host: str = Field(default="127.0.0.1", description="Address a separate worker listens on.")
    port: int = Field(
        default=8001, ge=1, le=65535, description="Port a separate worker listens on."
    )
    batch_tokens: int = Field(
        default=1536, ge=1, description="Most tokens of a batch, padding included."
    )
    threads: int = Field(
        default=0, ge=0, description="Threads of the model; 0: as the runtime chooses."
    )

    @field_validator("device")
    @classmethod
    def _device_is_known(cls, value: str) -> str:
        if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", value):
            raise ValueError("must be auto, cpu or cuda, or one GPU as cuda:0")
        return value

    @field_validator("precision", mode="before")
    @classmethod
    def _fp16_is_refused(cls, value: object) -> object:
        if value in ("fp16", "float16", "half"):
            raise ValueError("fp16 is refused, because T5 overflows in it; use auto, fp32 or bf16")
        return value

    @model_validator(mode="wrap")
    @classmethod
    def _fails_in_one_line(cls, values: object, handler: Callable[[object], Self]) -> Self:
        """Every fault by its variable, and never a value."""
        try:
            return handler(values)
        except ValidationError as error:
            faults = [
                "".join(f"{PREFIX}{name}: ".upper() for name in fault["loc"][:1])
                + fault["msg"].removeprefix("Value error, ")
                for fault in error.errors(include_url=False, include_input=False)
            ]
            raise SettingsError("; ".join(faults)) from None


class LabelSettings(BaseSettings):
    """The key of the endpoint that `label` asks."""

    model_config = _SOURCES

    api_key: SecretStr = Field(
        default=SecretStr(""),
        validation_alias="OPENAI_API_KEY",
        description="Key of the OpenAI-compatible endpoint.",
    )


class ServeSettings(BaseSettings):
    """Replicas of the worker on Ray Serve, each as `SELFCRAG_SERVE_<NAME>`."""

    model_config = SettingsConfigDict(env_prefix="SELFCRAG_SERVE_", **_SOURCES)

    min_replicas: int = Field(default=1, ge=1, description="Fewest replicas of the worker.")
    max_replicas: int = Field(default=4, ge=1, description="Most replicas of the worker.")
    num_gpus: float = Field(
        default=0.0, ge=0, description="GPUs of a replica; 0.5 puts two replicas on one."
    )

    @model_validator(mode="after")
    def _range_is_not_inverted(self) -> Self:
        if self.max_replicas < self.min_replicas:
            raise ValueError("max_replicas must be at least min_replicas")
        return self


def read_settings(**given: Any) -> EvaluatorSettings:
    """The worker's settings, but for what is given; logs the names that are none of them.

    Raises SettingsError.
    """
    try:
        settings = EvaluatorSettings(**given)
        for kind in (EvaluatorSettings, ServeSettings):
            _warn_of_unknown_names(kind)
    except UnicodeDecodeError:
        raise SettingsError(".env is not UTF-8: save it as UTF-8") from None
    return settings


def _warn_of_unknown_names(kind: type[BaseSettings]) -> None:
    """Of each name in the environment or `.env` with the prefix of `kind`, but no field."""
    prefix = kind.model_config["env_prefix"]
    known = [name.upper() for name in kind.model_fields]
    names = {
        *pydantic_settings.EnvSettingsSource(kind).env_vars,
        *pydantic_settings.DotEnvSettingsSource(kind).env_vars,
    }
    for name in sorted(name.upper() for name in names):
        own = name.removeprefix(prefix)
        if own != name and own not in known:
            near = get_close_matches(own, known, 1)
            hint = f"; did you mean {prefix}{near[0]}?" if near else ""
            log.warning("unknown setting %s ignored%s", name, hint)
