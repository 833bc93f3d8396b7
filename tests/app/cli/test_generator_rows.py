"""Judged answers as rows for tuning a generator, worded as the service asks."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from langchain_core.messages import BaseMessage

from app.cli.generator_rows import generator_rows, prompted_row, write_prompts
from evaluator.tuning.rows import read_examples, read_tuning_rows
from graphs.generation.prompts import DraftRequest, answering_messages
from graphs.types import Strip

ROOF = "The roof is of slate."
HEIGHT = "The tower is 87 metres tall, they say."
ANSWER: dict[str, Any] = {
    "answer": "The roof is of slate [4]. Nobody [9] knows more.",
    "citations": [{"n": 4, "text": ROOF, "title": "Roof", "source": "docs/roof.md"}],
    "documents": [{"id": "b", "title": "Tower"}],
    "strips": [
        {"text": ROOF, "document_id": "a", "kept": True},
        {"text": HEIGHT, "document_id": "b", "kept": True},
        {"text": "Bread is baked.", "document_id": "b", "kept": False},
    ],
}


def judged(run_id: str, score: float, corrected: str | None = None) -> tuple[Any, Any]:
    feedback = {"run_id": run_id, "question": "How tall?", "score": score}
    return {**feedback, "corrected_answer": corrected}, ANSWER


def test_a_good_answer_keeps_its_markers_under_the_new_numbers() -> None:
    (row,) = generator_rows([judged("a", 1.0)])
    assert row["answer"] == "The roof is of slate [1]. Nobody knows more."
    assert [passage["text"] for passage in row["passages"]] == [ROOF, HEIGHT]
    assert [passage["title"] for passage in row["passages"]] == ["Roof", "Tower"]


def test_a_corrected_answer_is_the_target_and_cites_what_holds_it() -> None:
    rows = generator_rows([judged("a", 1.0), judged("a", -1.0, "The tower is 87 metres tall.")])
    assert [row["answer"] for row in rows] == ["The tower is 87 metres tall [2]."]


def test_the_last_judgement_of_a_run_counts() -> None:
    assert generator_rows([judged("a", 1.0), judged("a", -1.0), judged("b", 0.0)]) == []


@pytest.mark.parametrize("question", ["How tall is it?", "塔有多高？"])
def test_rows_are_worded_as_the_service_asks(question: str, tmp_path: Path) -> None:
    source, out = tmp_path / "rows.jsonl", tmp_path / "chat.jsonl"
    row = {
        "question": question,
        "passages": [{"title": "Tower", "text": HEIGHT, "source": "docs/t.md"}],
        "answer": "87 metres [1].",
    }
    source.write_text(json.dumps(row) + "\n", encoding="utf-8")
    write_prompts(source, out)
    (example,) = read_examples(out)
    strip = Strip("s", "d", HEIGHT, "Tower", "docs/t.md", "internal", (0, 0))
    language = "zh" if question[0] == "塔" else "en"
    sent = answering_messages(DraftRequest(question, [], [strip], -1.0, language))

    assert example.text == "87 metres [1]."
    assert [each["role"] for each in example.prompt] == ["system", "user"]  # type: ignore[index]
    assert without_nonce(example.prompt) == without_nonce(sent)
    assert read_tuning_rows(source)[0].question == question
    direct = prompted_row({**row, "passages": []})
    assert HEIGHT not in str(direct["prompt"])
    with pytest.raises(typer.Exit):
        write_prompts(source, out)


def without_nonce(messages: Any) -> list[str]:
    """The messages' texts but for the random names of their tags."""
    texts = [each.text if isinstance(each, BaseMessage) else each["content"] for each in messages]
    return [
        " ".join(word for word in str(text).split() if not word.startswith(("<knowledge-", "</")))
        for text in texts
    ]
