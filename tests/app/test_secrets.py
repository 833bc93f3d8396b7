"""Secrets of the settings, told apart by canaries: whatever fails, nobody is told one."""

import base64
import io
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import typer
from pydantic import AfterValidator, SecretStr
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from typer.testing import CliRunner

from app import extension
from app.api.routes.documents import mapped
from app.cli.main import cli
from app.cli.terminal import fail
from app.composition.services import open_services
from app.errors import DocumentsProblem, StartFailed
from app.main import create_app
from app.observability.logging import JsonFormatter, TextFormatter
from app.observability.redaction import redact
from app.resilience import retry
from app.retrieval.embedder import EmbedderFailed
from app.retrieval.index import IndexUnusable
from app.settings import Settings, load_settings
from app.storage.database import open_engine
from evaluator.client import EvaluatorClient, WorkerError
from tests.app.serving import Serving
from tests.loopback.fixtures import Started
from tests.loopback.server import LoopbackServer, free_port, json_error

QUESTION = "How tall is the red tower of Umbra, and who owns the lighthouse of Hornsvik?"
RUNS = [("crag", {"web": "always"}), ("self_crag", {"expand": ["rewrite"], "web": "always"})]


class TellTale(LoopbackServer):
    """Refuses whatever it is asked, and repeats it."""

    def routes(self) -> Sequence[BaseRoute]:
        return [Route("/{path:path}", self._refused, methods=["GET", "POST"])]

    async def _refused(self, request: Request) -> Response:
        told = f"{request.url} {dict(request.headers)}"
        return json_error(401, {"error": {"message": told, "code": told}, "detail": told})


class Canaries:
    """Settings whose every secret is a word that stands nowhere else."""

    def __init__(self) -> None:
        self._port = free_port()
        self.secrets: list[str] = []

    def at(self, port: int) -> None:
        """Where the addresses lead; nothing answers at first."""
        self._port = port

    def secret(self, name: str) -> str:
        self.secrets.append(f"canary-{name}-5f3a")
        return self.secrets[-1]

    def address(self, name: str, scheme: str = "http", path: str = "/v1") -> str:
        password, token = self.secret(f"{name}-password"), self.secret(f"{name}-token")
        self.secrets.append(base64.b64encode(f"canary:{password}".encode()).decode())
        place = f"canary:{password}@127.0.0.1:{self._port}"
        return f"{scheme}://{place}{path}?api_key={token}"

    def model(self, name: str, scheme: str = "http") -> str:
        return f"openai:m@{self.address(name, scheme)}"

    def found_in(self, text: str) -> list[str]:
        return [secret for secret in self.secrets if secret in text]


@pytest.fixture
def canaries() -> Canaries:
    return Canaries()


