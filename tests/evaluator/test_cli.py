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


@pytest.mark.parametrize("named", [True, False])
def test_calibrate_writes_thresholds_for_the_weights_named_or_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    weights = tmp_path / "weights"
    shutil.copytree(WEIGHTS, weights, ignore=shutil.ignore_patterns("thresholds.*"))
    rows = [
        {"question": "How long is the river?", "passage": "The river is 9 km long.", "label": 1},
        {"question": "Who bakes the bread?", "passage": "The river is 9 km long.", "label": -1},
    ]
    feedback = tmp_path / "feedback.jsonl"
    feedback.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    arguments = ["calibrate", "--questions", str(feedback), *(["--weights", str(weights)] * named)]
    monkeypatch.setenv("SELFCRAG_EVALUATOR_WEIGHTS", str(tmp_path if named else weights))
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    assert "needless searches" in result.output
    found = load_thresholds(weights)
    assert found.lower <= found.upper
    assert found.figures["en_questions"] == 2
    assert found.source == "questions"
    assert (weights / "thresholds.png").exists()
    assert not (weights / "README.md").read_text(encoding="utf-8").startswith("# The shipped")


def test_an_expected_failure_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["selfcrag-evaluator", "bench", "--weights", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert "config.json is missing" in str(stopped.value)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["export", "measure", "bench"])
def test_the_configured_weights_are_those_of_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("SELFCRAG_EVALUATOR_WEIGHTS", str(tmp_path / "mine"))
    result = CliRunner().invoke(cli.app, [command, *(["x.jsonl"] if command == "measure" else [])])
    assert isinstance(result.exception, EvaluatorError)
    assert f"{tmp_path / 'mine'} (config.json is missing)" in str(result.exception)


@pytest.mark.parametrize("flag", ["--json", "--plot"])
def test_bench_measures_nothing_that_it_could_not_write(tmp_path: Path, flag: str) -> None:
    result = CliRunner().invoke(cli.app, ["bench", flag, str(tmp_path / "nowhere" / "x.png")])
    assert isinstance(result.exception, EvaluatorError)
    assert "nowhere is no folder" in str(result.exception)


def test_arguments_that_are_no_utf8_are_refused() -> None:
    for arguments in (["how?", "it is \udcff"], ["河\udcff", "很长"]):
        result = CliRunner().invoke(cli.app, ["score", *arguments])
        assert isinstance(result.exception, EvaluatorError)
        assert "must be UTF-8" in str(result.exception)
