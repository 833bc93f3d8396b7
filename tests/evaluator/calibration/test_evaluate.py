import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from evaluator.calibration.evaluate import auc_interval, contests, measure
from evaluator.calibration.model_card import keep_figures, write_card
from evaluator.calibration.thresholds import store
from evaluator.data.relevance_records import Record
from evaluator.errors import DataError
from evaluator.schema import Thresholds
from evaluator.training.options import TrainOptions

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

    figures = measure(file, perfect, most=20, seed=1, minilm=False)
    assert figures["questions"] == 20
    assert figures["pairs"] == 100
    assert figures["auc_evaluator"] == figures["first_evaluator"] == 1.0
    blind = measure(file, lambda pairs: [0.0] * len(pairs), most=20, seed=1, minilm=False)
    assert blind["auc_evaluator"] == 0.5
    assert blind["first_evaluator"] == 0.0
    assert blind["auc_bm25"] > 0.8


def test_nothing_to_measure_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"passage": "alone"}\n', encoding="utf-8")
    with pytest.raises(DataError, match="no answerable questions"):
        measure(tmp_path / "x.jsonl", lambda _: [], most=5, seed=1, minilm=False)


def test_the_interval_is_seeded_and_holds_the_auc() -> None:
    dice = np.random.default_rng(3)
    labels = [True, False, False] * 40
    values = dice.normal(size=120) + np.array(labels)
    owners = [number for number in range(40) for _ in range(3)]
    auc, low, high = auc_interval(labels, values, owners, seed=1)
    assert auc == pytest.approx(roc_auc_score(labels, values))
    assert 0.5 < low < auc < high < 1
    assert auc_interval(labels, values, owners, seed=1) == (auc, low, high)


def test_the_interval_is_that_of_plain_resampling() -> None:
    dice = np.random.default_rng(5)
    labels = list(dice.random(60) < 0.4)
    values = np.round(dice.normal(size=60), 1)  # ties among them
    owners = list(dice.integers(20, size=60))
    truth, owner = np.array(labels), np.unique(owners, return_inverse=True)[1]
    drawn = []
    for _ in range(500):
        rows = np.concatenate([np.flatnonzero(owner == g) for g in dice.integers(20, size=20)])
        if len(set(truth[rows])) == 2:
            drawn.append(roc_auc_score(truth[rows], values[rows]))
    _, low, high = auc_interval(labels, values, owners, seed=1)
    assert (low, high) == pytest.approx(tuple(np.quantile(drawn, (0.025, 0.975))), abs=0.03)


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
    found = contests([*rows, twice, answering], most=20, seed=1)
    of_a = [contest for contest in found if contest.question == "Where is lake a?"]
    assert len(of_a) == 2
    for contest in of_a:
        assert len(contest.passages) == 5
        assert not {rows[0].passage, twice.passage} & set(contest.passages[1:])
    first = next(contest for contest in of_a if contest.passages[0] == rows[0].passage)
    assert answering.passage not in first.passages


def made_by_training(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    options = TrainOptions(minutes=3, rows=10, seed=7, init="none")
    config["made_by"] = {
        "options": asdict(options),
        "data": {"rivers.jsonl": "f" * 64},
        "training": {"steps": 4, "rows_seen": 9, "minutes": 0.1, "best_step": 4},
        "validation": {"relevance rivers": {"figure": 0.75, "rows": 12}},
        "kinds": {"positive": 5},
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def test_the_card_tells_what_was_measured(folder: Path) -> None:
    made_by_training(folder)
    measured = {"questions": 20, "auc_evaluator": 0.9, "auc_bm25": 0.8, "first_evaluator": 0.7,
                "first_bm25": 0.6}  # fmt: skip
    keep_figures(folder, "unseen", measured)
    path = write_card(folder)
    assert path is not None
    card = path.read_text(encoding="utf-8")
    assert "--minutes 3 --rows 10 --seed 7 --layers 6 --init none" in card
    assert "| relevance rivers | 0.750 | 12 |" in card
    assert "| unseen | 20 | 0.900 | 0.800 | - | 0.700 | 0.600 | - |" in card


@pytest.mark.parametrize(
    ("source", "told", "untold"),
    [
        ({"source": "questions"}, ["calibrate --questions FILE"], ["--data", "held-back"]),
        ({"source": "data"}, ["calibrate --data DIR --most N", "8 held-back"], ["--questions"]),
        ({}, ["on 8 questions"], ["--data", "--questions", "held-back"]),  # of an older version
    ],
)
def test_the_card_tells_where_thresholds_come_from(
    folder: Path, source: dict[str, str], told: list[str], untold: list[str]
) -> None:
    made_by_training(folder)
    asked = {"ambiguous_cost": 0, "least_correct_precision": 0.9, "strip_floor_keeps": 0.8}
    kept = {"upper": 0.5, "lower": -0.5, "strip_floor": -0.5, "questions": 8, "figures": asked}
    store(Thresholds.model_validate({**kept, "evaluator": "", **source}), folder)
    path = write_card(folder)
    assert path is not None
    card = path.read_text(encoding="utf-8").partition("## Thresholds")[2]
    assert "--ambiguous-cost 0 --least-precision 0.9 --strips-kept 0.8" in card
    assert all(words in card for words in told)
    assert not any(words in card for words in untold)
