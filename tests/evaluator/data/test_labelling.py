"""Labels from a language model, asked over HTTP: what is asked, what is kept, what goes on."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import openai
import pytest

from evaluator.data.labelling import LabelEndpoint, label, token_of
from evaluator.data.records import read_file, read_judgements
from evaluator.errors import DataError, EvaluatorError
from evaluator.schema import Task
from tests.loopback.openai import OPENAI_KEY, OpenAIServer, text_of

TASKS: tuple[Task, ...] = ("relevance", "support", "utility", "retrieval")
ROWS = [
    {"question": "Who built the mill?", "passage": "Ann built it.", "answer": "Ann did."},
    {"question": "How old is it?", "passage": "It stands by the river."},
    {"question": "谁建造了磨坊？", "answer": "安建造的。"},
]
SAID = {"relevance": "[Relevant]", "support": "Fully supported.", "utility": "**[Utility:5]**",
        "retrieval": "no retrieval"}  # fmt: skip


class Labelling(OpenAIServer):
    """Says what `said` holds for the task that the instruction speaks of."""

    def reset(self) -> None:
        super().reset()
        self.said = dict(SAID)

    def reply(self, messages: Sequence[dict[str, Any]]) -> str:
        instruction, asked = map(text_of, messages)
        (task,) = (task for task in TASKS if f"[{_SPELT[task]}" in instruction)
        if task == "relevance" and "river" in asked:
            return "[Irrelevant]"
        return self.said[task]


_SPELT = {"relevance": "Relevant", "support": "Fully", "utility": "Utility:5",
          "retrieval": "No Retrieval"}  # fmt: skip


@pytest.fixture
def server() -> Iterator[Labelling]:
    with Labelling() as running:
        yield running


def endpoint(server: Labelling) -> LabelEndpoint:
    client = openai.OpenAI(base_url=server.base_url, api_key=OPENAI_KEY, max_retries=0)
    return LabelEndpoint(client, "stand-in", input_price=2.0, output_price=6.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps(row, ensure_ascii=False) for row in ROWS]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_each_row_is_asked_what_its_fields_allow_and_training_reads_it(
    server: Labelling, file: Path, tmp_path: Path
) -> None:
    out, said = tmp_path / "critic.jsonl", list[str]()
    assert label(file, out, TASKS, endpoint(server), said.append) == 8
    assert "8 of 8 rows to label with stand-in" in said[0]
    assert "at the prices given" in said[0]
    judged = read_judgements(tmp_path) if file.unlink() is None else []
    assert sorted((row.task, row.label, row.language) for row in judged) == [
        ("retrieval", "[No Retrieval]", "en"), ("retrieval", "[No Retrieval]", "en"),
        ("retrieval", "[No Retrieval]", "zh"), ("support", "[Fully supported]", "en"),
        ("utility", "[Utility:5]", "en"), ("utility", "[Utility:5]", "zh"),
    ]  # fmt: skip
    relevant = {record.passage: record.relevant for record in read_file(out)}
    assert relevant == {"Ann built it.": True, "It stands by the river.": False}


def test_a_run_that_broke_off_goes_on_after_what_was_written(
    server: Labelling, file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "critic.jsonl"
    label(file, out, ["utility"], endpoint(server), lambda _: None)
    whole = out.read_text(encoding="utf-8")
    first, second = whole.splitlines(keepends=True)
    out.write_text(first + second[: len(second) // 2], encoding="utf-8")  # as a kill leaves it
    torn = out.read_bytes()
    assert label(file, out, ["utility"], endpoint(server), lambda _: None, dry=True) == 0
    assert out.read_bytes() == torn
    server.requests.clear()
    assert label(file, out, ["utility"], endpoint(server), lambda _: None) == 1
    assert len(server.requests) == 1
    assert out.read_text(encoding="utf-8") == whole
    assert label(file, out, ["utility"], endpoint(server), lambda _: None) == 0
    out.write_text(first.rstrip(), encoding="utf-8")  # a row is whole without its line's end
    assert label(file, out, ["utility"], endpoint(server), lambda _: None) == 1
    assert out.read_text(encoding="utf-8") == whole


def test_a_dry_run_tells_the_cost_and_asks_nothing(
    server: Labelling, file: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    assert label(file, tmp_path / "out.jsonl", TASKS, endpoint(server), said.append, dry=True) == 0
    assert len(said) == 1
    assert not server.requests


def test_a_model_that_names_no_token_is_told(server: Labelling, file: Path, tmp_path: Path) -> None:
    server.said["utility"] = "Quite useful."
    with pytest.raises(EvaluatorError, match="2 of 2 replies of stand-in held no reflection token"):
        label(file, tmp_path / "out.jsonl", ["utility"], endpoint(server), lambda _: None)


def test_an_endpoint_that_refuses_and_a_file_of_another_kind_are_told(
    server: Labelling, file: Path, tmp_path: Path
) -> None:
    server.status = 500
    with pytest.raises(EvaluatorError, match="stand-in failed"):
        label(file, tmp_path / "out.jsonl", ["utility"], endpoint(server), lambda _: None)
    for own in (file, file.with_name("notes.txt")):
        own.write_text(own.read_text(encoding="utf-8") if own == file else "Mine.", "utf-8")
        before = own.read_bytes()
        with pytest.raises(DataError, match="rows of another kind"):
            label(file, own, TASKS, endpoint(server), lambda _: None)
        assert own.read_bytes() == before


@pytest.mark.parametrize(
    ("said", "task", "token"),
    [
        ("[Irrelevant]", "relevance", "[Irrelevant]"),
        ("irrelevant", "relevance", "[Irrelevant]"),
        ("Relevant, not irrelevant", "relevance", ""),
        ("[No Retrieval]", "retrieval", "[No Retrieval]"),
        ("No support / Contradictory", "support", "[No support / Contradictory]"),
        ("Utility:42", "utility", ""),
    ],
)
def test_a_reply_spells_one_token_or_none(said: str, task: Task, token: str) -> None:
    assert token_of(said, task) == token
