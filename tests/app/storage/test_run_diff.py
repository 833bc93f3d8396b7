"""What changed between two traces, as a function of the traces alone."""

import copy
from typing import Any

import pytest

from app.storage.run_diff import difference, words

ANSWER: dict[str, Any] = {
    "answer": "It is 87 metres tall [1].",
    "action": "correct",
    "rewritten_query": None,
    "stopped_by": "accepted",
    "retrieval": None,
    "documents": [
        {"id": "a", "title": "Tower", "score": 0.9},
        {"id": "b", "title": "Gate", "score": -0.2},
    ],
    "strips": [{"id": "a1", "text": "It is 87 metres tall.", "kept": True}],
    "candidates": [{"n": 1, "answer": "It is 87 metres tall [1]."}],
    "critique": [
        {
            "round": 0,
            "relevance": 1.0,
            "support": 0.9,
            "utility": 0.8,
            "score": 2.0,
            "criticism": "",
            "accepted": True,
        }
    ],
    "models": {"generator": "extractive"},
    "usage": {"llm_calls": 0},
    "timings_ms": {"grade": 12.0},
}
TRACE: dict[str, Any] = {
    "run_id": "1",
    "workflow": "self_crag",
    "status": "done",
    "request": {"question": "How tall is it?", "options": {}},
    "thresholds": {"upper": 0.5},
    "answer": ANSWER,
    "events": [
        {"name": "step", "data": {"path": [name], "phase": "start"}}
        for name in ("retrieve", "grade", "refine")
    ],
}


@pytest.fixture
def other() -> dict[str, Any]:
    return copy.deepcopy(TRACE) | {"run_id": "2"}


def test_equal_runs_do_not_differ(other: dict[str, Any]) -> None:
    found = difference(TRACE, other).model_dump()
    assert found.pop("runs") == ("1", "2")
    assert found.pop("took_ms") == [{"name": "grade", "before": 12.0, "after": 12.0}]
    assert not any(found.values()), found


def test_every_part_that_differs_is_told(other: dict[str, Any]) -> None:
    answer = other["answer"]
    other["request"]["options"] = {"upper": 0.95}
    answer |= {"action": "ambiguous", "rewritten_query": "tower, height"}
    answer["documents"] = [{"id": "a", "title": "Tower", "score": 0.4}]
    answer["strips"][0]["kept"] = False
    answer["candidates"][0]["answer"] = "It is about 87 metres tall [1]."
    answer["critique"][0] |= {"support": 0.3, "accepted": False}
    other["events"].insert(2, {"name": "step", "data": {"path": ["rewrite"], "phase": "start"}})
    found = difference(TRACE, other)

    assert [(c.name, c.before, c.after) for c in found.request] == [("options.upper", None, 0.95)]
    assert {c.name: c.after for c in found.decided} == {
        "action": "ambiguous",
        "rewritten_query": "tower, height",
    }
    assert [(g.id, g.before, g.after) for g in found.grades] == [("a", 0.9, 0.4), ("b", -0.2, None)]
    assert [(s.id, s.before, s.after) for s in found.strips] == [("a1", "kept", "dropped")]
    assert [(w.kind, w.text) for w in found.drafts[0].words if w.kind != "same"] == [
        ("added", "about ")
    ]
    assert {c.name for c in found.critique} == {"round 0 support", "round 0 accepted"}
    assert [(w.kind, w.text) for w in found.path if w.kind != "same"] == [("added", "rewrite")]
    assert found.answer == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("How do I change the deadline?", "How do I change the threshold?"),
        ("期限怎么改？", "阈值怎么改？"),
        (None, "How do I change the deadline?"),
    ],
)
def test_the_same_words_that_were_understood_in_two_ways_differ(
    other: dict[str, Any], before: str | None, after: str
) -> None:
    first = copy.deepcopy(TRACE)
    first["answer"]["standalone_question"] = before
    other["answer"]["standalone_question"] = after
    found = difference(first, other)

    assert found.request == []
    decided = [(change.name, change.before, change.after) for change in found.decided]
    assert decided == [("standalone_question", before, after)]


def test_a_run_without_an_answer_can_be_compared(other: dict[str, Any]) -> None:
    other |= {"answer": None, "status": "lost"}
    found = difference(TRACE, other)
    assert ("status", "done", "lost") in [(c.name, c.before, c.after) for c in found.decided]
    assert [w.kind for w in found.answer] == ["removed"]


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("The tower is tall.", "The tower is very tall.", [("added", "very ")]),
        ("红塔高八十米。", "红塔高八十七米。", [("added", "七")]),
        ("", "New.", [("added", "New.")]),
        ("same", "same", []),
    ],
)
def test_texts_are_compared_word_by_word(
    before: str, after: str, changed: list[tuple[str, str]]
) -> None:
    found = words(before, after)
    assert [(piece.kind, piece.text) for piece in found if piece.kind != "same"] == changed
    assert "".join(piece.text for piece in found if piece.kind != "removed") == after
    assert "".join(piece.text for piece in found if piece.kind != "added") == before
