"""The service's settings: the only place of this package that reads the environment."""

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AliasChoices,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.functional_validators import BeforeValidator
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    EnvSettingsSource,
    NoDecode,
    SettingsConfigDict,
)

from app.errors import StartFailed, message_of
from graphs.options import Preset
from graphs.types import AnswerLinks

_LOADER = re.compile(r"\.\w{1,20}=[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
WORKERS = ("selfcrag_evaluator_", "selfcrag_serve_")
"""So begin the settings of the worker, which reads the same `.env`."""


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _group(name: str) -> Any:
    """Makes fields of one group, which their schema names and the handbook lists together."""
    return partial(Field, json_schema_extra={"group": name})


_service, _knowledge = _group("service"), _group("knowledge base")
_evaluator, _generator = _group("evaluator's use"), _group("generator")
_images = _group("images")
_critic, _search = _group("critic and the grader"), _group("web search")

S = TypeVar("S", bound=BaseSettings)
Quota = Annotated[str, Field(pattern=r"^(?:[1-9]\d*/(?:minute|hour|day))?$")]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]

_NEEDS = (
    ("embedder", "openai", "embedder_key"),
    ("embedder", "openai", "embedder_model"),
    ("embedder", "worker", "worker_url"),
    ("generator", "openai", "openai_api_key"),
    ("generator", "native", "native_base_url"),
    ("generator", "langchain", "chat_model"),
    ("critic", "llm", "openai_api_key"),
    ("grader", "llm_direct", "openai_api_key"),
    ("grader", "llm_chain_of_thought", "openai_api_key"),
    ("grader", "llm_few_shot", "openai_api_key"),
    ("image_maker", "openai", "image_maker_key"),
    ("captioner", "openai", "captioner_key"),
    ("captioner", "openai", "captioner_model"),
    ("search", "tavily", "tavily_api_key"),
    ("search", "searxng", "searxng_url"),
    ("search", "fixture", "search_fixture"),
)
"""A part, a choice of it, and the setting that this choice cannot do without."""

_KEYLESS = {
    "openai_api_key": "openai_base_url",
    "fallback_api_key": "fallback_base_url",
    "captioner_key": "captioner_base_url",
    "image_maker_key": "image_maker_base_url",
}
"""Keys that servers of one's own do without: those at a private address."""


