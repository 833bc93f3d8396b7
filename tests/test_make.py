"""The Makefile: what `make help` lists, and that an installation is made once.

`.ci/run` makes the other targets, and tests/test_entry_points.py runs what serves.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.processes import ROOT, environment

TARGETS = {"run", "test", "test-extra", "install", "check"} | {
    *("serve", "worker", "studio", "ingest", "bench", "bench-night", "help")
}
LOCKS = ("requirements.lock", "requirements-dev.lock")


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *words],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder as an installation leaves it: the stamps are newer than the locks."""
    for name in ("Makefile", "pyproject.toml", *LOCKS):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name in ("bin/python", ".run", ".dev", ".extra"):
        (tmp_path / ".venv" / name).touch()
    return tmp_path


@pytest.mark.parametrize("words", [(), ("help",)])
def test_help_lists_every_target_with_what_it_does(words: tuple[str, ...]) -> None:
    lines = make(ROOT, *words).stdout.splitlines()
    listed = dict(re.fullmatch(r"(\S+)\s{2,}(\S.*)", line).groups() for line in lines)  # type: ignore[union-attr]

    assert set(listed) >= TARGETS


def test_an_older_python_is_told_with_the_way_out(installed: Path) -> None:
    """The stand-in says that it is 3.10."""
    shutil.rmtree(installed / ".venv")
    older = installed / "older"
    older.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c"
        """ 'import sys; sys.version_info = (3, 10, 4); exec(sys.argv[1])' "$2"\n"""
    )
    older.chmod(0o755)
    ended = make(installed, "run", f"PYTHON={older}")
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[0] == (
        f"self-crag needs Python 3.11 or later, and {older} is 3.10:"
        " name a newer one, as in `make run PYTHON=python3.12`"
    )
    assert not (installed / ".venv").exists()


@pytest.mark.parametrize(("stamp", "lock"), [(".run", LOCKS[0]), (".dev", LOCKS[1])])
def test_only_a_changed_lock_is_installed_again(installed: Path, stamp: str, lock: str) -> None:
    target = f".venv/{stamp}"
    assert make(installed, "--question", target).returncode == 0

    os.utime(installed / target, (1, 1))
    os.utime(installed / lock)
    assert make(installed, "--question", target).returncode == 1


def test_the_tests_need_pip_alone(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", *LOCKS):
        shutil.copy(ROOT / name, tmp_path)
    words = make(tmp_path, "--dry-run", "test").stdout.split()

    assert "requirements-dev.lock" in words
    assert not {"apt", "apt-get", "npm", "sudo", "docker"} & set(words)
