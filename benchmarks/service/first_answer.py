"""Times what a new user waits for: install to first answer, and p50 of `POST /ask`.

    python -m benchmarks.service.first_answer                 of this checkout
    python -m benchmarks.service.first_answer --from-clone    of a clean clone of the last commit

Questions come from the handbook's own subject, in English and Chinese, and are not repeated. Of a
clone, which is installed without pip's cache, also: bytes downloaded, and seconds of three later
starts. These figures join those of `python -m benchmarks.serving`. Needs make, git, the index.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path

import httpx

from benchmarks.report import ROOT, Figures
from benchmarks.service.process import QUESTIONS, environment, started
from benchmarks.serving.__main__ import FIGURES, keep
from tests.loopback.server import free_port

GIVE_UP_S = 3600.0


def made(folder: Path, url: str) -> AbstractContextManager[object]:
    """`make run` in the folder."""
    command = ["make", "--no-print-directory", "run", f"PYTHON={sys.executable}"]
    env = environment(port=url.rpartition(":")[2]) | {"PIP_NO_CACHE_DIR": "1"}
    return started(command, url, env, folder=folder, within_s=GIVE_UP_S)


def asked_ms(url: str, question: str) -> float:
    """Milliseconds until the whole answer."""
    began_s = time.perf_counter()
    body = {"question": question, "options": {"web": "never"}}
    httpx.post(f"{url}/ask", json=body, timeout=60, trust_env=False).raise_for_status()
    return (time.perf_counter() - began_s) * 1000


def start_s(folder: Path, url: str) -> float:
    began_s = time.perf_counter()
    with made(folder, url):
        return time.perf_counter() - began_s


def fresh(clone: Path, url: str, first_s: float) -> Figures:
    """Megabytes of an installation, and seconds of its starts."""
    wheels = clone.with_name("wheels")
    pip = [str(clone / ".venv/bin/python"), "-m", "pip", "download", "--quiet", "--no-cache-dir"]
    subprocess.run([*pip, "-r", "requirements.lock", "-d", str(wheels)], cwd=clone, check=True)
    sizes = [path.stat().st_size for path in wheels.iterdir()]
    return {
        "commit": _printed(clone, "git", "rev-parse", "--short", "HEAD"),
        "packages": len(sizes),
        "download_mb": sum(sizes) / 1e6,
        "installed_mb": int(_printed(clone, "du", "-sk", ".venv").split()[0]) * 1024 / 1e6,
        "first_s": first_s,
        "again_s": [start_s(clone, url) for _ in range(3)],
    }


def _printed(folder: Path, *command: str) -> str:
    return subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--from-clone", action="store_true")
    chosen = parser.parse_args()
    url = f"http://127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as scratch:
        folder = ROOT
        if chosen.from_clone:
            folder = Path(scratch) / "clone"
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        began_s = time.perf_counter()
        with made(folder, url):
            ready_s = time.perf_counter() - began_s
            first_ms = asked_ms(url, "Is it ready to answer questions about thresholds?")
            took_ms = [asked_ms(url, question) for question in QUESTIONS]
        what = "install" if chosen.from_clone else "start"
        sys.stdout.write(
            f"{what} to first answer: {ready_s + first_ms / 1000:.1f} s\n"
            f"POST /ask, {len(took_ms)} questions: p50 {statistics.median(took_ms):.0f} ms, "
            f"max {max(took_ms):.0f} ms\n"
        )
        if chosen.from_clone:
            known = json.loads(FIGURES.read_text("utf-8"))
            keep(FIGURES, known | {"fresh": fresh(folder, url, ready_s)})


if __name__ == "__main__":
    main()
