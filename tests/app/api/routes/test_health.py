"""Live is the process, ready is what runs need: index and database, read anew each second."""

import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import httpx

from app.api.readiness import KEPT_S
from app.main import create_app
from app.resilience.circuit_breaker import MAX_FAILURES, CircuitBreaker, HostBreakers
from app.settings import Settings
from tests import fakes
from tests.app.knowledge import copied
from tests.app.serving import Serve, Serving, app_of, wait_until


def test_the_service_is_live_and_ready(service: Serving) -> None:
    for name in ("live", "ready"):
        response = service.client.get(f"/health/{name}")
        assert response.status_code == 200
        assert response.json() == {"status": name}


def assert_becomes(client: httpx.Client, status: int) -> httpx.Response:
    """After what was known is forgotten."""
    wait_until(lambda: client.get("/health/ready").status_code == status, KEPT_S + 5)
    return client.get("/health/ready")


def test_an_index_that_fails_is_named_until_it_comes_back(serve: Serve) -> None:
    retriever = fakes.FakeRetriever(fails=True)
    client = serve(fakes.services(retriever)).client
    response = client.get("/health/ready")

    assert response.status_code == 503
    assert response.headers["content-type"] == "application/problem+json"
    assert int(response.headers["retry-after"]) > 0
    assert response.json()["detail"] == "Not ready: the index cannot be read."
    assert client.get("/health/live").status_code == 200

    retriever.fails = False
    assert_becomes(client, 200)


def test_without_worker_or_model_runs_go_on_and_it_says_so(serve: Serve) -> None:
    parts = fakes.services(evaluator=fakes.FakeEvaluator(fails_from_call=1))
    chat, web_search = CircuitBreaker("chat", max_failures=1), CircuitBreaker("web_search")
    with suppress(ValueError), chat.attempt(ValueError) as attempt:
        attempt.has_failed = True
        raise ValueError
    circuits = {breaker.name: breaker for breaker in (chat, web_search)}
    client = serve(replace(parts, circuits=circuits)).client
    response = client.get("/health/ready")

    assert response.status_code == 200
    assert response.json() == {"status": "ready", "degraded": ["chat", "evaluator"]}


def test_a_host_of_pages_that_is_let_be_shows(serve: Serve) -> None:
    pages = HostBreakers("pages")
    for _ in range(MAX_FAILURES):
        with suppress(ValueError), pages.attempt("a.example", ValueError) as attempt:
            attempt.has_failed = True
            raise ValueError
    client = serve(replace(fakes.services(), circuits={pages.name: pages})).client

    assert client.get("/health/ready").json() == {"status": "ready", "degraded": ["pages"]}
    assert 'selfcrag_circuit_open{dependency="pages"} 1.0' in client.get("/metrics").text


def test_it_is_checked_once_a_second_however_many_ask(serve: Serve) -> None:
    class Counted(fakes.FakeRetriever):
        checks = 0

        async def ready(self) -> bool:
            self.checks += 1
            return True

    retriever = Counted()
    client = serve(fakes.services(retriever)).client
    for _ in range(20):
        assert client.get("/health/ready").status_code == 200
    assert retriever.checks <= 3


ZEROS = """
import os, sys
for name in sys.argv[1:]:
    with open(name, "r+b") as file:
        file.write(bytes(os.stat(name).st_size))
"""


def damage(folder: Path, pattern: str) -> None:
    """In place and by another process.

    SQLite maps a file into memory: whoever makes it shorter ends the process that reads it, and
    whoever closes it within that process takes its locks away.
    """
    files = [str(path) for path in folder.rglob(pattern) if path.is_file()]
    assert files
    subprocess.run([sys.executable, "-c", ZEROS, *files], check=True)


def test_a_damaged_database_is_not_ready(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path)
    with Serving(app_of(fakes.services(), settings)) as serving:
        assert serving.client.get("/health/ready").status_code == 200
        damage(tmp_path, "selfcrag.db*")
        problem = assert_becomes(serving.client, 503).json()
    assert problem["detail"] == "Not ready: the database cannot be read."


def test_a_database_that_was_removed_is_not_ready(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path)
    with Serving(app_of(fakes.services(), settings)) as serving:
        for path in tmp_path.glob("selfcrag.db*"):
            path.unlink()
        problem = assert_becomes(serving.client, 503).json()
    assert problem["detail"] == "Not ready: the database cannot be read."


def test_a_damaged_index_is_not_ready(tmp_path: Path, data_dir: Path) -> None:
    state = tmp_path / "state"
    copied(data_dir, state)
    with Serving(create_app(Settings(_env_file=None, data_dir=state, search="off"))) as serving:
        assert serving.client.get("/health/ready").status_code == 200
        damage(state / "index", "*.lance")
        problem = assert_becomes(serving.client, 503).json()
    assert problem["detail"] == "Not ready: the index cannot be read."
