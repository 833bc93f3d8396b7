"""The worker as replicas on Ray Serve, behind Ray's own proxy."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import yaml
from pydantic import ValidationError

from evaluator.client import EvaluatorClient
from evaluator.settings import ServeSettings
from tests.app.processes import BIN, Process, environment
from tests.evaluator.load import answered_throughout
from tests.evaluator.tiny import tiny_folder
from tests.loopback.server import free_port

START_S = 540.0


def test_the_range_of_replicas_is_not_inverted() -> None:
    with pytest.raises(ValidationError, match="max_replicas"):
        ServeSettings(min_replicas=3, max_replicas=2)


def test_options_of_the_command_line_win_over_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`serve run evaluator.serving.ray_serve:app max_replicas=3`: Ray validates the words given."""
    monkeypatch.setenv("SELFCRAG_SERVE_MIN_REPLICAS", "2")
    monkeypatch.setenv("SELFCRAG_SERVE_MAX_REPLICAS", "9")
    options = ServeSettings.model_validate({"max_replicas": "3"})
    assert (options.min_replicas, options.max_replicas) == (2, 3)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[str]:
    """The address of two replicas that hold a tiny checkpoint."""
    pytest.importorskip("ray")
    port = free_port()
    config = {
        "http_options": {"host": "127.0.0.1", "port": port},
        "applications": [
            {
                "name": "evaluator",
                "route_prefix": "/",
                "import_path": "evaluator.serving.ray_serve:app",
            }
        ],
    }
    (tmp_path / "serve.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    settings = environment(
        evaluator_weights=tiny_folder(tmp_path / "tiny"),
        evaluator_backend="torch",
        serve_min_replicas=2,
        serve_max_replicas=2,
    )
    settings |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "x" * 32,
    }
    process = Process(
        [str(BIN / "serve"), "run", "serve.yaml"], tmp_path / "log", tmp_path, settings
    )
    try:
        until_all_run(process, settings)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.popen.terminate()  # it alone: it ends its cluster itself
        process.popen.wait(60)


def until_all_run(process: Process, settings: dict[str, str]) -> None:
    """Until Ray says so of both replicas; it gives them out one by one."""
    give_up_at = time.monotonic() + START_S
    asking = [str(BIN / "serve"), "status", "--name", "evaluator"]
    while True:
        told = subprocess.run(asking, env=settings, capture_output=True, text=True, check=False)
        if "status: RUNNING" in told.stdout:
            return
        assert process.popen.poll() is None, process.said
        assert time.monotonic() < give_up_at, told.stdout + told.stderr + process.said
        time.sleep(0.5)


def replicas() -> list[int]:
    """Process ids, by the names that Ray gives its processes."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # ended meanwhile
            if file.read_bytes().startswith(b"ray::ServeReplica:evaluator"):
                found.append(int(file.parent.name))
    return found


@pytest.mark.slow
async def test_a_killed_replica_loses_no_request(proxy: str) -> None:
    async with httpx.AsyncClient(base_url=proxy, timeout=60, trust_env=False) as http:
        client = EvaluatorClient(http)
        await client.connect()
        assert await client.ready()
        running = replicas()
        assert len(running) == 2
        await answered_throughout(client, lambda: os.kill(running[0], signal.SIGKILL))
        too_large = await http.post("/score", content=b"x" * 16_000_001)
        assert too_large.status_code == 413
        assert too_large.headers["content-type"] == "application/problem+json"
