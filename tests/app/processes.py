"""Our commands as processes of their own."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import httpx

from tests.app.knowledge import write_pages

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
# Importing everything takes seconds on a busy machine.
START_S = 60.0


def environment(**settings: object) -> dict[str, str]:
    """This one without any settings but these (`data_dir` is SELFCRAG_DATA_DIR)."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SELFCRAG_", "LANG", "MAKE", "OPENAI_", "TAVILY_"))
    }
    ours = {f"SELFCRAG_{name}".upper(): str(value) for name, value in settings.items()}
    return {**kept, **ours, "PYTHONUNBUFFERED": "1"}


def checkout(folder: Path) -> Path:
    """The project as a user has it after an installation, with small documents for the handbook."""
    for name in ("app", "Makefile", "pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        (folder / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "langgraph.json", folder)
    write_pages(folder / "docs")
    (folder / ".venv").mkdir()
    (folder / ".venv/bin").symlink_to(BIN)
    for stamp in (".run", ".dev"):
        (folder / ".venv" / stamp).touch()
    return folder


class Process:
    """A command that serves until told to end; what it says goes to `log`."""

    def __init__(self, command: list[str], log: Path, cwd: Path, env: dict[str, str]) -> None:
        self.log = log
        self.url = ""
        with log.open("wb") as out:
            self.popen = subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, cwd=cwd, env=env,
                start_new_session=True,
            )  # fmt: skip

    @property
    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, url: str) -> Self:
        """Until the address answers 200."""
        give_up_at = time.monotonic() + START_S
        while time.monotonic() < give_up_at and self.popen.poll() is None:
            try:
                if httpx.get(url, timeout=5, trust_env=False).status_code == 200:
                    return self
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError(f"{url} does not answer; the process said:\n{self.said}")

    def wait(self) -> int:
        """The exit status of a process that ends by itself."""
        return self.popen.wait(START_S)

    def end(self, sent: signal.Signals = signal.SIGTERM) -> float:
        """Signals the process group, as a terminal does; the seconds until the process ended."""
        started = time.monotonic()
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, sent)
        try:
            self.popen.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.popen.pid, signal.SIGKILL)
            self.popen.wait(5)
            raise
        return time.monotonic() - started
