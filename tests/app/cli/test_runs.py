"""`selfcrag runs`: traces told again from the database alone, compared, judged, exported."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from click.testing import Result
from rich.cells import cell_len
from typer.testing import CliRunner

from app.cli.main import cli
from app.cli.runs import training_rows
from app.settings import Settings
from evaluator.data.file_formats import PAIR, recognised
from evaluator.data.records import read_folder
from tests import fakes
from tests.app.serving import Serve, Serving
from tests.umbra import CHINESE, ENGLISH, TOWER, TURM

Command = Callable[..., Result]

GATE = fakes.passage("How tall the red gate of Umbra is nobody knows.", 3)


@pytest.fixture
def serving(tmp_path: Path, serve: Serve) -> Serving:
    parts = fakes.services(fakes.FakeRetriever([TOWER, TURM, GATE]))
    return serve(parts, Settings(_env_file=None, data_dir=tmp_path))


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clean_environment: None) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("SELFCRAG_DATA_DIR", str(tmp_path))
    return lambda *words: CliRunner().invoke(cli, ["runs", *words])


def written(serving: Serving, path: str = "/runs") -> httpx.Response:
    """Whoever asks the service itself finds all of it written; the database may lag behind."""
    return serving.client.get(path)


def test_runs_are_listed(serving: Serving, command: Command) -> None:
    first, second = (serving.ask(question)["run_id"] for question in (ENGLISH, CHINESE))
    written(serving)
    lines = command("list").stdout.splitlines()

    assert lines[1].startswith(second[:8])
    assert CHINESE in lines[1]
    assert lines[2].startswith(first[:8])
    assert "… and 1 more" in command("list", "-n", "1").stdout


@pytest.mark.parametrize("question", [ENGLISH, CHINESE])
def test_a_long_question_takes_no_other_column_s_place(
    serving: Serving, command: Command, monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    long = " ".join([question] * 20)
    run_id = serving.ask(long)["run_id"]
    written(serving)
    monkeypatch.setenv("COLUMNS", "80")
    assert long in command("list").stdout.splitlines()[1], "whole in a pipe"
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("NO_COLOR", "1")
    head, line = command("list").stdout.splitlines()[:2]
    for told in (run_id[:8], "self_crag", "done", "…"):
        assert told in line
    assert all(name in head for name in ("run", "when", "workflow", "status", "stopped by"))
    assert cell_len(line) <= 80


@pytest.mark.parametrize("question", [ENGLISH, CHINESE])
def test_a_run_is_told_again(serving: Serving, command: Command, question: str) -> None:
    """Without the service's settings: no model could be called."""
    answer = serving.ask(question, workflow="crag")
    kept = written(serving, f"/runs/{answer['run_id']}").json()
    told = command("show", answer["run_id"][:10])

    assert told.exit_code == 0, told.output
    assert question in told.stdout
    assert answer["answer"] in told.stdout
    assert ("correct (best" if question == ENGLISH else "正确（最高") in told.stdout
    assert "grade" in told.stdout
    trace = json.loads(command("show", "--json", answer["run_id"]).stdout)
    assert trace == kept


def test_an_unknown_run_is_one_clear_line(command: Command) -> None:
    for words in (("show", "abc"), ("show", "%"), ("diff", "abc", "abd"), ("feedback", "abc", "1")):
        result = command(*words)
        assert result.exit_code == 1
        assert result.stderr.count("\n") == 1
        assert "There is no run" in result.stderr


def test_what_changed_is_told(serving: Serving, command: Command) -> None:
    first = serving.ask(ENGLISH, workflow="crag")["run_id"]
    options = {"ablation": {"only_action": "incorrect"}, "web": "never"}
    second = serving.ask(ENGLISH, workflow="crag", options=options)["run_id"]
    written(serving)
    told = command("diff", first, second).stdout

    assert "options.ablation: None → {'only_action': 'incorrect'}" in told
    assert "action: correct → incorrect" in told
    assert "stopped_by: answered → no_evidence" in told
    assert "87 metres" in told


def test_feedback_becomes_rows_that_train(
    serving: Serving, command: Command, tmp_path: Path
) -> None:
    good = serving.ask(ENGLISH, workflow="crag")["run_id"]
    bad = serving.ask(CHINESE, workflow="crag")["run_id"]
    written(serving)
    assert command("feedback", good, "1").exit_code == 0
    assert command("feedback", "--comment", "错了。", "--", bad, "-1").exit_code == 0
    folder = tmp_path / "rows"
    folder.mkdir()
    told = command("export", str(folder / "feedback.jsonl"))
    assert "of 2 judged answers" in told.stdout

    known, rows = recognised(folder / "feedback.jsonl")
    labels = {row.text("passage"): row.label(row.raw["label"]) for row in rows}
    assert known is PAIR
    assert labels[TOWER.text] is True
    assert labels[TURM.text] is False
    assert {record.language for record in read_folder(folder)} == {"en", "zh"}
    assert "is there already" in command("export", str(folder / "feedback.jsonl")).stderr


def test_a_score_out_of_range_is_refused(serving: Serving, command: Command) -> None:
    run_id = serving.ask(ENGLISH)["run_id"]
    written(serving)
    assert "score" in command("feedback", run_id, "7").stderr


def asked(**fields: object) -> dict[str, object]:
    cited = {"text": "It was built in 1901.", "title": "Gate"}
    strips = [
        {"text": "It was built in 1901.", "document_id": "a"},
        {"text": "It is 87 metres tall, they say.", "document_id": "b"},
    ]
    documents = [{"id": "b", "title": "Tower"}]
    told = {"answer": "It was built in 1901. [1]", "citations": [cited], "strips": strips}
    return {**told, "documents": documents, **fields}


def said(score: float, corrected: str | None = None) -> dict[str, object]:
    return {"question": ENGLISH, "score": score, "corrected_answer": corrected}


def test_a_corrected_answer_finds_its_passage() -> None:
    rows = training_rows([(said(-1, "87 metres tall"), asked())])
    assert {row["passage"]: row["label"] for row in rows} == {
        "It was built in 1901.": False,
        "It is 87 metres tall, they say.": True,
    }
    assert rows[0]["title"] == "Gate" or rows[1]["title"] == "Gate"


def test_later_feedback_wins_and_none_says_nothing() -> None:
    assert training_rows([(said(0), asked())]) == []
    rows = training_rows([(said(1), asked()), (said(-1), asked())])
    assert [row["label"] for row in rows] == [False]
    assert rows[0]["answer"] == "It was built in 1901."


@pytest.mark.parametrize(
    ("followup", "gate", "tower"),
    [
        ("How tall is it?", "How tall is the gate?", "How tall is the tower?"),
        ("它有多高？", "城门有多高？", "高塔有多高？"),
    ],
)
def test_a_followup_is_kept_as_the_question_that_stands_alone(
    followup: str, gate: str, tower: str
) -> None:
    feedback = [{**said(score), "question": followup} for score in (1, -1)]
    answers = [asked(standalone_question=question) for question in (gate, tower)]
    rows = training_rows(zip(feedback, answers, strict=True))
    assert {row["question"]: row["label"] for row in rows} == {gate: True, tower: False}
