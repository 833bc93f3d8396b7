"""The service as a process: started, asked, signalled."""

import json
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.app.processes import BIN, Process, environment
from tests.loopback.server import free_port
from tests.umbra import ENGLISH

pytestmark = pytest.mark.slow

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


def test_a_signal_ends_a_service_with_a_client_waiting(start: Start, data_dir: Path) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        process = start(
            *("selfcrag", "serve"),
            **{"data_dir": data_dir, "search": "off", "port": port, "generator": "chat"},
            chat_model=f"openai:m@{endpoint}",
            shutdown_grace_s=2,
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
    assert "event: answer" in rest, "the best one so far"
    assert rest[-4] == "event: done"
    assert "Traceback" not in process.said
    for told in ("INFO: +Application startup complete", r"INFO: +127\.0\.0\.1:\d+ - "):
        assert re.search(rf"^\d{{4}}-\d\d-\d\d [\d:,]+ {told}", process.said, re.MULTILINE), "timed"


def test_the_log_is_json_where_the_settings_say_so(start: Start, data_dir: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    settings = {"data_dir": data_dir, "search": "off", "port": port, "log_format": "json"}
    process = start("selfcrag", "serve", **settings).wait_for(f"{url}/health/ready")
    headers = {"X-Request-ID": "req-1"}
    response = httpx.post(f"{url}/ask", json={"question": ENGLISH}, headers=headers, timeout=60)
    process.end()

    written = [line for line in process.said.splitlines() if not line.startswith("self-crag")]
    lines = [json.loads(line) for line in written]
    (ended,) = (line for line in lines if line["message"] == "run ended")
    assert ended["run_id"] == response.json()["run_id"]
    (access,) = (line for line in lines if '"POST /ask HTTP/1.1" 200' in line["message"])
    assert ended["request_id"] == access["request_id"] == "req-1"
    assert ENGLISH not in process.said
