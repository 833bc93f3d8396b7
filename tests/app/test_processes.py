"""The service as a process: started, asked, signalled; what it logs is JSON where that is set."""

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.app.processes import BIN, Process, environment
from tests.loopback.server import free_port
from tests.umbra import ENGLISH

pytestmark = pytest.mark.slow


@pytest.fixture
def process(tmp_path: Path, data_dir: Path) -> Iterator[Process]:
    """The service over a chat endpoint that never answers."""
    url = f"http://127.0.0.1:{free_port()}"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        env = environment(
            **{"data_dir": data_dir, "search": "off", "port": url.rpartition(":")[2]},
            **{"generator": "chat", "shutdown_grace_s": 2, "log_format": "json"},
            chat_model=f"openai:m@http://127.0.0.1:{silent.getsockname()[1]}/v1",
        )
        process = Process([str(BIN / "selfcrag"), "serve"], tmp_path / "log", tmp_path, env)
        process.url = url
        try:
            yield process.wait_for(f"{url}/health/ready")
        finally:
            process.end()


def test_a_signal_ends_a_service_with_a_client_waiting(process: Process) -> None:
    body, headers = {"question": ENGLISH, "stream": True}, {"X-Request-ID": "req-1"}
    url = f"{process.url}/ask"
    with httpx.stream("POST", url, json=body, headers=headers, timeout=20) as response:
        lines = response.iter_lines()
        assert next(lines) == "event: run"
        run_id = json.loads(next(lines).removeprefix("data: "))["run_id"]
        took_s = process.end(signal.SIGTERM)
        rest = list(lines)

    assert took_s < 8
    assert f"answers on {process.url}" in process.said
    assert "event: answer" in rest, "the best one so far"
    assert rest[-4] == "event: done"
    assert "Traceback" not in process.said
    written = [line for line in process.said.splitlines() if not line.startswith("self-crag")]
    logged = [json.loads(line) for line in written]
    (ended,) = (line for line in logged if line["message"] == "run ended")
    assert ended["run_id"] == run_id
    (access,) = (line for line in logged if '"POST /ask HTTP/1.1" 200' in line["message"])
    assert ended["request_id"] == access["request_id"] == "req-1"
    assert ENGLISH not in process.said
