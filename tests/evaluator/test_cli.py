import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluator import cli
from evaluator.errors import EvaluatorError
from evaluator.schema import load_thresholds
from evaluator.settings import WEIGHTS


def test_score_prints_a_line_a_passage() -> None:
    arguments = ["score", "How long is the river?", "The river is 212 km long.", "Bread is baked."]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.output.splitlines()]
    assert lines[0]["score"] > lines[1]["score"]
    assert lines[0]["passage"] == "The river is 212 km long."


def test_calibrate_needs_one_source() -> None:
    result = CliRunner().invoke(cli.app, ["calibrate"])
    assert isinstance(result.exception, EvaluatorError)


def test_calibrate_writes_thresholds_for_the_weights(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    shutil.copytree(WEIGHTS, weights, ignore=shutil.ignore_patterns("thresholds.*"))
    rows = [
        {"question": "How long is the river?", "passage": "The river is 9 km long.", "label": 1},
        {"question": "Who bakes the bread?", "passage": "The river is 9 km long.", "label": -1},
    ]
    feedback = tmp_path / "feedback.jsonl"
    feedback.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    arguments = ["calibrate", "--weights", str(weights), "--questions", str(feedback)]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    assert "needless searches" in result.output
    found = load_thresholds(weights)
    assert found.lower <= found.upper
    assert found.figures["en_questions"] == 2
    assert (weights / "thresholds.png").exists()


def test_an_expected_failure_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["selfcrag-evaluator", "bench", "--weights", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert "config.json is missing" in str(stopped.value)
    assert "Traceback" not in capsys.readouterr().err
