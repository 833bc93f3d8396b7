"""`make run` and `make worker` with default settings, each in a folder of its own."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.app.conftest import NOWHERE
from tests.app.processes import Process, checkout, environment
from tests.loopback.server import free_port
from tests.umbra import CHINESE, ENGLISH

pytestmark = pytest.mark.slow

Made = Callable[[str, str], Process]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    """Makes a target in a checkout, on a free port instead of the one that the setting has."""
    with ExitStack() as stack:
        home = checkout(tmp_path)

        def make(target: str, port_setting: str) -> Process:
            port = free_port()
            env = environment(**{port_setting: port}, search=NOWHERE)
            process = Process(["make", target], home / f"{target}.log", home, env)
            stack.callback(process.end)
            process.url = f"http://127.0.0.1:{port}"
            return process.wait_for(f"{process.url}/health/ready")

        yield make


def test_make_run_answers_from_the_documents(made: Made, tmp_path: Path) -> None:
    process = made("run", "port")
    for question, said, page in (
        (ENGLISH, "87 metres", "docs/en/tower.md"),
        (CHINESE, "八十七米", "docs/zh/tower.md"),
    ):
        asked = httpx.post(f"{process.url}/ask", json={"question": question}, timeout=60).json()
        assert said in asked["answer"]
        assert asked["citations"][0]["source"] == page
        assert asked["degraded"] == []

    assert process.end() < 20
    assert (tmp_path / ".selfcrag/selfcrag.db").exists()
    assert "Traceback" not in process.said
    for line in ("INFO: +Application startup complete", r"INFO: +127\.0\.0\.1:\d+ - "):
        assert re.search(rf"^\d{{4}}-\d\d-\d\d [\d:,]+ {line}", process.said, re.MULTILINE), "timed"


def test_make_worker_scores(made: Made) -> None:
    process = made("worker", "evaluator_port")
    pairs = [[ENGLISH, "The red tower of Umbra is 87 metres tall."], [ENGLISH, "Salt is added."]]
    body = {"task": "relevance", "pairs": pairs}
    scored = httpx.post(f"{process.url}/score", json=body, timeout=60).json()

    assert scored["scores"][0] > 0 > scored["scores"][1]
    assert scored["errors"] == []
    assert process.end() < 20
    assert "Traceback" not in process.said
