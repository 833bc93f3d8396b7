"""The service as a process for benchmarks, and questions that nobody has asked it before."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import httpx

from benchmarks.first_answer import QUESTIONS

DOCS = Path(__file__).parents[1] / "docs"
START_S = 60.0
_number = count(1)


def question() -> str:
    """One that nobody has asked: grades are kept, and what the service knows it must find out."""
    n = next(_number)
    return f"{QUESTIONS[n % len(QUESTIONS)].rstrip('?？')} ({n})?"


@contextmanager
def serving(
    folder: Path, port: int, ingest: Sequence[Path] = (), cores: Sequence[int] = (), **settings: str
) -> Iterator[int]:
    """The process id of `selfcrag serve`, once it is ready; its state and log are in `folder`.

    Of the settings these alone (`database_url` is SELFCRAG_DATABASE_URL); no web search.
    """
    given = {name: it for name, it in os.environ.items() if not name.startswith("SELFCRAG_")}
    ours = {"data_dir": str(folder), "search": "off", **settings}
    environment = {**given, **{f"SELFCRAG_{name}".upper(): it for name, it in ours.items()}}
    if cores:
        environment["OMP_NUM_THREADS"] = str(len(cores))
    held = ["taskset", "-c", ",".join(map(str, cores))] if cores else []
    script = str(Path(sys.executable).with_name("selfcrag"))
    words = [word for path in ingest for word in ("--ingest", str(path))]
    command = [*held, script, "serve", "--port", str(port), *words]
    with (
        (folder / f"service-{port}.log").open("wb") as log,
        subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log) as process,
    ):
        try:
            ends_at = time.monotonic() + START_S
            while not is_ready(f"http://127.0.0.1:{port}") and time.monotonic() < ends_at:
                time.sleep(0.2)
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/ready", trust_env=False).is_success
    except httpx.TransportError:
        return False
