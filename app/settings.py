"""The service's settings: the only place of this package that reads the environment."""

import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AliasChoices,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.functional_validators import AfterValidator, BeforeValidator
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
    """Makes fields of one group, under whose heading the handbook lists them."""
    return partial(Field, json_schema_extra={"group": name})


_address, _model, _documents = _group("address"), _group("model"), _group("documents")
_web, _grading, _limits = _group("web"), _group("grading"), _group("limits")
_records, _images = _group("records"), _group("images")

S = TypeVar("S", bound=BaseSettings)
Quota = Annotated[str, Field(pattern=r"^(?:[1-9]\d*/(?:minute|hour|day))?$")]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]

_NEEDS = (
    ("embedder", "worker", "worker_url"),
    ("generator", "chat", "chat_model"),
    ("generator", "native", "native_model"),
    ("critic", "llm", "chat_model"),
    ("grader", "llm_direct", "chat_model"),
    ("grader", "llm_chain_of_thought", "chat_model"),
    ("grader", "llm_few_shot", "chat_model"),
)
"""A part, a choice of it, and the setting that this choice cannot do without."""

_KEYS = {
    "chat_model": ("chat_api_key", "openai_api_key"),
    "fallback_model": ("fallback_api_key",),
    "embedder": ("embedder_key",),
    "image_maker": ("image_maker_key",),
    "captioner": ("captioner_key",),
}
"""Settings of models, and those that may hold their keys."""

_MERGED = {
    "chat_model": ("openai_base_url", "openai_model", "chat_base_url"),
    "chat_api_key": ("openai_api_key",),
    "chat_temperature": ("openai_temperature",),
    "chat_timeout_s": ("openai_timeout_s",),
    "chat_max_concurrent": ("openai_max_concurrent",),
    "native_model": ("native_base_url",),
    "fallback_model": ("fallback_base_url",),
    "embedder": ("embedder_base_url", "embedder_model"),
    "image_maker": ("image_maker_base_url", "image_maker_model"),
    "captioner": ("captioner_base_url", "captioner_model"),
    "search": ("searxng_url", "search_fixture", "tavily_base_url", "wikipedia_api_url"),
}
"""Settings, and former ones in whose place they stand: ignored, another address would be asked."""

OPENAI_URL = "https://api.openai.com/v1"
_WHERE = {"searxng": "http://127.0.0.1:8080", "fixture": "results.json"}
EXAMPLE = "openai:qwen3@http://127.0.0.1:11434/v1"


class ModelAddress(NamedTuple):
    """A model, who provides it, and where: an empty `url` is the provider's own."""

    provider: str
    model: str
    url: str

    @property
    def needs_key(self) -> bool:
        """A server of one's own, at a private address, needs none; packages look for theirs."""
        return self.provider == "openai" and not is_private(self.url)


def model_address(value: str) -> ModelAddress:
    """Of `provider:model@url`, where the model may hold colons and at signs. Raises ValueError."""
    name, url = value, ""
    if "://" in value:
        at = value.rfind("@", 0, value.index("://"))
        name, url = value[: max(at, 0)], value[at + 1 :]
        _check_url(url)
    provider, _, model = name.partition(":")
    if not (provider and model) or name != "".join(name.split()):
        raise ValueError
    version = model.rpartition("@")[2] if "@" in model else ""
    # Without http:// an address would be taken for a part of the model's name.
    is_address = provider == "openai" or version == "localhost" or {*":/."} & {*version}
    if version and not url and is_address:
        raise ValueError
    return ModelAddress(provider, model, url or (OPENAI_URL if provider == "openai" else ""))


