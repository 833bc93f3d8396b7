"""`selfcrag-evaluator tune`: records become rows, and rows of them with reflection tokens."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluator.commands import app
from evaluator.errors import EvaluatorError
from evaluator.tuning.rows import read_tuning_rows
from evaluator.tuning.self_rag import RETRIEVAL, unwoven, woven


def command(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["tune", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_records_become_rows_with_reflection_tokens(tmp_path: Path) -> None:
    data, rows, tokens = tmp_path / "data", tmp_path / "gr.jsonl", tmp_path / "tokens.jsonl"
    data.mkdir()
    records = [
        {"question": question, "answers": [answer], "answerable": True, "title": title,
         "passage": passage}
        for question, answer, title, passage in (
            ("How long is the river Ab?", "121 km", "Ab", "The river Ab is 121 km long."),
            ("Who keeps the lighthouse?", "Vera Holm", "Light", "Vera Holm keeps the lighthouse."),
            ("What is harbour bread made of?", "rye", "Bread", "Harbour bread is made of rye."),
            ("临江塔有多高？", "87米", "临江塔", "临江塔高87米，建于1901年。"),
            ("谁写了那本书？", "王安", "书", "那本书是王安写的。"),
        )
    ]  # fmt: skip
    text = "".join(json.dumps(record) + "\n" for record in records)
    (data / "made.jsonl").write_text(text, encoding="utf-8")
    assert "5 rows" in command("contexts", str(data), "--out", str(rows), "--context", "gr")
    told = command("reflect", str(rows), "--out", str(tokens), "--irrelevant", "0")

    made = [json.loads(line) for line in tokens.read_text(encoding="utf-8").splitlines()]
    assert {len(row.passages) for row in read_tuning_rows(rows)} == {2}
    assert f"{len(made)} rows" in told
    assert len(made) >= 4
    parts = [unwoven(row["output"]) for row in made]
    assert [woven(answer) for answer in parts] == [row["output"] for row in made]
    gold = {record["question"]: record["passage"] for record in records}
    chosen = [
        (row["instruction"], answer.segments[0])
        for row, answer in zip(made, parts, strict=True)
        if answer.segments[0].retrieval == RETRIEVAL
    ]
    right = [each.passage is not None and each.passage.text == gold[q] for q, each in chosen]
    assert sum(right) >= 3
    with pytest.raises(EvaluatorError, match="is there already"):
        command("contexts", str(data), "--out", str(rows))
