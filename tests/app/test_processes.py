"""Service and worker as processes: started, asked, signalled."""

import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from tests.app.api.test_sse import CHINESE, ENGLISH, PER_RUN
from tests.app.processes import BIN, Process, environment
from tests.app.serving import Serving
from tests.loopback.server import free_port

Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a command of ours; all are ended with the test."""
    with ExitStack() as stack:

        def begin(*command: str, **settings: object) -> Process:
            log = tmp_path / f"{len(list(tmp_path.iterdir()))}.log"
            words = [str(BIN / command[0]), *command[1:]]
            process = Process(words, log, tmp_path, environment(**settings))
            stack.callback(process.end)
            return process

        yield begin


def lasting(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in PER_RUN}


def about(value: Any) -> Any:
    """Equal to it, or to it with scores that other batches have moved by up to 1e-5."""
    if isinstance(value, dict):
        return {name: about(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [about(inner) for inner in value]
    return pytest.approx(value, abs=1e-5) if isinstance(value, float) else value


def test_a_worker_over_http_gives_the_same_answer(
    start: Start, service: Serving, data_dir: Path
) -> None:
    port = free_port()
    worker = start("selfcrag-evaluator", "serve", evaluator_port=port)
    worker.wait_for(f"http://127.0.0.1:{port}/health/ready")
    settings = Settings(
        _env_file=None,
        data_dir=data_dir,
        search="off",
        worker_url=f"http://127.0.0.1:{port}",
    )
    with Serving(create_app(settings)) as apart:
        for question in (ENGLISH, CHINESE):
            assert lasting(apart.ask(question)) == about(lasting(service.ask(question)))
        assert apart.client.get("/health/ready").status_code == 200
        worker.end(signal.SIGKILL)
        assert_goes_on_without_the_worker(apart)


def assert_goes_on_without_the_worker(apart: Serving) -> None:
    assert apart.client.get("/health/ready").status_code == 503
    for question in (ENGLISH, CHINESE):
        answer = apart.ask(question)
        assert {entry["component"] for entry in answer["degraded"]} == {"critic", "evaluator"}
        assert "Is the worker running?" in answer["degraded"][0]["reason"]
        assert answer["action"] is None
        assert answer["stopped_by"] == "no_evidence", "what nobody judged is not quoted"
        assert answer["citations"] == []


def test_a_signal_ends_a_service_with_a_client_waiting(start: Start, data_dir: Path) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        process = start(
            *("selfcrag", "serve"),
            **{"data_dir": data_dir, "search": "off", "port": port, "generator": "openai"},
            openai_api_key="none",
            openai_base_url=endpoint,
        ).wait_for(f"http://127.0.0.1:{port}/health/ready")
        body = {"question": ENGLISH, "stream": True}
        url = f"http://127.0.0.1:{port}/ask"
        with httpx.stream("POST", url, json=body, timeout=20) as response:
            lines = response.iter_lines()
            assert next(lines) == "event: run"
            took_s = process.end(signal.SIGTERM)
            rest = list(lines)

    assert took_s < 8
    assert f"answers on http://127.0.0.1:{port}" in process.said
    assert "event: error" in rest
    assert rest[-4] == "event: done"
    assert "Traceback" not in process.said
    for told in ("INFO: +Application startup complete", r"INFO: +127\.0\.0\.1:\d+ - "):
        assert re.search(rf"^\d{{4}}-\d\d-\d\d [\d:,]+ {told}", process.said, re.MULTILINE), "timed"