def _check_url(url: str) -> None:
    """Raises ValueError that does not repeat the address, for it may hold a password."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_good = is_good and url == "".join(url.split())
    except ValueError:  # as of a port that is no number
        is_good = False
    if not is_good:
        raise ValueError("an address of the form http://host:port/path is expected after the @")


def _model_or(*words: str, provider: str = "", has_address: bool = False) -> AfterValidator:
    """One of the words, or a model: of that provider where one is named, with its address."""
    expected = " or ".join([*filter(None, words), f"{provider or 'provider'}:model@url"])

    def check(value: str) -> str:
        if value in words:
            return value
        try:
            named = model_address(value).provider
        except ValueError:
            named = ""
        if not named or named != (provider or named) or (has_address and "://" not in value):
            raise ValueError(f"{expected} is expected, without blanks, such as {EXAMPLE}")
        return value

    return AfterValidator(check)


def search_engine(value: str) -> tuple[str, str]:
    """Engine and where it is, of `engine@where`."""
    engine, _, where = value.partition("@")
    return engine, where


def _search_engine(value: str) -> str:
    engine, where = search_engine(value)
    if engine not in ("wikipedia", "tavily", "searxng", "fixture", "off"):
        raise ValueError("wikipedia, tavily, searxng@url, fixture@path or off is expected")
    if engine in _WHERE and not where:
        raise ValueError(f"{engine} needs to know where: {engine}@{_WHERE[engine]}")
    if engine == "off" and where:
        raise ValueError("off takes no address")
    if engine != "fixture" and "@" in value:
        _check_url(where)
    return value


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
    alias = kind.model_fields[name].validation_alias or f"SELFCRAG_{name.upper()}"
    names = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return " or ".join(map(str, names))


class ExtensionSettings(BaseSettings):
    """What an extension derives its settings from, with an `env_prefix` of its own."""

    model_config = _SOURCES


class StateSettings(BaseSettings):
    """Where things are kept, and how documents are read: all that an ingest needs."""

    model_config = _SOURCES

    data_dir: Path = _address(
        default=Path(".selfcrag"),
        validate_default=True,
        description="Folder of the index, runs, keys and uploads.",
    )
    fetch_allowed_hosts: Names = _web(
        default=(),
        description="Private hosts (host or host:port) whose pages may be read all the same.",
    )
    database_url: SecretStr = _address(
        default=SecretStr(""),
        description="PostgreSQL for runs and threads, postgresql://user:password@host/name; empty: "
        "a SQLite file in the data folder.",
    )
    worker_url: Names = _grading(
        default=(),
        description="Addresses of separate evaluator workers; empty: a worker inside the service.",
    )

    upload_max_bytes: int = _documents(
        default=20_000_000,
        ge=1000,
        le=20_000_000,
        description="Largest file of an upload in bytes; beyond it 413.",
    )
    index_url: str = _documents(
        default="",
        description="Milvus for the index, or a path ending in .db for Milvus Lite; empty: the "
        "data folder.",
    )
    index_token: SecretStr = _documents(
        default=SecretStr(""), description="Token or user:password of that Milvus."
    )
    chunking: Literal["sentence", "small_to_big", "sliding_window"] = _documents(
        default="sentence",
        description="sentence: chunks of whole sentences; small_to_big: small chunks are searched, "
        "the block around is returned; sliding_window: chunks return with their neighbours.",
    )
    chunk_tokens: int = _documents(
        default=175, ge=20, le=1000, description="Most tokens of a chunk."
    )
    loaders: Names = _documents(
        default=(),
        description="LangChain document loaders for further file types, as "
        ".suffix=package.module.Class; install their packages.",
    )
    hypothetical_questions: int = _documents(
        default=0,
        ge=0,
        le=10,
        description="Questions that the chat model writes for each chunk at ingest; they are "
        "searched too.",
    )

    embedder: Annotated[str, _model_or("auto", "e5", "static", "worker", provider="openai")] = (
        _documents(
            default="auto",
            description="Embeds documents and questions. auto: e5 or static, whichever wrote the "
            "index, e5 for a new one, in this process. e5: multilingual-e5-small, shipped or in "
            "SELFCRAG_EVALUATOR_EMBEDDER; static: the shipped table, fast and by words; "
            "openai:model@url: an OpenAI-compatible endpoint (OpenAI, vLLM, Ollama, TEI); worker: "
            "the evaluator's workers.",
        )
    )
    embedder_key: SecretStr = _documents(
        default=SecretStr(""),
        description="Key of that endpoint; a server at a private address needs none.",
    )
    embedder_dimensions: int = _documents(
        default=0, ge=0, description="Size of the vectors; 0: read from the endpoint at start."
    )
    embedder_query_prefix: str = _documents(
        default="",
        description='Put before questions, such as "query: " for models like E5 and BGE.',
    )
    embedder_passage_prefix: str = _documents(
        default="", description='Put before passages, such as "passage: ".'
    )

    image_index: Literal["lexical", "worker"] = _images(
        default="lexical",
        description="lexical: captions by their words, images by perceptual hash; worker: CLIP on "
        "the evaluator's workers.",
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
            if given.get(part) == choice and not given[needed]
        ]
        missing += [
            f"{_variables_of(type(self), name)} needs "
            + " or ".join(_variables_of(type(self), key) for key in keys)
            for name, keys in _KEYS.items()
            if ":" in given.get(name, "") and model_address(given[name]).needs_key
            if not any(given[key] for key in keys)
        ]
        if given.get("search", "").startswith("tavily") and not given["tavily_api_key"]:
            missing.append(f"search tavily needs {_variables_of(type(self), 'tavily_api_key')}")
        if missing:
            raise ValueError("; ".join(missing))
        return self


class Settings(StateSettings):
    """Settings of the service, each as `SELFCRAG_<NAME>`; lists are separated by commas.

    A provider is chosen by its setting; a key in the environment alone switches nothing.
    """

    host: str = _address(
        default="127.0.0.1",
        description="Address the service listens on. Other machines need 0.0.0.0, and a key or "
        "allow_anonymous.",
    )
    port: int = _address(default=8000, ge=1, le=65535, description="Port the service listens on.")
    log_level: Literal["debug", "info", "warning", "error"] = _records(
        default="info",
        description="Least severe message to log. Libraries log info and above only: below it they "
        "log questions and answers.",
    )

    allow_anonymous: bool = _address(
        default=False,
        description="Serve other machines without keys, behind a proxy that authenticates.",
    )
    allowed_hosts: Names = _address(
        default=(), description="Further Host names that a service without keys answers to."
    )
    cors_origins: Names = _address(
        default=(),
        description="Origins, such as https://chat.example.org, whose pages may call the service "
        "from a browser.",
    )

    public_url: str = _address(
        default="",
        description="Address at which readers reach the page, such as https://rag.example.org, for "
        "citations in chat frontends; empty: that of each request.",
    )

    thresholds: Literal["calibrated", "popqa", "pubhealth", "arc", "biography"] = _grading(
        default="calibrated",
        description="calibrated: those of the weights; the others: the CRAG paper's, for its own "
        "checkpoints.",
    )

    generator: Literal["extractive", "chat", "native"] = _model(
        default="extractive",
        description="Writes the answers. extractive: quotes sentences; chat: the chat model; "
        "native: a Self-RAG model.",
    )
    chat_model: Annotated[str, _model_or("")] = _model(
        default="",
        description="Chat model, also that of critic and grader, as provider:model@url. "
        "openai:qwen3@http://127.0.0.1:11434/v1 is one at an OpenAI-compatible endpoint (OpenAI, "
        "vLLM, Ollama, llama.cpp); anthropic:claude-sonnet-4-5 one of a provider, with LangChain's "
        "package of it. Without @url: the provider's own address.",
    )
    chat_api_key: SecretStr = _model(
        default=SecretStr(""),
        description="Key of the chat model. A server at a private address needs none; empty: that "
        "of OPENAI_API_KEY, or where the provider's package looks for it.",
    )
    openai_api_key: SecretStr = _model(
        default=SecretStr(""),
        validation_alias="OPENAI_API_KEY",
        description="Key of an openai: chat model where SELFCRAG_CHAT_API_KEY is empty.",
    )
    chat_temperature: float = _model(
        default=0.0, ge=0, le=2, description="Sampling temperature of the model."
    )
    chat_timeout_s: float = _model(
        default=60.0,
        gt=0,
        description="Longest silence of the model in seconds, before a reply and within it.",
    )
    chat_max_concurrent: int = _model(
        default=8, ge=1, description="Most concurrent calls, over all runs."
    )
    critic: Literal["evaluator", "llm", "native"] = _grading(
        default="evaluator",
        description="Judges drafts: the evaluator, the chat model (llm), or the generator native "
        "itself.",
    )
    grader: Literal["evaluator", "llm_direct", "llm_chain_of_thought", "llm_few_shot"] = _grading(
        default="evaluator",
        description="Grades passages: the evaluator, or the chat model with one of three prompts.",
    )
    max_output_tokens: int = _model(
        default=4096,
        ge=0,
        description="Most tokens of one reply, reasoning included; 0: no limit. A Self-RAG model "
        "writes at most 300.",
    )

    native_model: Annotated[str, _model_or("", provider="openai", has_address=True)] = _model(
        default="",
        description="Self-RAG model at a server with /v1/completions (vLLM, llama.cpp), such as "
        "openai:selfrag/selfrag_llama2_7b@http://127.0.0.1:8080/v1.",
    )
    native_api_key: SecretStr = _model(
        default=SecretStr(""), description="Key of that server, if it needs one."
    )

    fallback_model: Annotated[str, _model_or("")] = _model(
        default="",
        description="Model that writes where the generator's model fails, as provider:model@url; "
        "empty: none.",
    )
    fallback_api_key: SecretStr = _model(
        default=SecretStr(""),
        description="Key of that model; a server at a private address needs none.",
    )

    image_address_hours: float = _images(
        default=12.0,
        ge=0,
        le=168,
        description="Hours that a signed image address is valid, where keys are used; 0: addresses "
        "are not signed.",
    )
    image_maker: Annotated[str, _model_or("off", provider="openai")] = _images(
        default="off",
        description="Makes an image where no stored one is similar enough: off, or a model at an "
        "endpoint with /images/generations, such as openai:gpt-image-1.",
    )
    image_maker_key: SecretStr = _images(
        default=SecretStr(""),
        description="Key of that endpoint; a server at a private address needs none.",
    )
    captioner: Annotated[str, _model_or("off")] = _images(
        default="off",
        description="Describes an image where no stored one is similar enough: off, or a chat "
        "model that sees images, as provider:model@url.",
    )
    captioner_key: SecretStr = _images(
        default=SecretStr(""),
        description="Key of that endpoint; a server at a private address needs none.",
    )

    answer_links: AnswerLinks = _model(
        default="cited",
        description="cited: answers link to the sources they cite, other links and HTML become "
        "plain text; all: answers stay as written, for trusted documents.",
    )

    search: Annotated[str, AfterValidator(_search_engine)] = _web(
        default="wikipedia",
        description="Web search engine: wikipedia, tavily, searxng@url (with JSON enabled), "
        "fixture@path (a JSON file of recorded results), or off, which never leaves this machine. "
        "@url after wikipedia or tavily is another address of its API; {language} in it becomes en "
        "or zh.",
    )
    tavily_api_key: SecretStr = _web(
        default=SecretStr(""),
        validation_alias=AliasChoices("SELFCRAG_TAVILY_API_KEY", "TAVILY_API_KEY"),
        description="Key of Tavily; TAVILY_API_KEY works too.",
    )
    preferred_domains: Names = _web(
        default=(), description="Domains whose pages are read first, beside Wikipedia."
    )

    keep_prompts: bool = _records(
        default=True,
        description="Keep the prompts of a run, for all who may see the run.",
    )
    max_runs: int = _limits(
        default=64,
        ge=1,
        description="Most runs at once, those waiting for a language model included.",
    )
    queue_wait_s: float = _limits(
        default=30.0,
        ge=0,
        description="Longest wait of a run for its turn in seconds, beyond it 503; 0: no queue.",
    )
    quota_runs: Quota = _limits(
        default="",
        description="Runs per owner of keys, such as 60/minute, or per hour or day; empty: no "
        "limit. Beyond it 429. Each process counts for itself.",
    )
    quota_tokens: Quota = _limits(
        default="", description="Language model tokens per owner, such as 500000/day."
    )
    quota_searches: Quota = _limits(
        default="", description="Web searches per owner, such as 100/hour."
    )
    quota_uploads: Quota = _limits(default="", description="Uploads per owner, such as 20/minute.")
    shutdown_grace_s: float = _limits(
        default=20.0,
        ge=0,
        description="Seconds that runs get to end when the service stops; then clients get the "
        "best answer so far, and detached runs are left to the next process.",
    )
    keep_runs_days: float = _records(
        default=30.0,
        gt=0,
        description="Days that a finished run is kept, and an idle thread without runs; runs with "
        "feedback stay.",
    )
    preset: Preset = _grading(default="none", description="Preset of runs that name none.")
    log_format: Literal["text", "json"] = _records(default="text", description="Format of the log.")
    max_connections: int = _limits(
        default=500, ge=2, description="Most open connections; beyond it 503."
    )
    extensions_off: Names = _address(
        default=(),
        description="Extensions not to load, such as openai,ai_sdk.",
    )
    langsmith: bool = _records(
        default=False,
        description="Send whole runs, questions and answers included, to LangSmith; LangSmith's "
        "own variables switch nothing.",
    )

    @property
    def chat_key(self) -> SecretStr:
        """OPENAI_API_KEY is for models at OpenAI-compatible endpoints, not for other providers."""
        is_endpoint = self.chat_model.startswith("openai:")
        return self.chat_api_key or (self.openai_api_key if is_endpoint else SecretStr(""))

    @model_validator(mode="after")
    def _parts_fit_together(self) -> Self:
        if self.critic == "native" and self.generator != "native":
            raise ValueError("critic native needs SELFCRAG_GENERATOR=native")
        if self.fallback_model and self.generator == "extractive":
            raise ValueError("the fallback model needs SELFCRAG_GENERATOR=chat or native")
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
        if former := _former_settings():
            raise StartFailed("; ".join(former))
        return kind(**given)
    except ValidationError as error:
        wrong = [
            ": ".join([*(f"SELFCRAG_{part}".upper() for part in item["loc"][:1]), message_of(item)])
            for item in error.errors(include_url=False, include_input=False)
        ]
        raise StartFailed("; ".join(wrong)) from None
    except UnicodeDecodeError:
        raise StartFailed(".env is not UTF-8: save it as UTF-8") from None


def _given() -> dict[str, str | None]:
    """Variables of the environment and of `.env`, by their names in small letters."""
    sources = DotEnvSettingsSource(Settings), EnvSettingsSource(Settings)
    return {name: value for source in sources for name, value in source.env_vars.items()}


def _former_settings() -> list[str]:
    given = _given()
    return [
        f"SELFCRAG_{name.upper()} is gone: SELFCRAG_{now.upper()} holds its value, see .env.example"
        for now, names in _MERGED.items()
        for name in names
        if given.get(f"selfcrag_{name}")
    ]


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
    unknown = [
        name
        for name in sorted(_given().keys() - known)
        if name.startswith("selfcrag_") and not name.startswith(WORKERS)
    ]
    near = {name: get_close_matches(name, known, 1, cutoff=0.8) for name in unknown}
    return [
        f"unknown setting {name.upper()} ignored"
        + "".join(f"; did you mean {other.upper()}?" for other in near[name])
        for name in unknown
    ]
