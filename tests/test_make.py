"""The Makefile: an installation is made once, by a Python that will do.

`.ci/run` makes the other targets, and tests/test_entry_points.py runs what serves.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.processes import ROOT, environment

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
