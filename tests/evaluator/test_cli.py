"""The entry point: expected failures and Ctrl-C end in one line."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evaluator import cli
from evaluator.errors import Interrupted
from evaluator.training import train
from tests.evaluator.training.test_train import folder_of


@pytest.fixture(autouse=True)
def _sigint_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGINT, before)


def status(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr("sys.argv", ["selfcrag-evaluator", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code


def test_an_expected_failure_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = status(monkeypatch, "bench", "--weights", str(tmp_path))
    assert str(failed).startswith("selfcrag-evaluator: No evaluator weights in")
    assert "config.json is missing" in str(failed)
    assert "\n" not in str(failed)


# Ctrl-C may arrive where an exception is swallowed, as in a destructor; it is then raised again.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_in_training_says_what_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, work = folder_of(tmp_path / "data"), tmp_path / "work"
    arguments = ["train", "--data", str(data), "--out", str(tmp_path / "out"), "--work", str(work)]
    begin = train.train

    def interrupted_once_swallowed(*parts: Any) -> None:
        """As where a library catches all that is raised, and training goes on."""
        with contextlib.suppress(Interrupted):
            os.kill(os.getpid(), signal.SIGINT)
        begin(*parts)

    monkeypatch.setattr(train, "train", interrupted_once_swallowed)
    monkeypatch.setattr(cli, "AGAIN_S", 0.2)
    assert status(monkeypatch, *arguments, "--init", "none", "--minutes", "0.2") == 130
    told = capsys.readouterr().err
    assert f"interrupted; the same command goes on from the last checkpoint in {work}" in told
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("command", [["score", "How?", "So."], ["serve", "--port", "0"]])
def test_ctrl_c_at_any_moment_leaves_no_traceback(command: list[str]) -> None:
    code = "from evaluator.cli import main; print('started', flush=True); main()"
    for delay_s in (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0):
        process = subprocess.Popen(
            [sys.executable, "-c", code, *command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout
        assert process.stdout.readline() == "started\n"
        threading.Event().wait(delay_s + 0.02)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert "Traceback" not in told, told
        assert process.returncode in (0, 130, -signal.SIGINT)
        assert process.returncode or not told.strip(), told
