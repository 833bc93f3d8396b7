"""Lines of the log: one for a run's end and one for each failure, as text or JSON, never a text."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.main import log_config
from app.observability.logging import JsonFormatter, RunLog, Seldom, TextFormatter
from app.schemas import ask
from app.settings import Settings
from graphs.ports import Services
from tests import fakes
from tests.app.keys import key_of
from tests.app.serving import Serve, Serving, app_of
from tests.umbra import ENGLISH, TOWER


class Written:
    """What was written in a form, a line each."""

    def __init__(self, out: io.StringIO) -> None:
        self._out = out

    @property
    def text(self) -> str:
        return self._out.getvalue()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    def of_runs(self, message: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["message"] == message]


def writing(formatter: logging.Formatter) -> Iterator[Written]:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter)
    log = logging.getLogger("app.runs")
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield Written(out)
    log.removeHandler(handler)
    log.setLevel(level)


@pytest.fixture
def as_json() -> Iterator[Written]:
    yield from writing(JsonFormatter())


@pytest.fixture
def as_text() -> Iterator[Written]:
    yield from writing(TextFormatter("%(levelname)s %(message)s"))


def parts(**changed: Any) -> Services:
    return fakes.services(fakes.FakeRetriever([TOWER]), **changed)


def test_a_run_that_ended_is_one_line(serve: Serve, as_json: Written) -> None:
    answer = serve(parts()).ask(ENGLISH, workflow="crag")

    (line,) = as_json.of_runs("run ended")
    assert line["level"] == "info"
    assert line["run_id"] == answer["run_id"]
    assert line["thread_id"] == answer["thread_id"]
    assert line["workflow"] == "crag"
    assert line["action"] == answer["action"]
    assert line["stopped_by"] == answer["stopped_by"]
    assert line["verdict"] == answer["verdict"]
    assert line["took_ms"] > 0
    assert "degraded" not in line
    assert len(line["request_id"]) == 32


def test_each_part_that_failed_is_a_line_of_its_own(serve: Serve, as_json: Written) -> None:
    evaluator = fakes.FakeEvaluator(fails_from_call=1)
    serve(parts(evaluator=evaluator)).ask(ENGLISH, workflow="crag")

    failures = as_json.of_runs("run degraded")
    assert {line["component"] for line in failures} >= {"evaluator"}
    assert {line["level"] for line in failures} == {"warning"}
    assert failures[0]["reason"] == "the worker is gone"
    (end,) = as_json.of_runs("run ended")
    assert end["degraded"] == sorted({line["component"] for line in failures})
    assert {line["run_id"] for line in failures} == {end["run_id"]}


def test_a_fault_of_ours_is_a_line_and_the_run_ends_as_failed(
    serve: Serve, as_json: Written
) -> None:
    serving = serve(fakes.services(fakes.BrokenRetriever()))
    options = {"retrieval": "always"}
    response = serving.client.post("/ask", json={"question": ENGLISH, "options": options})

    assert response.status_code == 500
    (failure,) = as_json.of_runs("run failed")
    assert (failure["level"], failure["status"]) == ("error", 500)
    (end,) = as_json.of_runs("run ended")
    assert end["stopped_by"] == "failed"
    assert end["run_id"] in response.json()["detail"]


def test_no_text_is_told_whoever_logs(
    serve: Serve, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    level, own = root.level, [logging.getLogger(it) for it in ("app", "evaluator", "graphs")]
    monkeypatch.setattr(root, "handlers", [])
    log_config("debug")
    try:
        serving = serve(parts())
        answer = serving.ask(ENGLISH, workflow="crag")
        assert "87 metres" in answer["answer"]
        said = {"score": -1, "comment": "Umbra lies elsewhere", "corrected_answer": "90 metres"}
        assert (
            serving.client.post(f"/runs/{answer['run_id']}/feedback", json=said).status_code == 201
        )
    finally:
        root.setLevel(level)
        for log in own:
            log.setLevel(logging.NOTSET)
    told = capsys.readouterr().err
    assert "run ended" in told
    assert "workflow=crag" in told
    for secret in ("Umbra", "metres", "tower", "elsewhere"):
        assert secret not in told


def test_text_is_one_line_of_names_and_values(as_text: Written) -> None:
    log = logging.getLogger("app.runs")
    fields = {"a": "b", "reason": 'two "words"\nand more', "n": 1.5, "parts": ["x", "y"], "no": ""}
    log.warning("told", extra={"fields": fields})
    assert as_text.text == (
        'WARNING told a=b reason="two \\"words\\"\\nand more" n=1.5 parts=x,y\n'
    )


def test_a_traceback_stays_in_its_json_line(as_json: Written) -> None:
    try:
        raise ValueError("nothing")
    except ValueError:
        logging.getLogger("app.runs").exception("it %s", "failed")
    (line,) = as_json.lines
    assert line["message"] == "it failed"
    assert line["exception"].endswith("ValueError: nothing")


def test_a_run_that_is_stopped_ended_as_cancelled(as_json: Written) -> None:
    run_log = RunLog()
    problem = ask.Problem(title="Stopped", status=503, detail="")
    run_log.observe("r", ask.RunEvent(run_id="r", thread_id="t", workflow="rag", owner="ann"))
    run_log.observe("r", ask.ErrorEvent(problem=problem))
    run_log.observe("r", ask.DoneEvent())

    (line,) = as_json.lines
    assert (line["stopped_by"], line["owner"], line["level"]) == ("cancelled", "ann", "info")


def test_what_repeats_without_end_is_written_once_a_minute() -> None:
    seldom = Seldom("no room")
    repeated = logging.makeLogRecord({"msg": "no room for %s", "args": ("it",)})
    other = logging.makeLogRecord({"msg": "something else"})
    assert [seldom.filter(record) for record in (repeated, repeated, other, other)] == [
        True, False, True, True,
    ]  # fmt: skip


def test_the_owner_of_a_key_is_told(tmp_path: Path, as_json: Written) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path)
    key = key_of(tmp_path, "ann")
    with Serving(app_of(parts(), settings)) as serving:
        serving.client.headers["x-api-key"] = key
        serving.ask(ENGLISH, workflow="crag")

    (line,) = as_json.of_runs("run ended")
    assert line["owner"] == "ann"
    assert key not in str(as_json.text)
