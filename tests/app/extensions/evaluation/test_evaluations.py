"""Evaluations through the service and the command line, over the small knowledge base."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli.main import cli
from tests import fakes
from tests.app.serving import Serving, app_of

QUESTIONS = [
    {"id": "1", "question": "What does the upper threshold decide?", "answers": ["Correct"]},
    {"id": "2", "question": "谁写了《红楼梦》？", "answerable": False},
]
CSV = "question,answer,answerable\nWhat burns?,whale oil|tallow,\nWho sang?,,false\n"


@pytest.fixture
def state(data_dir: Path, monkeypatch: pytest.MonkeyPatch, clean_environment: None) -> None:
    """The small knowledge base for commands, without the web."""
    monkeypatch.setenv("SELFCRAG_DATA_DIR", str(data_dir))
    monkeypatch.setenv("SELFCRAG_SEARCH", "off")


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    with Serving(app_of(fakes.services(fakes.FakeRetriever([LAMP])))) as serving:
        yield serving


LAMP = fakes.passage("The lamp burns whale oil.", 1)
STRICT = 'strict=crag:upper=0.9,expand=["decompose","rewrite"],web=never'
VARIANTS = [{"name": "plain", "workflow": "rag"}, {"name": "crag", "workflow": "crag"}]


def begun(serving: Serving, **fields: Any) -> dict[str, Any]:
    response = serving.client.post("/evaluations", json={"variants": VARIANTS, **fields})
    assert response.status_code == 202, response.text
    return dict(response.json())


def ended(serving: Serving, evaluation_id: str) -> dict[str, Any]:
    ends_at = time.monotonic() + 20
    while time.monotonic() < ends_at:
        state = serving.client.get(f"/evaluations/{evaluation_id}").json()
        if state["status"] != "running":
            return dict(state)
        time.sleep(0.05)
    raise AssertionError("the evaluation did not end")


def test_a_question_set_is_measured_and_reported(serving: Serving) -> None:
    told = begun(serving, questions=CSV, name="lamps")
    assert (told["status"], told["total"]) == ("running", 4)
    state = ended(serving, told["evaluation_id"])
    assert (state["status"], state["done"], state["problem"]) == ("done", 4, None)
    plain, crag = state["results"]["variants"]
    assert (plain["measures"]["contains_gold"]["mean"], crag["failed"]) == (1.0, 0)
    assert plain["measures"]["faithfulness"]["mean"] == 1.0
    assert state["results"]["questions"]["unanswerable"] == 1
    report = serving.client.get(f"/evaluations/{told['evaluation_id']}/report?calibrate=true")
    assert report.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sh")
    assert "whale oil" in report.text
    listed = serving.client.get("/evaluations").json()
    assert told["evaluation_id"] in [each["evaluation_id"] for each in listed["evaluations"]]
    compared = {"baseline": told["evaluation_id"], "language": "zh"}
    page = serving.client.get(f"/evaluations/{told['evaluation_id']}/report", params=compared)
    assert "没有指标明显不如基线" in page.text


def test_two_evaluations_are_compared_question_by_question(serving: Serving) -> None:
    wrong = [{"id": "lamp", "question": "What burns?", "answer": "tallow"}]
    right = [{"id": "lamp", "question": "What burns?", "answer": "whale oil"}]
    old, new = (
        ended(serving, begun(serving, questions=rows)["evaluation_id"])["evaluation_id"]
        for rows in (wrong, [*right, {"id": "other", "question": "Who sang?"}])
    )
    found = serving.client.get(f"/evaluations/{new}/comparison?baseline={old}").json()
    assert (found["questions"], found["variants"]) == (1, ["plain", "crag"])
    (gold,) = (
        it
        for it in found["measures"]
        if (it["variant"], it["measure"]) == ("plain", "contains_gold")
    )
    assert (gold["before"], gold["after"], gold["difference"], gold["low"]) == (0, 1, 1, None)
    plain = found["changed"][0]
    assert (plain["question"], plain["variant"]) == ("What burns?", "plain")
    assert (plain["before"]["right"], plain["after"]["right"]) == (False, True)
    assert plain["before"]["answer"] == plain["after"]["answer"]
    unknown = serving.client.get(f"/evaluations/{new}/comparison?baseline={'0' * 32}")
    assert unknown.status_code == 404


def test_what_is_known_is_not_asked_again_and_equal_runs_have_equal_results(
    serving: Serving,
) -> None:
    rows = [{"question": "What burns?", "answers": ["whale oil"]}, {"question": "Why?"}]
    first = ended(serving, begun(serving, questions=rows)["evaluation_id"])
    before = serving.app.state.services.retriever.asked.copy()
    second = ended(serving, begun(serving, questions=rows)["evaluation_id"])
    assert second["results"] == first["results"]
    assert serving.app.state.services.retriever.asked == before
    changed = [*rows, {"question": "Whose lamp?"}]
    ended(serving, begun(serving, questions=changed)["evaluation_id"])
    assert len(serving.app.state.services.retriever.asked) == len(before) + 2
    assert serving.client.get("/runs").json()["total"] == 0


def test_a_cancelled_one_keeps_its_answers_and_is_forgotten_when_deleted(serving: Serving) -> None:
    told = begun(serving, questions=[{"question": f"Which lamp {n}?"} for n in range(40)])
    path = f"/evaluations/{told['evaluation_id']}"
    assert serving.client.post(f"{path}/cancel").json()["status"] in ("cancelled", "done")
    assert serving.client.get(f"{path}/report").status_code in (404, 200)
    assert serving.client.delete(path).status_code == 204
    assert serving.client.get(path).status_code == 404


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"questions": "question\n"}, "no question"),
        ({"questions": '{"question": "a"}\n{"question": '}, "line 2"),
        ({"questions": "lamp\rboat: x,y\n"}, "without a column"),
        ({"questions": [{"question": ""}]}, "question"),
        ({"questions": CSV, "variants": [{"name": "x", "workflow": "y"}]}, "unknown workflow"),
        ({"questions": CSV, "judge": "model"}, "no language model"),
        ({"questions": [{"id": "1", "question": "a"}, {"id": "1", "question": "b"}]}, "same id"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(
    serving: Serving, fields: dict[str, Any], said: str
) -> None:
    refused = serving.client.post("/evaluations", json={"variants": VARIANTS, **fields})
    assert refused.status_code == 422
    assert said in refused.text


@pytest.mark.usefixtures("state")
def test_the_command_reports_compares_and_makes_first_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    refused = run(cli, ["evaluate", "first.jsonl", "--make", "3", "--collection", "../docs"])
    assert "a name has 1 to 64 letters" in refused.output
    made = run(cli, ["evaluate", "first.jsonl", "--make", "3"])
    assert made.exit_code == 0, made.output
    rows = [json.loads(line) for line in Path("first.jsonl").read_text("utf-8").splitlines()]
    assert [row["generated"] for row in rows] == [True] * 3
    command = ["evaluate", "first.jsonl", "-v", "rag", "-v", STRICT]
    first = run(cli, [*command, "--out", "one", "--judge", "none"])
    assert first.exit_code == 0, first.output
    again = run(
        cli, [*command, "--out", "two", "--judge", "none", "--baseline", "one/results.json"]
    )
    assert again.exit_code == 0, again.output
    one, two = (Path(name, "results.json").read_bytes() for name in ("one", "two"))
    assert one == two
    results = json.loads(one)
    options = {"upper": 0.9, "web": "never", "expand": ["decompose", "rewrite"]}
    assert results["variants"][1]["options"] == options
    for variant in results["variants"]:
        variant["measures"]["recall"]["mean"] = 1.0
    for row in results["rows"]:
        for cell in row["variants"].values():
            cell["measures"]["recall"] = 2.0
    Path("better.json").write_text(json.dumps(results), "utf-8")
    worse = run(cli, [*command, "--judge", "none", "--baseline", "better.json"])
    assert worse.exit_code == 3, worse.output
    assert "worse: rag recall" in worse.output


@pytest.mark.usefixtures("state")
def test_questions_are_labelled_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "own.jsonl"
    question = "What does the upper threshold decide?"
    lines = [
        *(question, "9", "1", "no such words anywhere", ""),
        *("谁写了《红楼梦》？", "0"),
        *("Left out?", ""),
        *(question, ""),
    ]
    run = CliRunner().invoke
    command = ["evaluate", str(file), "--label"]
    shown = run(cli, command, input="\n".join(lines) + "\n")
    assert shown.exit_code == 0, shown.output
    assert "1 questions with an answer, 1 without; 18 more until" in shown.output
    for words in ("A number from 0 to", "does not hold these words", "in the file already"):
        assert words in shown.output
    text = file.read_text("utf-8")
    file.write_text(text.rstrip(), "utf-8")  # as editors may leave it
    more = run(cli, command, input="Who keeps the bees?\n0\n\n")
    assert "1 questions with an answer, 2 without" in more.output
    assert file.read_text("utf-8").startswith(text)
    first, second, _ = (json.loads(line) for line in file.read_text("utf-8").splitlines())
    assert first["question"] == question
    assert len(first["sources"]) == 1
    assert (second["question"], second["answerable"]) == ("谁写了《红楼梦》？", False)
    table = tmp_path / "table.csv"
    table.write_text(CSV, "utf-8")
    refused = run(cli, ["evaluate", str(table), "--label"])
    assert (refused.exit_code, table.read_text("utf-8")) == (1, CSV)
    measured = run(cli, ["evaluate", str(file), "-v", "rag", "--judge", "none", "--calibrate",
                         "--out", str(tmp_path / "report")])  # fmt: skip
    assert measured.exit_code == 0, measured.output
    assert "at least 20 graded questions" in measured.output


@pytest.mark.usefixtures("state")
def test_an_empty_collection_beside_others_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELFCRAG_DATA_DIR", str(tmp_path / "state"))
    (tmp_path / "tower.md").write_text("# Umbra\n\nThe red tower is 87 metres tall.\n", "utf-8")
    run = CliRunner().invoke
    added = run(cli, ["ingest", str(tmp_path / "tower.md"), "--collection", "manual"])
    assert added.exit_code == 0, added.output
    refused = run(cli, ["evaluate", str(tmp_path / "first.jsonl"), "--make", "3"])
    assert refused.exit_code == 1
    assert "default is empty; add --collection with one of: manual (1)" in refused.output
