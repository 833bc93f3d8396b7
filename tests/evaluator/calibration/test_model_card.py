import json
from dataclasses import asdict
from pathlib import Path

import pytest

from evaluator.calibration import fusion
from evaluator.calibration.model_card import keep_figures, write_card
from evaluator.calibration.thresholds import store
from evaluator.inference.fusion import FusionWeights
from evaluator.schema import CalibratedThresholds
from evaluator.training.train import TrainOptions


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
    fusion.store(FusionWeights(scale=0.5, shift=-1.25, questions=200), folder)
    path = write_card(folder)
    assert path is not None
    card = path.read_text(encoding="utf-8")
    assert "the logistic of 0.5 x evidence - 1.25, found on 200 questions" in card
    assert "--minutes 3 --rows 10 --seed 7 --layers 12 --init none" in card
    assert "| relevance rivers | 0.750 | 12 |" in card
    assert "| unseen | 20 | 0.900 | 0.800 | - | 0.700 | 0.600 | - |" in card


@pytest.mark.parametrize(
    ("source", "told", "untold"),
    [
        (
            {"pool": {"scale": 0.8, "standing": 45.0, "shift": -1.9}},
            ["0.8 x the logit", "45 x (near", "- 1.9."],
            ["alone"],
        ),
        (
            {"source": "questions"},
            ["graded alone", "calibrate --questions FILE"],
            ["--data", "held-back"],
        ),
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
    store(CalibratedThresholds.model_validate({**kept, "evaluator": "", **source}), folder)
    path = write_card(folder)
    assert path is not None
    card = path.read_text(encoding="utf-8").partition("## Thresholds")[2]
    assert "--ambiguous-cost 0 --least-precision 0.9 --strips-kept 0.8" in card
    assert all(words in card for words in told)
    assert not any(words in card for words in untold)
