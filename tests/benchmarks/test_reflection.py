"""The measurement of reflection: its counts, its delays, its report."""

import asyncio
from pathlib import Path

import pytest

from benchmarks.reflection.__main__ import report
from benchmarks.reflection.delays import Plan, cases, on_delays, row_of_runs
from benchmarks.reflection.llm import least, union_s
from tests.app.knowledge import fill


def test_time_shared_by_two_calls_is_waited_for_once() -> None:
    assert union_s([(0, 1), (0.5, 2), (3, 4)]) == 3
    assert union_s([(1, 2), (0, 3)]) == 3
    assert union_s([]) == 0


def test_a_judgement_asked_for_in_json_is_the_worst_that_fits() -> None:
    grade = {"type": "integer", "enum": [1, 2, 3]}
    part = {"type": "object", "properties": {"grade": {"$ref": "#/$defs/Grade"}}}
    wanted = {"lines": {"type": "array"}, "why": {"type": "string"}, "is": {"type": "boolean"},
              "part": part, "share": {"type": "number", "minimum": 0.5},
              "other": {"anyOf": [{"type": "null"}, grade]}}  # fmt: skip
    found = least({"type": "object", "properties": wanted}, {"Grade": grade})
    assert found == {"lines": [], "why": "It says too little.", "is": False,
                     "part": {"grade": 1}, "share": 0.5, "other": 0}  # fmt: skip


def test_a_run_is_held_against_its_own_grading_time() -> None:
    case = next(case for case in cases(0) if case.workflow == "rag")
    run = {"calls": 1, "path": 1.0, "searches": 1, "elapsed_s": 1.3}
    row = row_of_runs(case, [{**run, "grading_s": 0.2}, {**run, "grading_s": 0.1}], Plan())
    assert (row["within"], row["runs"]) == (1, 2)


def test_every_revision_may_cost_one_delay_more() -> None:
    ceilings = {
        (case.workflow, case.way, case.revisions): case.ceiling
        for case in cases(2)
        if case.critic != "llm"
    }
    assert ceilings["rag", "", 0] == ceilings["crag", "correct", 0] == 1
    assert ceilings["crag", "ambiguous", 0] == ceilings["self_crag", "ambiguous", 0] == 2
    assert [ceilings["self_rag", "5 drafts", n] for n in (0, 1, 2)] == [1, 2, 3]
    assert ceilings["self_crag", "incorrect", 2] == 4
    assert [case.ceiling for case in cases(2) if case.critic == "llm"] == [2, 4, 6]


@pytest.mark.slow
def test_delays_are_counted_on_the_real_workflows(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    fill(tmp_path / "pages", tmp_path / "state")
    plan = Plan(delay_s=0.05, times=1, rounds=1, workflows=("rag", "crag"))
    found = asyncio.run(on_delays(tmp_path / "state", plan))
    calls = {(row["workflow"], row["way"]): row["calls"] for row in found["rows"]}
    assert calls == {
        ("rag", ""): 1,
        ("crag", "correct"): 1,
        ("crag", "incorrect"): 2,
        ("crag", "ambiguous"): 2,
    }
    assert "| rag |" in report({"command": "so", "cores": 2, "evaluator": "t5", "delays": found})
