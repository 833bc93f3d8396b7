import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from evaluator.calibration.evaluate import auc_interval, contests, measure
from evaluator.data.hard_negatives import WordNeighbours
from evaluator.data.records import Record
from evaluator.errors import DataError

KINDS = ("river", "road", "wall", "canal", "tunnel", "bridge", "fence", "dike")


def test_a_perfect_and_a_blind_scorer(tmp_path: Path) -> None:
    file = tmp_path / "lengths.jsonl"
    rows = [
        {
            "question": f"How long is the {kind} {n}?", "answers": [f"{n}{n}7 km"],
            "answerable": True, "title": "", "passage": f"The {kind} {n} is {n}{n}7 km long.",
        }
        for n in range(8)
        for kind in KINDS
    ]  # fmt: skip
    file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")

    def perfect(pairs: list[tuple[str, str]]) -> list[float]:
        return [float(q.rstrip("?").split()[4:6] == p.split()[1:3]) for q, p in pairs]

    figures = measure(file, perfect, max_questions=20, seed=1)
    assert figures["questions"] == 20
    assert figures["pairs"] == 100
    assert figures["auc_evaluator"] == figures["first_evaluator"] == 1.0
    blind = measure(file, lambda pairs: [0.0] * len(pairs), max_questions=20, seed=1)
    assert blind["auc_evaluator"] == 0.5
    assert blind["first_evaluator"] == 0.0
    assert blind["auc_bm25"] > 0.8


def test_nothing_to_measure_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"passage": "alone"}\n', encoding="utf-8")
    with pytest.raises(DataError, match="no answerable questions"):
        measure(tmp_path / "x.jsonl", lambda _: [], max_questions=5, seed=1)


def test_the_interval_is_seeded_and_holds_the_auc() -> None:
    rng = np.random.default_rng(3)
    labels = [True, False, False] * 40
    values = rng.normal(size=120) + np.array(labels)
    owners = [number for number in range(40) for _ in range(3)]
    auc, low, high = auc_interval(labels, values, owners, seed=1)
    assert auc == pytest.approx(roc_auc_score(labels, values))
    assert 0.5 < low < auc < high < 1
    assert auc_interval(labels, values, owners, seed=1) == (auc, low, high)


def test_one_class_has_no_auc() -> None:
    with pytest.raises(DataError, match="both classes"):
        auc_interval([True, True], np.array([0.1, 0.2]), [0, 1], seed=1)


def test_another_passage_that_answers_is_no_negative() -> None:
    def record(question: str, passage: str, answer: str) -> Record:
        return Record("s", "en", question, (answer,), True, "", passage)

    rows = [
        record(f"Where is lake {n}?", f"Lake {n} is in land {n}.", f"land {n}") for n in "abcdefg"
    ]
    twice = record("Where is lake a?", "The lake called a: where it is, land x says.", "land x")
    answering = record("Who owns lake a?", "Lake a, lake a: it lies in land a and is Eve's.", "Eve")
    found = contests([*rows, twice, answering], max_questions=20, seed=1)
    of_a = [contest for contest in found if contest.question == "Where is lake a?"]
    assert len(of_a) == 2
    for contest in of_a:
        assert len(contest.passages) == 5
        assert not {rows[0].passage, twice.passage} & set(contest.passages[1:])
    first = next(contest for contest in of_a if contest.passages[0] == rows[0].passage)
    assert answering.passage not in first.passages


def test_a_question_without_a_known_word_has_neighbours_too() -> None:
    near = WordNeighbours(["tall tower", "deep well", "wide gate"])
    assert [len(numbers) for numbers in near.nearest(["zzz", "tower"], 2)] == [2, 2]
    assert near.nearest(["tower"], 1) == [[0]]
