"""What the handbook's examples speak to: a service with a small knowledge base, and a worker."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from evaluator.serving.app import create_app
from evaluator.settings import EvaluatorSettings
from tests.app.conftest import data_dir, service  # noqa: F401 - fixtures
from tests.app.ingest.loaders.test_by_suffix import pdf
from tests.app.ingest.word import paragraph, word
from tests.app.serving import Serving, wait_until

START_S = 60.0
MARKDOWN = ("notes/tea.md", "manuals/pump.md", "faq.md")


@pytest.fixture(scope="session")
def worker() -> Iterator[str]:
    """The address of a worker with the shipped weights."""
    config = uvicorn.Config(create_app(EvaluatorSettings()), port=0, log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started or not thread.is_alive(), START_S)
    host, port = server.servers[0].sockets[0].getsockname()
    yield f"{host}:{port}"
    server.should_exit = True
    thread.join(START_S)


@pytest.fixture(scope="session")
def run_id(service: Serving) -> str:  # noqa: F811
    """A run that the examples may ask for, on the thread they name."""
    run: str = service.ask("How tall is the red tower?", thread_id="chat-1")["run_id"]
    return run


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the documents that the examples name."""
    monkeypatch.chdir(tmp_path)
    for name in MARKDOWN:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("# Tea\n\nTea is poured at four o'clock.\n", encoding="utf-8")
    for name in ("report.pdf", "manual.pdf"):
        (tmp_path / name).write_bytes(pdf("Tea is poured at four."))
    (tmp_path / "out.pdf").unlink(missing_ok=True)
    (tmp_path / "notes/house.docx").write_bytes(word(paragraph("The house has nine doors.")))
    (tmp_path / "prices.csv").write_text("item,price\ntea,4\ncocoa,5\n", encoding="utf-8")
    return tmp_path
