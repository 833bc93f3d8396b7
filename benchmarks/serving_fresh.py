"""Measures `make run` on a fresh machine: bytes downloaded, seconds to the first start and later.

    python -m benchmarks.serving_fresh

Clones the last commit into a temporary folder, lets `make run` install, ingest and serve there
without pip's cache, ends it, and starts it three times more. Needs the package index, git and make.
The figures join those of `python -m benchmarks.serving`, which is to be run before.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from benchmarks.serving import FIGURES, keep
from benchmarks.serving_model import Figures

PROJECT = Path(__file__).parent.parent
GIVE_UP_S = 3600.0


def fresh() -> Figures:
    """Megabytes and seconds of a clean clone."""
    with tempfile.TemporaryDirectory() as temporary:
        clone, wheels = Path(temporary) / "clone", Path(temporary) / "wheels"
        subprocess.run(["git", "clone", "--quiet", str(PROJECT), str(clone)], check=True)
        found: Figures = {"commit": _said(clone, "git", "rev-parse", "--short", "HEAD")}
        first = _started_s(clone)
        pip = [
            str(clone / ".venv/bin/python"),
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-cache-dir",
        ]
        subprocess.run([*pip, "-r", "requirements.lock", "-d", str(wheels)], cwd=clone, check=True)
        sizes = [path.stat().st_size for path in wheels.iterdir()]
        again = [_started_s(clone) for _ in range(3)]
        return found | {
            "packages": len(sizes),
            "download_mb": sum(sizes) / 1e6,
            "installed_mb": int(_said(clone, "du", "-sk", ".venv").split()[0]) * 1024 / 1e6,
            "first_s": first,
            "again_s": again,
        }


def _said(folder: Path, *command: str) -> str:
    told = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return told.stdout.strip()


def _started_s(clone: Path) -> float:
    """Seconds from `make run` until it is ready; it is ended then."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = time.perf_counter()
    url = f"http://127.0.0.1:{port}/health/ready"
    with _made(clone, port) as process, httpx.Client(timeout=5, trust_env=False) as http:
        while time.perf_counter() - started < GIVE_UP_S and process.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                if http.get(url).status_code == 200:
                    return time.perf_counter() - started
            time.sleep(0.1)
    sys.exit("make run did not become ready.")


@contextlib.contextmanager
def _made(clone: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """`make run` in a group of its own, which SIGTERM ends."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SELFCRAG_")}
    given = {"SELFCRAG_PORT": str(port), "PIP_NO_CACHE_DIR": "1"}
    command = ["make", "run", f"PYTHON={sys.executable}"]
    process = subprocess.Popen(command, cwd=clone, env=kept | given, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


if __name__ == "__main__":
    found = fresh()
    keep(FIGURES, json.loads(FIGURES.read_text("utf-8")) | {"fresh": found})
    sys.stderr.write(json.dumps(found) + "\n")
