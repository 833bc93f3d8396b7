"""The evaluator's settings: the only place of this package that reads the environment."""

import logging
import re
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    SettingsConfigDict,
)

from evaluator.errors import SettingsError

log = logging.getLogger(__name__)

WEIGHTS = Path(__file__).parent / "weights"

PREFIX = "SELFCRAG_EVALUATOR_"

ENCODING = "utf-8-sig"
"""Of `.env`: Notepad begins UTF-8 with a mark, which is no part of the first name."""

LEAST_LENGTH = 16
"""Tokens; in fewer the two texts and what stands between them have no room."""


class EvaluatorSettings(BaseSettings):
    """Settings of the worker, each as `SELFCRAG_EVALUATOR_<NAME>`; SettingsError if wrong."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=".env",
        env_file_encoding=ENCODING,
        extra="ignore",
        env_ignore_empty=True,
    )

    weights: Path = Field(
        default=WEIGHTS,
        description="Checkpoint folder: ours, or a T5ForSequenceClassification with one label.",
    )
    backend: Literal["onnx", "torch"] = Field(
        default="onnx", description="onnx: ONNX Runtime on the CPU; torch: PyTorch, CPU or GPU."
    )
    device: str = Field(
        default="auto", description="torch backend: auto, cpu or cuda (auto takes a GPU if any)."
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        default="auto",
        description="torch backend: auto is bf16 on a GPU, fp32 on a CPU. T5 overflows in fp16.",
    )
    reranker: Path | None = Field(
        default=None,
        description="Folder of a reranker: monoT5, a cross-encoder or RankLLaMA; empty: none.",
    )
    embedder: Path | None = Field(
        default=None, description="Folder of a sentence-transformers model; empty: none."
    )
    embedder_query_prefix: str = Field(
        default="", description="Put before questions to embed; empty takes the model's own."
    )
    embedder_passage_prefix: str = Field(
        default="", description="Put before passages to embed; empty takes the model's own."
    )
    compressor: Path | None = Field(
        default=None,
        description="Folder of a causal language model that compresses knowledge; empty: none.",
    )
    host: str = Field(default="127.0.0.1", description="Address the worker listens on.")
    port: int = Field(default=8001, ge=1, le=65535, description="Port the worker listens on.")
    max_pairs: int = Field(default=1024, ge=1, description="Most pairs one request may carry.")
    max_queued_pairs: int = Field(
        default=1280,
        ge=1,
        description="Most pairs waiting or running; beyond it 429, in lasting overload sooner.",
    )
    max_body_bytes: int = Field(
        default=16_000_000, ge=10_000, description="Largest request body; beyond it 413."
    )
    batch_tokens: int = Field(
        default=1536, ge=1, description="Most tokens of one batch, padding counted in."
    )
    score_cache_pairs: int = Field(
        default=20_000, ge=0, description="Scores kept for pairs asked again; 0 keeps none."
    )
    threads: int = Field(
        default=0, ge=0, description="Threads of the model's arithmetic; 0 lets it choose."
    )
    max_length: int = Field(
        default=0, ge=0, description="Longest input in tokens; 0 takes the checkpoint's own."
    )

    @field_validator("max_length")
    @classmethod
    def _both_texts_have_room(cls, value: int) -> int:
        if 0 < value < LEAST_LENGTH:
            raise ValueError(f"must be 0 or at least {LEAST_LENGTH}")
        return value

    @field_validator("device")
    @classmethod
    def _device_is_known(cls, value: str) -> str:
        if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", value):
            raise ValueError("must be auto, cpu or cuda, or one GPU as cuda:0")
        return value

    @field_validator("precision", mode="before")
    @classmethod
    def _fp16_is_told_why(cls, value: object) -> object:
        if value in ("fp16", "float16", "half"):
            raise ValueError("fp16 is refused, because T5 overflows in it; use auto, fp32 or bf16")
        return value

    @model_validator(mode="after")
    def _a_full_request_fits_the_queue(self) -> Self:
        if self.max_queued_pairs < self.max_pairs:
            raise ValueError(f"{PREFIX}MAX_QUEUED_PAIRS must be at least {PREFIX}MAX_PAIRS")
        return self

    @model_validator(mode="wrap")
    @classmethod
    def _told_in_one_line(cls, values: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(values)
        except ValidationError as error:
            raise SettingsError(_in_one_line(error)) from None


def _in_one_line(error: ValidationError) -> str:
    """Every fault by its variable, and never a value."""
    return "; ".join(
        ": ".join(
            [
                *(f"{PREFIX}{part}".upper() for part in fault["loc"][:1]),
                fault["msg"].removeprefix("Value error, "),
            ]
        )
        for fault in error.errors(include_url=False, include_input=False)
    )


class ServeSettings(BaseSettings):
    """Replicas of the worker on Ray Serve, each as `SELFCRAG_SERVE_<NAME>`."""

    model_config = SettingsConfigDict(
        env_prefix="SELFCRAG_SERVE_",
        env_file=".env",
        env_file_encoding=ENCODING,
        extra="ignore",
        env_ignore_empty=True,
    )

    min_replicas: int = Field(default=1, ge=1, description="Fewest replicas of the worker.")
    max_replicas: int = Field(default=4, ge=1, description="Most replicas of the worker.")
    target_ongoing_requests: float = Field(
        default=8.0, gt=0, description="Requests a replica should have; above it more are started."
    )
    max_ongoing_requests: int = Field(
        default=128, ge=1, description="Most requests at one replica at once; more wait."
    )
    max_queued_requests: int = Field(
        default=128, ge=0, description="Most requests waiting for a replica; beyond it 429."
    )
    num_cpus: float = Field(default=1.0, ge=0, description="CPU cores a replica is given.")
    num_gpus: float = Field(
        default=0.0, ge=0, description="GPUs a replica is given; 0.5 puts two replicas on one."
    )

    @model_validator(mode="after")
    def _the_range_is_not_inverted(self) -> Self:
        if self.max_replicas < self.min_replicas:
            raise ValueError("max_replicas must be at least min_replicas")
        return self


def read_settings(**asked: Any) -> EvaluatorSettings:
    """The worker's settings, but for what is asked; says which names are none of them.

    Raises SettingsError.
    """
    try:
        settings = EvaluatorSettings(**asked)
        for kind in (EvaluatorSettings, ServeSettings):
            for line in unknown_names([kind]):
                log.warning(line)
    except UnicodeDecodeError:
        raise SettingsError(".env is not UTF-8: save it as UTF-8") from None
    return settings


def unknown_names(kinds: Sequence[type[BaseSettings]]) -> list[str]:
    """A line for each name in the environment or `.env` that begins as those of the first kind
    do and is no field of any.
    """
    first = kinds[0]
    prefix = first.model_config["env_prefix"]
    # What all names begin with would make all of them alike.
    known = [
        f"{kind.model_config['env_prefix']}{name}".upper().removeprefix(prefix)
        for kind in kinds
        for name in kind.model_fields
    ]
    given = {*EnvSettingsSource(first).env_vars, *DotEnvSettingsSource(first).env_vars}
    lines = []
    for name in sorted(name.upper() for name in given):
        own = name.removeprefix(prefix)
        if own != name and own not in known:
            near = get_close_matches(own, known, 1)
            hint = f"; did you mean {prefix}{near[0]}?" if near else ""
            lines.append(f"{name} is no setting and changes nothing{hint}")
    return lines
