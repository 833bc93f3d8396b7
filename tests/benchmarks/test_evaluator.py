from benchmarks.evaluator_relevance import Seen
from benchmarks.evaluator_report import report
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


def test_the_report_shows_the_runs_that_differ_in_one_thing() -> None:
    figures = {"most": 5, "seed": 1, "minutes": 2.5, "evaluator": "t5@1", "tasks": ["relevance"]}
    runs = [
        {"name": "full", "what": "everything", "minutes": 3, "rows": 1200,
         "validation": {"rivers": {"auc": 0.91, "pairs": 7}}, "left_out": {"roads": 0.8}},
        {"name": "bare", "what": "no teacher", "minutes": 2, "rows": 900,
         "validation": {"rivers": {"auc": 0.85}}, "left_out": {}},
    ]  # fmt: skip
    text = report({**figures, "ablations": runs})
    assert "| variant | what | pairs drawn | rivers | roads, left out |" in text
    assert "| full | everything | 1,200 | 0.910 | 0.800 |" in text
    assert "| bare | no teacher | 900 | 0.850 | - |" in text