def is_private(url: str) -> bool:
    """Whether the host of an address is this machine, its network or a name without dots."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_private
    except ValueError:
        return bool(host) and ("." not in host or host.endswith((".local", ".internal")))


_SOURCES = SettingsConfigDict(
    env_prefix="SELFCRAG_",
    env_file=".env",
    env_file_encoding="utf-8-sig",  # Notepad begins UTF-8 with a mark
    extra="ignore",
    populate_by_name=True,
    env_ignore_empty=True,
    hide_input_in_errors=True,  # it holds passwords and keys
)


def _variables_of(kind: type[BaseSettings], name: str) -> str:
    alias = kind.model_fields[name].validation_alias
    names = alias.choices if isinstance(alias, AliasChoices) else [f"SELFCRAG_{name.upper()}"]
    return " or ".join(map(str, names))


class ExtensionSettings(BaseSettings):
    """What an extension derives its settings from, with an `env_prefix` of its own."""

    model_config = _SOURCES


class StateSettings(BaseSettings):
    """Where things are kept, and how documents are read: all that an ingest needs."""

    model_config = _SOURCES

    data_dir: Path = _service(
        default=Path(".selfcrag"),
        validate_default=True,
        description="Folder of the index and other state.",
    )
    fetch_allowed_hosts: Names = _search(
        default=(),
        description="Private hosts (host or host:port) whose pages may be read all the same.",
    )
    database_url: SecretStr = _service(
        default=SecretStr(""),
        description="postgresql://user:password@host/name keeps runs and threads there; empty: "
        "SQLite in the data folder.",
    )
    worker_url: Names = _evaluator(
        default=(), description="Addresses of evaluator workers; empty runs one in-process."
    )

    upload_max_bytes: int = _knowledge(
        default=20_000_000,
        ge=1000,
        le=20_000_000,
        description="Largest file of an upload; beyond it 413.",
    )
    index_url: str = _knowledge(
        default="",
        description="Address of a Milvus, or a path ending in .db for Milvus Lite; empty keeps the "
        "index in the data folder.",
    )
    index_token: SecretStr = _knowledge(
        default=SecretStr(""), description="Token or user:password of that Milvus."
    )
    chunking: Literal["sentence", "small_to_big", "sliding_window"] = _knowledge(
        default="sentence",
        description="sentence: chunks of whole sentences; small_to_big: small chunks are searched, "
        "the block around is returned; sliding_window: chunks return with their neighbours.",
    )
    chunk_tokens: int = _knowledge(
        default=175, ge=20, le=1000, description="Largest number of tokens in a chunk."
    )
    loaders: Names = _knowledge(
        default=(),
        description="Document loaders of LangChain's for further kinds of files, as"
        " .suffix=package.module.Class; their packages you install.",
    )
    hypothetical_questions: int = _knowledge(
        default=0,
        ge=0,
        le=10,
        description="Questions the chat model writes for each chunk, by which it is found too.",
    )

    embedder: Literal["static", "e5", "openai", "worker"] = _knowledge(
        default="static",
        description="static: the shipped table; e5: multilingual-e5-small, shipped or in the "
        "folder that SELFCRAG_EVALUATOR_EMBEDDER names; openai asks an OpenAI-compatible "
        "endpoint; worker asks the evaluator's workers.",
    )
    embedder_base_url: str = _knowledge(
        default="https://api.openai.com/v1",
        description="Address of the endpoint with /embeddings (OpenAI, vLLM, Ollama, TEI).",
    )
    embedder_model: str = _knowledge(
        default="", description="Model to ask there; a worker may be left to name its own."
    )
    embedder_key: SecretStr = _knowledge(
        default=SecretStr(""),
        description="Key of that endpoint; any value where the endpoint asks for none.",
    )
    embedder_dimensions: int = _knowledge(
        default=0, ge=0, description="Width of the vectors; 0 asks the endpoint at start."
    )
    embedder_query_prefix: str = _knowledge(
        default="", description="Put before questions, as models of E5's and BGE's kind want it."
    )
    embedder_passage_prefix: str = _knowledge(default="", description="Put before passages.")

    image_index: Literal["lexical", "worker"] = _images(
        default="lexical",
        description="lexical compares captions by their words and images by their pattern; worker "
        "asks the image embedder (CLIP) of the evaluator's workers.",
    )

    @field_validator("data_dir")
    @classmethod
    def _resolved(cls, data_dir: Path) -> Path:
        """Absolute, links resolved: once, for a relative path is looked up with blocking calls."""
        try:
            return Path(os.path.realpath(data_dir))
        except FileNotFoundError:
            raise ValueError(f"{data_dir} is relative to a folder that is gone") from None

    @field_validator("loaders")
    @classmethod
    def _loaders_are_named(cls, loaders: tuple[str, ...]) -> tuple[str, ...]:
        for each in loaders:
            if not _LOADER.fullmatch(each):
                raise ValueError(f"{each!r} is not of the form .suffix=package.module.Class")
        return loaders

    @property
    def loaders_by_suffix(self) -> dict[str, str]:
        named = (each.partition("=") for each in self.loaders)
        return {suffix.lower(): name for suffix, _, name in named}

    @model_validator(mode="after")
    def _chosen_providers_are_complete(self) -> Self:
        given = dict(self)
        missing = [
            f"{part} {choice} needs {_variables_of(type(self), needed)}"
            for part, choice, needed in _NEEDS
            if given.get(part) == choice
            and not given[needed]
            and not (needed in _KEYLESS and is_private(given[_KEYLESS[needed]]))
            # Any provider's chat model judges as well.
            and not (part in ("critic", "grader") and given.get("chat_model"))
        ]
        if missing:
            raise ValueError("; ".join(missing))
        return self


class Settings(StateSettings):
    """Settings of the service, each as `SELFCRAG_<NAME>`; lists are separated by commas.

    A provider is chosen by its setting; a key in the environment alone switches nothing.
    """

    host: str = _service(default="127.0.0.1", description="Address the service listens on.")
    port: int = _service(default=8000, ge=1, le=65535, description="Port the service listens on.")
    log_level: Literal["debug", "info", "warning", "error"] = _service(
        default="info", description="Least severe message to log."
    )

    allow_anonymous: bool = _service(
        default=False,
        description="Serve other machines without keys, where a proxy in front asks who they are.",
    )
    allowed_hosts: Names = _service(
        default=(), description="Further Host names a service without keys answers to."
    )
    cors_origins: Names = _service(
        default=(), description="Origins whose pages may ask the service from a browser."
    )

    public_url: str = _service(
        default="",
        description="Address at which readers reach the page; empty: that of each request.",
    )

    thresholds: Literal["calibrated", "popqa", "pubhealth", "arc", "biography"] = _evaluator(
        default="calibrated",
        description="calibrated: those of the weights; else the paper's, for its own checkpoints.",
    )

    generator: Literal["extractive", "openai", "native", "langchain"] = _generator(
        default="extractive",
        description="extractive quotes the best sentences; openai asks a chat endpoint; "
        "native asks a Self-RAG model; langchain asks the chat model of any provider.",
    )
    critic: Literal["evaluator", "llm", "native"] = _critic(
        default="evaluator",
        description="Who judges drafts: the evaluator, the chat endpoint's model, or the native "
        "generator.",
    )
    grader: Literal["evaluator", "llm_direct", "llm_chain_of_thought", "llm_few_shot"] = _critic(
        default="evaluator",
        description="Who grades passages: the evaluator, or the chat endpoint's model asked in one "
        "of three ways.",
    )
    openai_api_key: SecretStr = _generator(
        default=SecretStr(""),
        validation_alias=AliasChoices("SELFCRAG_OPENAI_API_KEY", "OPENAI_API_KEY"),
        description="Key of the chat endpoint; empty for a server of one's own without keys.",
    )
    openai_base_url: str = _generator(
        default="https://api.openai.com/v1",
        description="Address of any OpenAI-compatible endpoint (OpenAI, vLLM, Ollama, llama.cpp).",
    )
    openai_model: str = _generator(default="gpt-4.1-mini", description="Model to ask for answers.")
    openai_temperature: float = _generator(default=0.0, ge=0, le=2, description="Its temperature.")
    openai_timeout_s: float = _generator(
        default=60.0, gt=0, description="Longest silence, before a reply and within it."
    )
    openai_max_concurrent: int = _generator(
        default=8, ge=1, description="Most calls under way at once, of all runs."
    )

    max_output_tokens: int = _generator(
        default=4096,
        ge=0,
        description="Most tokens of one reply of a language model, its reasoning included; 0 sets "
        "no limit. A Self-RAG model writes 300 at most.",
    )

    native_base_url: str = _generator(
        default="",
        description="Address of a server with /v1/completions (vLLM) of a Self-RAG model.",
    )
    native_model: str = _generator(
        default="selfrag/selfrag_llama2_7b", description="Model to ask there."
    )
    native_api_key: SecretStr = _generator(
        default=SecretStr(""), description="Its key; empty for servers without keys."
    )

    chat_model: str = _generator(
        default="",
        description="provider:model, such as anthropic:claude-sonnet-4-5, by LangChain's package of"
        " that provider, which you install; it judges as well where the critic or grader is a"
        " language model.",
    )
    chat_api_key: SecretStr = _generator(
        default=SecretStr(""),
        description="Its key; empty: where the provider's package looks for it.",
    )
    chat_base_url: str = _generator(
        default="", description="Its address; empty: the provider's own."
    )

    fallback_model: str = _generator(
        default="",
        description="Model of a chat endpoint that writes where the generator's fails; empty: "
        "none.",
    )
    fallback_base_url: str = _generator(
        default="https://api.openai.com/v1",
        description="Address of that OpenAI-compatible endpoint.",
    )
    fallback_api_key: SecretStr = _generator(
        default=SecretStr(""),
        description="Its key; empty for a server of one's own without keys.",
    )

    image_address_hours: float = _images(
        default=12.0,
        ge=0,
        le=168,
        description="Hours that a chat frontend can load an image at the signed address it was "
        "given; where keys are used, 0 signs none.",
    )
    image_maker: Literal["off", "openai"] = _images(
        default="off",
        description="openai asks an endpoint with /images/generations where no stored image is "
        "similar enough; off makes none.",
    )
    image_maker_base_url: str = _images(
        default="https://api.openai.com/v1", description="Address of that endpoint."
    )
    image_maker_model: str = _images(default="gpt-image-1", description="Model to ask there.")
    image_maker_key: SecretStr = _images(
        default=SecretStr(""),
        description="Its key; empty for a server of one's own without keys.",
    )
    captioner: Literal["off", "openai"] = _images(
        default="off",
        description="openai asks a chat endpoint whose model sees images where no stored image is "
        "similar enough; off describes none.",
    )
    captioner_base_url: str = _images(
        default="https://api.openai.com/v1", description="Address of that endpoint."
    )
    captioner_model: str = _images(default="", description="Model to ask there.")
    captioner_key: SecretStr = _images(
        default=SecretStr(""),
        description="Its key; empty for a server of one's own without keys.",
    )

    answer_links: AnswerLinks = _generator(
        default="cited",
        description="cited: answers link to their sources, other addresses and HTML stay text; all "
        "leaves answers as they were written, for documents that are trusted.",
    )

    search: Literal["wikipedia", "tavily", "searxng", "fixture", "off"] = _search(
        default="wikipedia", description="Web search to use; off never leaves this machine."
    )
    tavily_api_key: SecretStr = _search(
        default=SecretStr(""),
        validation_alias=AliasChoices("SELFCRAG_TAVILY_API_KEY", "TAVILY_API_KEY"),
        description="Key of Tavily.",
    )
    tavily_base_url: str = _search(
        default="https://api.tavily.com", description="Address of Tavily's API."
    )
    wikipedia_api_url: str = _search(
        default="https://{language}.wikipedia.org/w/api.php",
        description="Address of a MediaWiki API; {language} becomes en or zh.",
    )
    searxng_url: str = _search(default="", description="Address of a SearXNG with JSON enabled.")
    search_fixture: Path | None = _search(
        default=None, description="Recorded results (JSON) for the fixture search."
    )
    preferred_domains: Names = _search(
        default=(), description="Domains whose pages come first, beside Wikipedia."
    )

    keep_prompts: bool = _service(
        default=True,
        description="Keep what runs send to language models, for whoever may see the run.",
    )
    max_runs: int = _service(
        default=64,
        ge=1,
        description="Most runs under way at once, those that wait for a language model included.",
    )
    queue_wait_s: float = _service(
        default=30.0,
        ge=0,
        description="Longest wait of a run for its place; beyond it 503.",
    )
    quota_runs: Quota = _service(
        default="", description="Runs of each owner in a while, such as 60/minute; empty: any."
    )
    quota_tokens: Quota = _service(
        default="", description="Tokens of each owner at the language model, such as 500000/day."
    )
    quota_searches: Quota = _service(
        default="", description="Web searches of each owner, such as 100/hour."
    )
    quota_uploads: Quota = _service(
        default="", description="Uploads of each owner, such as 20/minute."
    )
    shutdown_grace_s: float = _service(
        default=20.0,
        ge=0,
        description="Seconds that runs under way get to end when the service is told to stop.",
    )
    keep_runs_days: float = _service(
        default=30.0,
        gt=0,
        description="Days a finished run is kept, and an idle thread without runs;"
        " runs with feedback stay.",
    )
    preset: Preset = _service(
        default="none", description="Preset of runs that name none: none, best, balanced, fast."
    )
    log_format: Literal["text", "json"] = _service(
        default="text", description="How lines of the log are written: text or json."
    )
    max_connections: int = _service(
        default=500, ge=2, description="Most connections of clients at once; beyond it 503."
    )
    extensions_off: Names = _service(
        default=(),
        description="Extensions that are not loaded, such as openai,ai_sdk.",
    )
    langsmith: bool = _service(
        default=False,
        description="Send whole runs, questions and answers included, to LangSmith.",
    )

    @field_validator("chat_model")
    @classmethod
    def _chat_model_names_its_provider(cls, name: str) -> str:
        provider, _, model = name.partition(":")
        if name and not (provider and model and name == "".join(name.split())):
            raise ValueError(
                "a provider and a model are expected, joined by a colon and without blanks, such as"
                " anthropic:claude-sonnet-4-5"
            )
        return name

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        if self.critic == "native" and self.generator != "native":
            raise ValueError("critic native needs SELFCRAG_GENERATOR=native")
        if self.chat_model and self.generator == "openai":
            raise ValueError("SELFCRAG_CHAT_MODEL needs SELFCRAG_GENERATOR=langchain, not openai")
        has_key = self.fallback_api_key.get_secret_value() or is_private(self.fallback_base_url)
        if self.fallback_model and not has_key:
            raise ValueError(
                f"fallback model {self.fallback_model} needs SELFCRAG_FALLBACK_API_KEY"
            )
        if self.fallback_model and self.generator == "extractive":
            raise ValueError(
                f"fallback model {self.fallback_model} needs SELFCRAG_GENERATOR=openai, native or"
                " langchain"
            )
        if self.grader != "evaluator" and self.thresholds != "calibrated":
            raise ValueError(
                f"thresholds {self.thresholds} are the evaluator's, not those of a language model"
            )
        return self


def load_settings(kind: type[S], **given: Any) -> S:
    """The settings of the environment, and those given in their place.

    Raises StartFailed naming what is wrong, never a value.
    """
    try:
        return kind(**given)
    except ValidationError as error:
        wrong = [
            ": ".join([*(f"SELFCRAG_{part}".upper() for part in item["loc"][:1]), message_of(item)])
            for item in error.errors(include_url=False, include_input=False)
        ]
        raise StartFailed("; ".join(wrong)) from None
    except UnicodeDecodeError:
        raise StartFailed(".env is not UTF-8: save it as UTF-8") from None


def unknown_settings(of_extensions: Iterable[type[ExtensionSettings]] = ()) -> list[str]:
    """A line for each unknown variable with our prefix, perhaps a misspelt setting.

    Those of the worker are the worker's to tell.
    """
    kinds: list[type[BaseSettings]] = [Settings, *of_extensions]
    known = [
        f"{kind.model_config['env_prefix']}{name}".lower()
        for kind in kinds
        for name in kind.model_fields
    ]
    given = {*EnvSettingsSource(Settings).env_vars, *DotEnvSettingsSource(Settings).env_vars}
    unknown = [
        name
        for name in sorted(given - set(known))
        if name.startswith("selfcrag_") and not name.startswith(WORKERS)
    ]
    near = {name: get_close_matches(name, known, 1, cutoff=0.8) for name in unknown}
    return [
        f"unknown setting {name.upper()} ignored"
        + "".join(f"; did you mean {other.upper()}?" for other in near[name])
        for name in unknown
    ]
