"""The measurement of reflection: its questions, its counts, its delays, its report."""

import asyncio
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from app.ingest.chunker import chunk
from app.ingest.loaders.by_suffix import load
from app.schemas.ask import AskResponse
from benchmarks.reflection_delays import Plan, cases, on_delays, row_of_runs
from benchmarks.reflection_llm import least, union_s
from benchmarks.reflection_questions import (
    LANGUAGES,
    Half,
    TwoParts,
    best_of,
    kind_of,
    questions,
    row_of,
    says,
    summary,
)
from benchmarks.reflection_report import report
from benchmarks.reflection_runs import HANDBOOK, Told
from graphs.types import Critique
from tests.app.knowledge import fill

ASKED = TwoParts("How tall, and how deep?", ("How tall?", "How deep?"), (("87 metres",), ("nine",)))


@cache
def sections(language: str) -> dict[tuple[str, tuple[str, ...]], str]:
    found: dict[tuple[str, tuple[str, ...]], str] = {}
    for page in sorted((HANDBOOK / language).glob("*.md")):
        for piece in chunk(load(page, page.read_bytes()).blocks):
            place = (page.name, piece.headings)
            found[place] = f"{found.get(place, '')} {piece.text.casefold()}"
    return found


def standing(language: str, fact: str) -> set[tuple[str, tuple[str, ...]]]:
    return {place for place, text in sections(language).items() if says(text, fact)}


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_question_is_answered_by_two_sections_of_the_handbook(language: str) -> None:
    asked = questions(language, "dev") + questions(language, "test")
    for one in asked:
        facts = [facts for facts in one.facts if facts is not None]
        lost = [fact for part in facts for fact in part if not standing(language, fact)]
        assert not lost, f"the handbook says this no longer: {lost}"
        assert not one.answered_by(one.question), "the question gives itself away"
        places = [set().union(*(standing(language, fact) for fact in part)) for part in facts]
        assert len(places) == 1 or not places[0] & places[1], one.question


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_tuned_on_shares_no_fact_with_what_is_reported(language: str) -> None:
    def facts(half: Half) -> set[str]:
        known = [part for one in questions(language, half) for part in one.facts if part]
        return {fact for part in known for fact in part}

    assert not facts("dev") & facts("test")
    test = questions(language, "test")
    assert len(test) == len({one.question for one in test}) == 36
    assert sum(len(one.answerable) == 2 for one in test) == 30


def test_a_part_is_answered_where_its_fact_stands_whatever_markers_are_in_it() -> None:
    assert ASKED.answered_by("It is 87 [1] METRES tall [2].") == {0}
    assert ASKED.answered_by("Nobody knows.") == frozenset()
    half = TwoParts("Both?", ("One?", "Other?"), (("default is 5。",), None))
    assert half.answered_by("default is 5[3]。") == half.answerable == {0}


def critique(round: int, score: float = 1.0, accepted: bool = False) -> Critique:
    return Critique(
        round=round, relevance=1, support=0.5, utility=0.5, score=score, criticism="More.",
        accepted=accepted,
    )  # fmt: skip


def told(first: str, answer: str, *judged: Critique, stopped_by: str = "max_critic") -> Told:
    response: Any = AskResponse.model_construct(
        answer=answer, critique=list(judged), stopped_by=stopped_by, candidates=[], degraded=[],
        usage=AskResponse.model_fields["usage"].annotation(scored_pairs=7),  # type: ignore[misc]
    )  # fmt: skip
    return Told(response, {0: first}, 0.5)


@pytest.mark.parametrize(
    ("before", "after", "stopped_by", "kind"),
    [
        ({0}, {0, 1}, "max_critic", "improved"),
        ({0}, {0}, "unchanged", "left"),
        ({0}, {1}, "max_critic", "worse"),
        ({0, 1}, {1}, "budget", "worse"),
        ({0}, set(), "no_evidence", "refused"),
    ],
)
def test_a_rejected_draft_is_judged_by_its_facts(
    before: set[int], after: set[int], stopped_by: str, kind: str
) -> None:
    response = told("", "", critique(0), stopped_by=stopped_by).response
    assert kind_of(response, frozenset(before), frozenset(after)) == kind


def test_what_was_not_rejected_is_neither_improved_nor_left() -> None:
    facts = frozenset[int]()
    accepted = told("", "", critique(0, accepted=True), stopped_by="accepted")
    assert kind_of(accepted.response, facts, facts) == "accepted"
    assert kind_of(told("", "", stopped_by="no_evidence").response, facts, facts) == "no draft"
    assert kind_of(told("", "", stopped_by="answered").response, facts, facts) == "not judged"


def test_the_answer_is_the_earliest_of_the_best_drafts() -> None:
    judged = [critique(0, 1.0), critique(1, 2.0), critique(2, 2.0)]
    assert best_of(judged).round == 1


def test_the_counts_of_a_workflow_add_up_and_are_reported() -> None:
    rows = [
        row_of(ASKED, told("87 metres.", "87 metres and nine.", critique(0), critique(1, 2.0))),
        row_of(ASKED, told("87 metres.", "Nine.", critique(0))),
        row_of(ASKED, told("Nine, 87 metres.", "Nine, 87 metres.", critique(0, accepted=True),
                           stopped_by="accepted")),
    ]  # fmt: skip
    found = summary(rows)
    assert (found["rejected"], found["improved"], found["worse"], found["accepted"]) == (2, 1, 1, 1)
    assert (found["accepted_whole"], found["whole_before"], found["whole_after"]) == (1, 1, 2)
    assert (found["parts_before"], found["parts_after"], found["answerable_parts"]) == (4, 5, 6)
    asked = {"half": "dev", "workflows": {"self_rag": {"en": found}, "rag": {"en": found}}}
    text = report({"command": "so", "cores": 2, "evaluator": "t5", "questions": asked})
    assert "| – improved (a fact came in, none was lost) | 1 |" in text
    assert "5 of 6 (83%)" in text


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
