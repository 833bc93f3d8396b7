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
