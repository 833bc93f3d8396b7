"""The service's settings: the only place of this package that reads the environment."""

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AliasChoices, Field, SecretStr, model_validator
from pydantic.functional_validators import BeforeValidator
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    NoDecode,
    SettingsConfigDict,
)

from app.storage.settings import KeepingSettings
from graphs.options import Preset

WORKERS = ("selfcrag_evaluator_", "selfcrag_serve_")
"""So begin the settings of the worker, which reads the same `.env`."""


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]


class StateSettings(BaseSettings):
    """Where things are kept, and how documents are read: all that an ingest needs."""

    model_config = SettingsConfigDict(
        env_prefix="SELFCRAG_",
        env_file=".env",
        env_file_encoding="utf-8-sig",  # Notepad begins UTF-8 with a mark
        extra="ignore",
        populate_by_name=True,
        env_ignore_empty=True,
        hide_input_in_errors=True,  # it holds passwords and keys
    )

    data_dir: Path = Field(
        default=Path(".selfcrag"), description="Folder of the index and other state."
    )
    fetch_allowed_hosts: Names = Field(
        default=(),
        description="Private hosts (host or host:port) whose pages may be read all the same.",
    )
    database_url: SecretStr = Field(
        default=SecretStr(""),
        description="postgresql://user:password@host/name keeps runs and threads there; empty: "
        "SQLite in the data folder.",
    )
    worker_url: Names = Field(
        default=(), description="Addresses of evaluator workers; empty runs one in-process."
    )

    upload_max_bytes: int = Field(
        default=20_000_000,
        ge=1000,
        le=20_000_000,
        description="Largest file of an upload; beyond it 413.",
    )
    index_url: str = Field(
        default="",
        description="Address of a Milvus, or a path ending in .db for Milvus Lite; empty keeps the "
        "index in the data folder.",
    )
    index_token: SecretStr = Field(
        default=SecretStr(""), description="Token or user:password of that Milvus."
    )
    chunking: Literal["sentence", "small_to_big", "sliding_window"] = Field(
        default="sentence",
        description="sentence: chunks of whole sentences; small_to_big: small chunks are searched, "
        "the block around is returned; sliding_window: chunks return with their neighbours.",
    )
    chunk_tokens: int = Field(
        default=175, ge=20, le=1000, description="Largest number of tokens in a chunk."
    )
    hypothetical_questions: int = Field(
        default=0,
        ge=0,
        le=10,
        description="Questions the chat endpoint writes for each chunk, by which it is found too.",
    )

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


