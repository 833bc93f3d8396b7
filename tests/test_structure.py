"""The ratchet over the code's structure: what rises needs a reason, what falls is kept."""

import json
from pathlib import Path

import pytest

from tests.structure import REASONS, Checkout, ratchet

SOURCE = """
import re
from typing import Any

WORDS = re.compile("x")

class Twin: ...

class OneSettings:
    port: int = Field(1)

def kept(told: Any) -> None:
    try:
        found = 1
    except Exception:
        pass

def branching(n: int) -> int:
    {branches}
    return n
""".format(branches="\n    ".join(f"if n == {n} or n > 1: return n" for n in range(8)))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for package in ("app", "evaluator/data"):
        (tmp_path / package).mkdir(parents=True)
    (tmp_path / "app" / "one.py").write_text(SOURCE)
    (tmp_path / "app" / "other.py").write_text("from app.one import WORDS\nclass Twin: ...\n")
    (tmp_path / "evaluator" / "data" / "rows.py").write_text("rows = 1\n")
    return tmp_path


def test_each_figure_counts_what_it_is_called(checkout: Path) -> None:
    figures = Checkout(checkout).figures()

    assert {name: figure for name, figure in figures.items() if figure} == {
        "lines of core": SOURCE.count("\n") + 2,
        "lines of build": 1,
        "settings": 1,
        "class names in several modules": 1,
        "Any": 1,
        "broad except": 1,
        "re.compile": 1,
        "functions of complexity above 15": 1,
        "dialect names": 3,
    }


def test_what_rises_needs_a_reason_and_what_falls_is_kept(tmp_path: Path) -> None:
    file, changelog = tmp_path / "structure.json", tmp_path / "CHANGELOG.md"
    file.write_text('{"settings": 9, "Any": 5, "files of a request": 7}')
    changelog.write_text(f"# Changelog\n\n{REASONS}- older (x: 1 -> 2)\n")

    assert ratchet({"settings": 10, "Any": 4}, file, changelog) == ["settings: 9 -> 10"]
    assert json.loads(file.read_text()) == {"settings": 9, "Any": 4, "files of a request": 7}

    assert ratchet({"settings": 10, "Any": 4}, file, changelog, "a port for operators") == []
    assert json.loads(file.read_text())["settings"] == 10
    assert f"{REASONS}- a port for operators (settings: 9 -> 10)\n- older" in changelog.read_text()
    assert ratchet({"settings": 10, "Any": 4}, file, changelog) == []
