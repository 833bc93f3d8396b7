"""Rows for tuning a generator: the paper's contexts, and Self-RAG's format both ways."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.self_rag_model import _prompt, _quoted
from evaluator.data.records import HELD_BACK_PERCENT, Record
from evaluator.data.text import contains_answer
from evaluator.errors import DataError
from evaluator.schema import LABELS, RowScore, Task
from evaluator.tuning.contexts import CONTEXTS, context_rows, split_rows
from evaluator.tuning.rows import (
    TuningPassage,
    TuningRow,
    read_examples,
    read_tuning_rows,
    self_rag_prompt,
    write_rows,
)
from evaluator.tuning.self_rag import (
    CONTINUE,
    NO_RETRIEVAL,
    RETRIEVAL,
    SUPPORT,
    CriticScores,
    ReflectedAnswer,
    ReflectedSegment,
    reflected_row,
    unwoven,
    woven,
)
from graphs.reflection.tokens import clean
from graphs.types import Strip

RECORDS = [
    Record(
        "towns", language, question.format(n), (str(100 + n),), True, "", passage.format(n, 100 + n)
    )
    for n in range(60)
    for language, question, passage in (
        ("en", "How high is tower {}?", "Tower {} is {} metres high."),
        ("zh", "第{}座塔有多高？", "第{}座塔高{}米。"),
    )
]


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_context_holds_what_its_name_says(context: str) -> None:
    rows = context_rows(RECORDS, context)
    gold = {record.question: record for record in RECORDS}

    assert len(rows) == len(RECORDS)
    assert rows == context_rows(RECORDS, context)
    for row in rows:
        texts = [passage.text for passage in row.passages]
        own = [text == gold[row.question].passage for text in texts]
        assert sorted(own) == sorted(kind == "gold" for kind in CONTEXTS[context])
        assert not any(
            contains_answer(text, row.answers)
            for text, is_gold in zip(texts, own, strict=True)
            if not is_gold
        )
    if context == "gr":  # the place tells nothing
        first = [row.passages[0].text == gold[row.question].passage for row in rows]
        assert 0.3 < sum(first) / len(first) < 0.7


def test_no_passage_stands_on_both_sides_of_the_split() -> None:
    taught, held = split_rows(RECORDS, "gr", 1, HELD_BACK_PERCENT)
    texts = [{passage.text for row in side for passage in row.passages} for side in (taught, held)]
    assert taught
    assert held
    assert not texts[0] & texts[1]


def test_files_of_every_form_are_read_and_others_refused_by_line(tmp_path: Path) -> None:
    row = TuningRow("How high?", (TuningPassage("Tower", "It is 87 m."),), "87 m [1]", ("87 m",))
    chat = {
        "prompt": [{"role": "user", "content": "How high?"}],
        "completion": [{"role": "assistant", "content": "87 m"}],
    }
    published = {"instruction": "How high?", "input": "", "output": "[No Retrieval]87[Utility:5]"}
    assert write_rows(tmp_path / "rows.jsonl", [row, chat, published]) == 3
    read, talked, reflected = read_examples(tmp_path / "rows.jsonl")

    assert read_tuning_rows_of(tmp_path, row).passages == row.passages
    assert "It is 87 m." in read.prompt[0]["content"]  # type: ignore[index]
    assert (read.text, read.answers) == ("87 m [1]", ("87 m",))
    assert (talked.prompt, talked.text) == (tuple(chat["prompt"]), "87 m")
    assert reflected.prompt == "### Instruction:\nHow high?\n\n### Response:\n"
    write_rows(tmp_path / "wrong.jsonl", [chat, {"text": "no row"}])
    with pytest.raises(DataError, match=r"wrong\.jsonl:2"):
        read_examples(tmp_path / "wrong.jsonl")


def read_tuning_rows_of(folder: Path, row: TuningRow) -> TuningRow:
    write_rows(folder / "one.jsonl", [row])
    return read_tuning_rows(folder / "one.jsonl")[0]


WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: not any(sign in text for sign in "[]<>")
)
PASSAGES = st.builds(TuningPassage, WORDS.filter(lambda text: "\n" not in text), WORDS)
SEGMENTS = st.one_of(
    st.builds(ReflectedSegment, st.sampled_from([NO_RETRIEVAL, CONTINUE]), WORDS),
    st.builds(
        ReflectedSegment, st.just(RETRIEVAL), WORDS, PASSAGES, st.just("[Relevant]"),
        st.sampled_from(SUPPORT),
    ),
    st.builds(ReflectedSegment, st.just(RETRIEVAL), WORDS, PASSAGES, st.just("[Irrelevant]")),
)  # fmt: skip


@given(st.lists(SEGMENTS, min_size=1, max_size=4), st.sampled_from(LABELS["utility"]))
def test_what_is_woven_is_parsed_back_to_its_parts(
    segments: list[ReflectedSegment], utility: str
) -> None:
    answer = ReflectedAnswer(tuple(segments), utility)
    assert unwoven(woven(answer)) == answer


def test_a_published_row_is_read_and_written_alike() -> None:
    output = (
        "[Retrieval]<paragraph>Tower\nIt is 87 m [about].</paragraph>[Relevant]It is high."
        "[Partially supported][Continue to Use Evidence]So they say.[Retrieval]<paragraph>\nBread"
        "</paragraph>[Irrelevant]It stands.[Utility:4]"
    )
    assert woven(unwoven(output)) == output
    assert clean(output) == "It is high. So they say. It stands."
    for broken in ("plain", output[:-1], f"a{output}", output.replace("[Relevant]", "", 1),
                   output.replace("[Partially supported]", ""), "[Utility:5]"):  # fmt: skip
        with pytest.raises(DataError):
            unwoven(broken)


def test_the_prompt_is_the_one_the_service_sends() -> None:
    strip = Strip("s", "d", "It is 87 m.", "Tower", "a.md", "internal", (0, 0))
    passage = TuningPassage(strip.title, strip.text)
    row = reflected_row(
        TuningRow("How high?", (passage,), "87 m."), critic_of({}), random.Random(0), 0.0
    )
    assert row is not None
    assert self_rag_prompt("How high?") == _prompt("How high?")
    assert row["output"].startswith(_quoted(strip))


def critic_of(labels: dict[str, str]) -> CriticScores:
    """Calls all relevant, supported and useful, but for what the labels say of a text."""

    def judge(task: Task, pairs: Sequence[tuple[str, str]]) -> list[RowScore | str]:
        usual = {"utility": "[Utility:5]"}.get(task, LABELS[task][0])
        told = [next((t for key, t in labels.items() if key in pair), usual) for pair in pairs]
        return [RowScore(1.0, t if t in LABELS[task] else usual, {}) for t in told]

    return judge


QUESTION = "How high, how old?"
HIGH, OLD = TuningPassage("", "It is 87 m high."), TuningPassage("", "Built in 1901.")


@pytest.mark.parametrize(
    ("labels", "irrelevant", "expected"),
    [
        (
            {"": RETRIEVAL, OLD.text: "[Irrelevant]", HIGH.text: CONTINUE}, 0.0,
            "[Retrieval]<paragraph>\nIt is 87 m high.</paragraph>[Relevant]87 m.[Fully supported]"
            "[Continue to Use Evidence]Of 1901.[Utility:5]",
        ),
        (
            {"": RETRIEVAL, OLD.text: "[Irrelevant]"}, 1.0,
            "[Retrieval]<paragraph>\nBuilt in 1901.</paragraph>[Irrelevant]87 m."
            "[Retrieval]<paragraph>\nBuilt in 1901.</paragraph>[Irrelevant]Of 1901.[Utility:5]",
        ),
        ({"": NO_RETRIEVAL}, 0.0, "[No Retrieval]87 m. Of 1901.[Utility:5]"),
    ],
)  # fmt: skip
def test_the_critics_tokens_stand_in_the_answer(
    labels: dict[str, str], irrelevant: float, expected: str
) -> None:
    row = TuningRow(QUESTION, (OLD, HIGH), "87 m. Of 1901.")
    made = reflected_row(row, critic_of(labels), random.Random(0), irrelevant)
    assert made is not None
    assert made["output"] == expected
    assert json.dumps(made)


def test_a_row_the_critic_cannot_judge_is_left_out() -> None:
    def dumb(task: Task, pairs: Sequence[tuple[str, str]]) -> list[RowScore | str]:
        return ["no number" for _ in pairs]

    assert reflected_row(TuningRow("a", (HIGH,), "b"), dumb, random.Random(0), 0.0) is None
    marked = TuningRow("a", (HIGH,), "b [Relevant]")
    assert reflected_row(marked, critic_of({}), random.Random(0), 0.0) is None
