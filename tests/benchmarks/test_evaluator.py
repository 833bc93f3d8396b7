from typing import Any

import pytest

from benchmarks.evaluator.ratchet import changes, kept
from benchmarks.evaluator.relevance import Seen
from evaluator.calibration.evaluate import Contest
from evaluator.data.records import Record

LONG = " ".join(f"word{n}" for n in range(30))


def record(question: str, passage: str) -> Record:
    return Record("set", "en", question, ("x",), True, "", passage)


def test_what_training_has_seen_is_found_whatever_its_dress() -> None:
    tests = [
        record("Who built it?", "It was built by Ann."),
        record("Where is it?", "It is in the north , they say ."),
        record("When was it?", f"A new beginning. {LONG}"),
        record("Why was it?", "Nobody knows why it was."),
    ]
    training = [
        record("who built it", "Another passage altogether."),
        record("Something else?", "It is in the North, they say."),
        record("Something more?", f"{LONG} and a new end."),
    ]
    seen = Seen(tests, training)
    assert seen.counts() == {
        "questions": 4, "question": 1, "passage": 1, "overlapping": 1, "any": 3,
        "files": {"set": 1},
    }  # fmt: skip
    assert not seen.has(Contest("Why was it?", ("Nobody knows why it was.",)))
    assert seen.has(Contest("Why else?", (f"A new beginning. {LONG}",)))


def _kept(rows: str) -> dict[str, Any]:
    value = rows.count("9") / len(rows)
    kinds = {"zh": {"negated": {"above": 1 - value, "outcomes": rows}}}
    return kept({"kinds": kinds}, "sha256:0")


@pytest.mark.parametrize(
    ("now", "fell"), [("9" * 14 + "0" * 6, True), ("9" * 17 + "0" * 3, False), ("9" * 20, False)]
)
def test_a_figure_falls_where_more_rows_are_lost_than_by_chance(now: str, fell: bool) -> None:
    (change,) = changes(_kept("9" * 19 + "0"), _kept(now))
    assert change.fell is fell
    assert (change.gained, change.lost) == (int(now[-1] == "9"), now[:19].count("0"))


def test_a_figure_whose_rows_are_not_known_may_not_fall_at_all() -> None:
    before = _kept("9" * 20) | {"outcomes": {}}
    (change,) = changes(before, _kept("9" * 19 + "0"))
    assert change.fell
