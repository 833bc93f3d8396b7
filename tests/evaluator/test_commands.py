import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from evaluator import commands
from evaluator.calibration.thresholds import store
from evaluator.errors import EvaluatorError
from evaluator.inference.fusion import FusedScorer, FusionWeights, load_weights
from evaluator.inference.scorer import load_scorer, scores_of
from evaluator.model.checkpoint import CENTRE_FILE, ENCODER_FOLDER, load_thresholds
from evaluator.schema import CalibratedThresholds
from evaluator.settings import EvaluatorSettings
from tests.evaluator.calibration.test_model_card import made_by_training
from tests.evaluator.tiny import tiny_e5


def test_score_prints_a_line_a_passage(monkeypatch: pytest.MonkeyPatch, exported: Path) -> None:
    monkeypatch.setenv("SELFCRAG_EVALUATOR_WEIGHTS", str(exported))
    question, passages = "How long is the river?", ["The river is 212 km long.", "Bread is baked."]
    result = CliRunner().invoke(commands.app, ["score", question, *passages])
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.output.splitlines()]
    scores = scores_of(load_scorer(EvaluatorSettings()))
    expected = scores("relevance", [(question, passage) for passage in passages])
    assert [line["score"] for line in lines] == pytest.approx(expected, abs=1e-4)
    assert [line["passage"] for line in lines] == passages


def test_calibrate_needs_one_source() -> None:
    result = CliRunner().invoke(commands.app, ["calibrate"])
    assert isinstance(result.exception, EvaluatorError)


@pytest.fixture
def feedback(tmp_path: Path) -> str:
    rows = [
        {"question": "How long is the river?", "passage": "The river is 9 km long.", "label": 1},
        {"question": "Who bakes the bread?", "passage": "The river is 9 km long.", "label": -1},
    ]
    file = tmp_path / "feedback.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return str(file)


def test_calibrate_needs_the_base_alone_and_the_weights_named(
    tmp_path: Path, feedback: str, exported: Path
) -> None:
    """Not bm25s, which mines the passages of training; and not the weights that are configured."""
    weights = shutil.copytree(exported, tmp_path / "weights")
    made_by_training(weights)
    without = "import sys; sys.modules['bm25s'] = None; from evaluator.commands import app; app()"
    arguments = ["calibrate", "--questions", feedback, "--weights", str(weights)]
    ended = subprocess.run(
        [sys.executable, "-c", without, *arguments],
        env=os.environ | {"SELFCRAG_EVALUATOR_WEIGHTS": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "needless searches" in ended.stdout
    stored = load_thresholds(weights)
    assert stored.lower <= stored.upper
    assert (stored.figures["en_questions"], stored.source) == (2, "questions")


def test_calibrate_heeds_the_encoder_in_the_folder(
    tmp_path: Path, feedback: str, exported: Path
) -> None:
    weights = shutil.copytree(exported, tmp_path / "weights")
    made_by_training(weights)
    kept = {"upper": 0.5, "lower": -0.5, "strip_floor": -0.5, "support": 0.3, "utility": 2.5}
    store(CalibratedThresholds.model_validate({**kept, "evaluator": ""}), weights)
    encoder = tiny_e5(weights / ENCODER_FOLDER)
    np.save(encoder / CENTRE_FILE, np.zeros(256, np.float32))
    arguments = ["calibrate", "--questions", feedback, "--weights", str(weights)]
    result = CliRunner().invoke(commands.app, arguments)
    assert result.exit_code == 0, result.output
    assert "too little for the fusion's scale" in result.output
    assert load_weights(weights) == FusionWeights()
    found = load_thresholds(weights)
    assert (found.support, found.utility) == (0.3, 2.5)
    assert isinstance(load_scorer(EvaluatorSettings(weights=weights)), FusedScorer)


@pytest.mark.parametrize("command", ["export", "measure", "bench", "calibrate"])
def test_the_configured_weights_are_those_of_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, feedback: str, command: str
) -> None:
    monkeypatch.setenv("SELFCRAG_EVALUATOR_WEIGHTS", str(tmp_path / "mine"))
    more = {"measure": ["x.jsonl"], "calibrate": ["--questions", feedback]}
    result = CliRunner().invoke(commands.app, [command, *more.get(command, [])])
    assert isinstance(result.exception, EvaluatorError)
    assert f"{tmp_path / 'mine'} (config.json is missing)" in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--json", "nowhere/x.json"], "nowhere is not a folder"),
     (["--precision", "fp16"], "fp16 is refused")],
)  # fmt: skip
def test_bench_measures_nothing_that_it_could_not_finish(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(commands.app, ["bench", *arguments])
    assert isinstance(result.exception, EvaluatorError)
    assert words in str(result.exception)


def test_arguments_that_are_no_utf8_are_refused() -> None:
    for arguments in (["how?", "it is \udcff"], ["河\udcff", "很长"]):
        result = CliRunner().invoke(commands.app, ["score", *arguments])
        assert isinstance(result.exception, EvaluatorError)
        assert "must be UTF-8" in str(result.exception)
