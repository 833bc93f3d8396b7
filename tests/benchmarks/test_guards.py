"""The table of the mutation check fits the code, and a guard's removal is noticed."""

import ast
import json
from functools import cache
from pathlib import Path

import pytest

from benchmarks.guards.__main__ import FIGURES, GUARDS, ROOT, main


@cache
def functions_of(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {getattr(node, "name", "") for node in tree.body}


def test_guards_and_tests_stand_where_the_table_says() -> None:
    """Where they are moved or renamed, the table follows."""
    moved = [it.name for it in GUARDS if (ROOT / it.file).read_text("utf-8").count(it.old) != 1]
    named = {tuple(test.split("::")) for guard in GUARDS for test in guard.tests}
    assert moved == []
    assert [(file, name) for file, name in named if name not in functions_of(file)] == []


def test_the_report_holds_every_guard_and_each_is_noticed() -> None:
    rows = json.loads(FIGURES.read_text(encoding="utf-8"))["guards"]
    assert [row["name"] for row in rows] == [guard.name for guard in GUARDS]
    assert [row["name"] for row in rows if not row["failed"]] == []


@pytest.mark.slow
def test_a_removal_is_noticed_and_told(tmp_path: Path) -> None:
    out = tmp_path / "guards.json"
    assert main(["--only", "Queries hold ordinary words", "--out", str(out)]) == 0
    (guard,) = json.loads(out.read_text(encoding="utf-8"))["guards"]
    assert guard["failed"]
    assert "1 of 1 guards" in out.with_suffix(".md").read_text(encoding="utf-8")