class Settings(KeepingSettings, StateSettings):
    """Settings of the service, each as `SELFCRAG_<NAME>`; lists are separated by commas.

    A provider is chosen by its setting; a key in the environment alone switches nothing.
    """

    host: str = Field(default="127.0.0.1", description="Address the service listens on.")
    port: int = Field(default=8000, ge=1, le=65535, description="Port the service listens on.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe message to log."
    )

    allow_anonymous: bool = Field(
        default=False,
        description="Serve other machines without keys, where a proxy in front asks who they are.",
    )
    allowed_hosts: Names = Field(
        default=(), description="Further Host names a service without keys answers to."
    )
    cors_origins: Names = Field(
        default=(), description="Origins whose pages may ask the service from a browser."
    )

    worker_timeout_s: float = Field(
        default=30.0, gt=0, description="Longest wait for one answer of the worker."
    )
    thresholds: Literal["calibrated", "popqa", "pubhealth", "arc", "biography"] = Field(
        default="calibrated",
        description="calibrated: those of the weights; else the paper's, for its own checkpoints.",
    )
    allow_foreign_thresholds: bool = Field(
        default=False, description="Whether thresholds made for another evaluator may be used."
    )

    generator: Literal["extractive", "openai", "native"] = Field(
        default="extractive",
        description="extractive quotes the best sentences; openai asks a chat endpoint; "
        "native asks a Self-RAG model.",
    )
    critic: Literal["evaluator", "llm", "native"] = Field(
        default="evaluator",
        description="Who judges drafts: the evaluator, the chat endpoint's model, or the native "
        "generator.",
    )
    grader: Literal["evaluator", "llm_direct", "llm_chain_of_thought", "llm_few_shot"] = Field(
        default="evaluator",
        description="Who grades passages: the evaluator, or the chat endpoint's model asked in one "
        "of three ways.",
    )
    openai_api_key: SecretStr = Field(
        default=SecretStr(""),
        validation_alias=AliasChoices("SELFCRAG_OPENAI_API_KEY", "OPENAI_API_KEY"),
        description="Key of the chat endpoint; any value where the endpoint asks for none.",
    )
    openai_base_url: str = Field(
        default="https://api.openai.com/v1",
        description="Address of any OpenAI-compatible endpoint (OpenAI, vLLM, Ollama, llama.cpp).",
    )
    openai_model: str = Field(default="gpt-4.1-mini", description="Model to ask for answers.")
    openai_temperature: float = Field(default=0.0, ge=0, le=2, description="Its temperature.")
    openai_timeout_s: float = Field(default=60.0, gt=0, description="Longest wait for one answer.")
    openai_max_concurrent: int = Field(
        default=8, ge=1, description="Most calls under way at once, of all runs."
    )

    native_base_url: str = Field(
        default="",
        description="Address of a server with /v1/completions (vLLM) of a Self-RAG model.",
    )
    native_model: str = Field(
        default="selfrag/selfrag_llama2_7b", description="Model to ask there."
    )
    native_api_key: SecretStr = Field(
        default=SecretStr(""), description="Its key; empty for servers without keys."
    )

    search: Literal["wikipedia", "tavily", "searxng", "fixture", "off"] = Field(
        default="wikipedia", description="Web search to use; off never leaves this machine."
    )
    tavily_api_key: SecretStr = Field(
        default=SecretStr(""),
        validation_alias=AliasChoices("SELFCRAG_TAVILY_API_KEY", "TAVILY_API_KEY"),
        description="Key of Tavily.",
    )
    tavily_base_url: str = Field(
        default="https://api.tavily.com", description="Address of Tavily's API."
    )
    wikipedia_api_url: str = Field(
        default="https://{language}.wikipedia.org/w/api.php",
        description="Address of a MediaWiki API; {language} becomes en or zh.",
    )
    searxng_url: str = Field(default="", description="Address of a SearXNG with JSON enabled.")
    search_fixture: Path | None = Field(
        default=None, description="Recorded results (JSON) for the fixture search."
    )
    preferred_domains: Names = Field(
        default=(), description="Domains whose pages come first, beside Wikipedia."
    )

    max_body_bytes: int = Field(
        default=1_000_000, ge=10_000, description="Largest request body; beyond it 413."
    )
    max_runs: int = Field(
        default=64, ge=1, description="Most runs under way at once; beyond it 503."
    )
    preset: Preset = Field(
        default="none", description="Preset of runs that name none: none, best, balanced, fast."
    )

    @model_validator(mode="after")
    def _chosen_providers_are_complete(self) -> Self:
        has_key = bool(self.openai_api_key.get_secret_value())
        wanting = {
            "generator openai needs SELFCRAG_OPENAI_API_KEY or OPENAI_API_KEY": (
                self.generator == "openai" and not has_key
            ),
            "critic llm needs SELFCRAG_OPENAI_API_KEY or OPENAI_API_KEY": (
                self.critic == "llm" and not has_key
            ),
            f"grader {self.grader} needs SELFCRAG_OPENAI_API_KEY or OPENAI_API_KEY": (
                self.grader != "evaluator" and not has_key
            ),
            "generator native needs SELFCRAG_NATIVE_BASE_URL": (
                self.generator == "native" and not self.native_base_url
            ),
            f"thresholds {self.thresholds} are the evaluator's, not those of a language model": (
                self.grader != "evaluator" and self.thresholds != "calibrated"
            ),
            "critic native needs SELFCRAG_GENERATOR=native": (
                self.critic == "native" and self.generator != "native"
            ),
            "search tavily needs SELFCRAG_TAVILY_API_KEY or TAVILY_API_KEY": (
                self.search == "tavily" and not self.tavily_api_key.get_secret_value()
            ),
            "search searxng needs SELFCRAG_SEARXNG_URL": (
                self.search == "searxng" and not self.searxng_url
            ),
            "search fixture needs SELFCRAG_SEARCH_FIXTURE": (
                self.search == "fixture" and self.search_fixture is None
            ),
        }
        if missing := [reason for reason, holds in wanting.items() if holds]:
            raise ValueError("; ".join(missing))
        return self


def unknown_settings() -> list[str]:
    """A line for each variable of ours that no setting reads, perhaps misspelt.

    Those of the worker are the worker's to tell.
    """
    known = [f"selfcrag_{name}" for name in Settings.model_fields]
    given = {*EnvSettingsSource(Settings).env_vars, *DotEnvSettingsSource(Settings).env_vars}
    unknown = [
        name
        for name in sorted(given - set(known))
        if name.startswith("selfcrag_") and not name.startswith(WORKERS)
    ]
    near = {name: get_close_matches(name, known, 1, cutoff=0.8) for name in unknown}
    return [
        f"{name.upper()} is no setting and changes nothing"
        + "".join(f"; did you mean {other.upper()}?" for other in near[name])
        for name in unknown
    ]