class Everything(logging.Handler):
    """What any logger says from DEBUG on: as text, as JSON, and by a handler of somebody else's."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.out = io.StringIO()
        self._forms = (TextFormatter(), JsonFormatter(), logging.Formatter("%(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        for form in self._forms:
            print(form.format(record), file=self.out)


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    handler, root = Everything(), logging.getLogger()
    named = [it for it in root.manager.loggerDict.values() if isinstance(it, logging.Logger)]
    levels = {logger: logger.level for logger in (root, *named)}
    for logger in levels:
        logger.setLevel(logging.DEBUG)
    root.addHandler(handler)
    yield handler.out
    root.removeHandler(handler)
    for logger, level in levels.items():
        logger.setLevel(level)


def settings_of(canaries: Canaries, data_dir: Path, search: str) -> Settings:
    chosen: dict[str, Any] = {
        "generator": "chat", "critic": "llm", "openai_api_key": canaries.secret("openai"),
        "chat_model": canaries.model("chat"), "chat_api_key": canaries.secret("chat"),
        "fallback_model": canaries.model("fallback"),
        "fallback_api_key": canaries.secret("fallback"),
        "image_maker": canaries.model("maker"), "image_maker_key": canaries.secret("maker"),
        "captioner": canaries.model("captioner"), "captioner_key": canaries.secret("captioner"),
        "native_model": canaries.model("native"), "native_api_key": canaries.secret("native"),
        "embedder": canaries.model("embedder"), "embedder_dimensions": 256,
        "embedder_key": canaries.secret("embedder"),
        "search": f"{search}@{canaries.address(search)}",
        "tavily_api_key": canaries.secret("tavily"),
        "index_token": f"canary:{canaries.secret('index')}",
        "database_url": f"sqlite:///{data_dir}/own.db?timeout=5",
    }  # fmt: skip
    return Settings(_env_file=None, data_dir=data_dir, **chosen)


def test_the_canaries_are_in_every_setting_that_may_hold_a_secret(
    canaries: Canaries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELFCRAG_OTLP_ENDPOINT", canaries.address("otlp", path=""))
    chosen = dict(settings_of(canaries, tmp_path, "tavily"))
    for kind in extension.settings_of(extension.load_extensions()):
        chosen |= dict(load_settings(kind))
    may = {
        name
        for name, value in chosen.items()
        if isinstance(value, SecretStr) or name.endswith(("_url", "_endpoint", "_key", "_token"))
    }
    # Those of models and the search hold an address behind an at sign, which is checked.
    may |= {
        name
        for name, field in Settings.model_fields.items()
        if any(isinstance(it, AfterValidator) for it in field.metadata)
    }
    held = {name for name in may if canaries.found_in(_plain(chosen[name]))}

    # Addresses without which nothing starts are in the commands below.
    assert may - held == {"public_url", "worker_url", "index_url", "database_url"}


def _plain(value: object) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


@pytest.mark.parametrize(
    ("search", "answers"), [("tavily", False), ("searxng", True), ("wikipedia", True)]
)
def test_no_secret_is_told_when_everything_fails(
    canaries: Canaries,
    logged: io.StringIO,
    tmp_path: Path,
    started: Started,
    search: str,
    answers: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = list[str]()
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.0)
    if search == "tavily":  # once: its last attempt takes seconds
        monkeypatch.setenv("SELFCRAG_OTLP_ENDPOINT", canaries.address("otlp", path=""))
    if answers:
        canaries.at(started.fresh(TellTale).port)
    with Serving(create_app(settings_of(canaries, tmp_path, search))) as serving:
        for workflow, options in RUNS:
            body = {"question": QUESTION, "workflow": workflow, "options": options}
            answer = serving.client.post("/ask", json=body)
            streamed = serving.client.post("/ask", json={**body, "stream": True})
            upload = serving.client.post("/documents", files={"files": ("a.md", b"# A\n\nWords.")})
            trace = serving.client.get(f"/runs/{answer.json()['run_id']}")
            told += [it.text for it in (answer, streamed, upload, trace)]
            assert {entry["component"] for entry in answer.json()["degraded"]} >= {"generator"}
        for path in ("/workflows", "/metrics", "/health/ready", "/openapi.json", "/nothing"):
            told.append(serving.client.get(path).text)
    kept = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    log = logged.getvalue()

    assert any("own.db" in str(file) for file in tmp_path.rglob("*"))
    assert len(log) > 10_000
    assert not answers or "://***@127.0.0.1" in log, "the clients did try to tell"
    assert canaries.found_in(log) == []
    assert canaries.found_in("\n".join(told)) == []
    assert not any(secret.encode() in content for content in kept for secret in canaries.secrets)
    assert str(tmp_path) not in "\n".join(told), "nor where the data lies"


@pytest.mark.parametrize(
    ("setting", "scheme", "more"),
    [
        ("database_url", "postgresql", {}),
        ("worker_url", "http", {}),
        ("native_model", "http", {"generator": "native"}),
        ("embedder", "http", {}),
        ("index_url", "http", {}),
        ("chat_model", "httpnonsense", {"generator": "chat"}),
        ("chat_model", "nonsense", {"generator": "chat"}),
    ],
)
@pytest.mark.usefixtures("clean_environment")
def test_no_command_tells_a_secret(
    canaries: Canaries, logged: io.StringIO, tmp_path: Path, setting: str, scheme: str, more: Any
) -> None:
    key = canaries.secret("key")
    keys = dict.fromkeys(("chat_api_key", "native_api_key", "embedder_key"), key)
    chosen = {"data_dir": str(tmp_path), "search": "off", "index_token": f"canary:{key}", **keys}
    made = canaries.address if setting.endswith("_url") else canaries.model
    chosen |= {setting: made(setting, scheme), **more}
    env = {f"SELFCRAG_{name}".upper(): value for name, value in chosen.items()}
    (tmp_path / "a.md").write_text("# A\n\nWords.\n", "utf-8")

    for words in (["ask", QUESTION], ["ingest", str(tmp_path / "a.md")], ["keys", "list"]):
        result = CliRunner().invoke(cli, words, env=env)
        assert canaries.found_in(result.output + str(result.exception)) == []
    assert canaries.found_in(logged.getvalue()) == []


@pytest.mark.parametrize(
    "more",
    [
        {"database_url": "postgresql"},
        {"worker_url": "http"},
        {"worker_url": "http", "embedder": "worker"},
        {"index_url": "http"},
    ],
)
async def test_what_cannot_be_started_is_named_without_its_password(
    canaries: Canaries, tmp_path: Path, more: dict[str, str]
) -> None:
    places = {
        name: canaries.address(name, it) if name.endswith("url") else it
        for name, it in more.items()
    }
    settings = Settings(_env_file=None, data_dir=tmp_path, search="off", **places)  # type: ignore[arg-type]
    with pytest.raises((StartFailed, EmbedderFailed)) as failed:
        async with open_services(settings), open_engine(settings):
            pass

    assert canaries.found_in(str(failed.value)) == []


def test_a_command_that_fails_masks_what_it_tells(
    canaries: Canaries, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit):
        fail(f"nobody answers at {canaries.address('it')}")

    assert "nobody answers at http://***@127.0.0.1" in capsys.readouterr().err


async def test_a_worker_is_named_without_its_password(
    canaries: Canaries, logged: io.StringIO
) -> None:
    async with httpx.AsyncClient(base_url=canaries.address("worker")) as http:
        with pytest.raises(WorkerError, match="No answer from the evaluator at") as failed:
            await EvaluatorClient(http).score("relevance", [("a", "b")])
    assert canaries.found_in(str(failed.value) + logged.getvalue()) == []


def test_records_are_masked_whatever_they_are_made_of(
    canaries: Canaries, logged: io.StringIO, tmp_path: Path
) -> None:
    redact.learn(settings_of(canaries, tmp_path, "tavily"))
    secret, log = canaries.secrets[0], logging.getLogger("somebody.else")
    unknown = "http://u:canary-unknown-5f3a@host.example/x?y=1&access_token=canary-unknown-5f3a&z=2"
    canaries.secrets.append("canary-unknown-5f3a")

    log.info("plain %s and %r", secret, {"key": secret})
    log.info("options: %s", {"headers": {"Authorization": f"Bearer {secret}"}})
    log.info("GET %s %d", httpx.URL(unknown), 200)
    log.info("fields", extra={"fields": {"reason": unknown}})
    try:
        raise openai.OpenAIError(f"Incorrect API key provided: {secret}")
    except openai.OpenAIError:
        log.exception("it failed")
    text = logged.getvalue()

    assert canaries.found_in(text) == []
    assert "http://***@host.example/x?y=1&access_token=***&z=2 200" in text
    assert "OpenAIError: Incorrect API key provided: ***" in text


def test_where_the_index_lies_is_not_the_callers_to_know(logged: io.StringIO) -> None:
    with pytest.raises(DocumentsProblem) as told, mapped():
        raise IndexUnusable("The index in /srv/state/index cannot be used (broken).")

    assert "/srv" not in str(told.value)
    assert "/srv/state/index" in logged.getvalue()
