import json
import random
from pathlib import Path

import pytest

from evaluator.calibrate import (
    LabelledQuestion,
    calibrate,
    draw,
    read_questions,
    store,
    write_questions,
)
from evaluator.errors import DataError
from evaluator.questions import build_questions
from evaluator.records import Record
from evaluator.schema import load_thresholds, weights_digest


def questions(count: int) -> list[LabelledQuestion]:
    """Scores are spelt in the passages: answering ones lie high, others low, some between."""
    dice = random.Random(0)
    made = []
    for number in range(count):
        answered = number % 2 == 0
        best = dice.gauss(0.6, 0.3) if answered else dice.gauss(-0.6, 0.3)
        asked = "多长？" if number % 4 < 2 else "How long?"
        strips = [str(dice.uniform(-0.5, 1))] if answered else []
        made.append(LabelledQuestion(asked, [str(best), "-0.99"], [answered, False], strips))
    return made


def spelt(pairs: object) -> list[float]:
    assert isinstance(pairs, list)
    return [float(passage) for _, passage in pairs]


def test_thresholds_reach_their_precisions_in_both_languages() -> None:
    thresholds, _ = calibrate(questions(400), spelt)
    assert thresholds.lower <= thresholds.upper
    assert -0.6 < thresholds.strip_floor < -0.3
    for language in ("en", "zh"):
        assert thresholds.figures[f"{language}_correct_precision"] >= 0.9
        assert thresholds.figures[f"{language}_incorrect_precision"] >= 0.95
        assert thresholds.figures[f"{language}_questions"] == 200
        assert thresholds.figures[f"{language}_accuracy"] > 0.8


def test_perfect_scores_leave_no_inverted_band() -> None:
    perfect = [
        LabelledQuestion("How?", ["0.9" if n % 2 else "-0.9"], [bool(n % 2)], []) for n in range(20)
    ]
    thresholds, _ = calibrate(perfect, spelt)
    assert -0.9 < thresholds.lower < -0.8
    assert thresholds.upper == 0.9
    assert thresholds.figures["en_accuracy"] == 1.0


def test_stored_thresholds_belong_to_the_weights(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    thresholds, outcomes = calibrate(questions(40), spelt)
    store(thresholds, tmp_path)
    assert load_thresholds(tmp_path).evaluator == weights_digest(tmp_path)
    draw(outcomes, thresholds, tmp_path / "thresholds.png")
    assert (tmp_path / "thresholds.png").read_bytes().startswith(b"\x89PNG")


def test_questions_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    write_questions(path, questions(5))
    assert read_questions(path) == questions(5)


GOOD = {"question": "How?", "passages": ["so"], "labels": [True]}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("{", ":2 is no labelled question"),
        (json.dumps({**GOOD, "labels": []}), ":2: 1 passages, but 0 labels"),
        (json.dumps({**GOOD, "labels": ["yes"]}), ":2: labels must be true or false"),
        (json.dumps({**GOOD, "question": ""}), ":2: question must"),
    ],
)
def test_faults_name_file_and_line(tmp_path: Path, row: str, words: str) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + row + "\n", encoding="utf-8")
    with pytest.raises(DataError, match=words):
        read_questions(path)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="is empty"):
        read_questions(path)


def test_built_questions_lose_their_gold_every_second_time() -> None:
    records = [
        Record(
            "made", "en", f"How long is the river Ab{n}?", (f"{n}77 km",), True, f"Ab{n}",
            f"The river Ab{n} is {n}77 km long. Hills stand around it.",
        )
        for n in range(30)
    ]  # fmt: skip
    built = build_questions(records, seed=1, most=60)
    answered = sum(any(question.labels) for question in built)
    assert 10 <= answered <= 15
    assert len(built) - answered == 15
    assert all(len(question.passages) <= 10 for question in built)
