import gzip
import json
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import pytest

from evaluator.data.records import (
    JudgementRow,
    Record,
    by_article,
    by_passage,
    divided,
    division,
    held_back,
    read_folder,
    split,
)
from evaluator.data.text import contains_answer
from evaluator.errors import DataError
from evaluator.training.relevance_pairs import pairs_of
from tests.evaluator.data.test_file_formats import wrote

SQUAD = {
    "id": "1", "question": "How long is the river?", "answers": ["212 km"], "answerable": True,
    "title": "River", "passage": "The river is 212 km long. It flows north.",
}  # fmt: skip


def test_kinds_are_known_by_their_fields(tmp_path: Path) -> None:
    wrote(tmp_path / "a.jsonl.gz", SQUAD)
    labels = {"question": "Is it so?", "passage": "It is so.", "context_relevant": False}
    wrote(tmp_path / "b.jsonl", {**labels, "answer_faithful": None})
    wrote(
        tmp_path / "c.jsonl", {"question": "Why?", "snippets": [{"text": "So."}, {"text": "Yes."}]}
    )
    wrote(tmp_path / "d.jsonl", {"title": "Mill", "passage": "磨坊建于一八零四年。"})
    wrote(tmp_path / "e.jsonl", {"question": "No passage?", "answers": ["x"]})
    records = read_folder(tmp_path)
    assert [(r.source, r.relevant, r.language) for r in records] == [
        ("a", True, "en"), ("b", False, "en"), ("c", True, "en"), ("c", True, "en"),
        ("d", False, "zh"),
    ]  # fmt: skip


def test_a_folder_without_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No labelled questions"):
        read_folder(tmp_path)
    with pytest.raises(DataError, match="not a folder"):
        read_folder(tmp_path / "nowhere")


def records(count: int) -> list[Record]:
    return [
        Record(
            "made", "en", f"How long is river {n}?", (f"{n}00 km",), True, f"River {n}",
            f"River {n} rises in hills number {n}. It is {n}00 km long and cold in winter. "
            f"Mill {n} stands beside it, built of stone.",
        )
        for n in range(count)
    ]  # fmt: skip


def test_no_article_on_both_sides() -> None:
    train, held_back = split(records(200), 10)
    assert 5 < len(held_back) < 40
    assert not {r.title for r in train} & {r.title for r in held_back}


def test_negatives_hold_no_answer_and_positives_do() -> None:
    made = records(40)
    answers = {record.question: list(record.answers) for record in made}
    pairs = [pair for pair in pairs_of(made, 1) if pair.question in answers]
    assert {pair.kind for pair in pairs} >= {"positive", "words", "same passage", "random"}
    denied = {"negated", "name exchanged", "number exchanged", "roles exchanged"}
    for pair in pairs:
        if pair.kind not in denied:  # which say the right value, but not of what was asked for
            assert contains_answer(pair.passage, answers[pair.question]) == pair.relevant
        assert (pair.answer in answers[pair.question]) == pair.relevant


def test_each_question_has_one_right_text_at_most_beside_its_wrong_twins() -> None:
    groups: dict[int, list[bool]] = {}
    pairs = pairs_of(records(40), 1)
    for pair in pairs:
        groups.setdefault(pair.group, []).append(pair.relevant)
    assert all(sum(group) == 1 for group in groups.values())
    kinds = {pair.kind for pair in pairs}
    assert kinds >= {"nobody knows", "only points", "negated", "neighbour parameter"}


def test_pairs_depend_on_the_seed_alone() -> None:
    assert pairs_of(records(20), 3) == pairs_of(records(20), 3)
    assert pairs_of(records(20), 3) != pairs_of(records(20), 4)


def test_endings_count_in_any_case(tmp_path: Path) -> None:
    wrote(tmp_path / "A.JSONL", SQUAD)
    (tmp_path / "B.Json.GZ").write_bytes(gzip.compress(json.dumps([SQUAD]).encode()))
    (tmp_path / "河.TSV").write_text(
        "河多长？ [SEP] 河长九公里。\t1\n河多长？ [SEP] 面包是烤的。\t-1"
    )
    # Benchmarks stay out.
    wrote(tmp_path / "BENCH_x.jsonl", "broken")
    wrote(tmp_path / "zh_cmrc2018_dev.jsonl.gz", "broken")
    assert {record.source for record in read_folder(tmp_path)} == {"A", "B", "河"}


@pytest.mark.parametrize(
    "titles", [["Handbook"], ["手册"], ["T6"], ["Handbook", "手册"], ["T6", "T6", "手册"]]
)
def test_records_of_few_titles_are_divided_by_passage(titles: list[str]) -> None:
    made = [
        replace(record, title=titles[number % len(titles)])
        for number, record in enumerate(records(200))
    ]
    train, held_back = split(made, 10)
    assert 0 < len(held_back) < len(train) / 2
    assert not {r.passage for r in train} & {r.passage for r in held_back}


def test_articles_stay_whole_where_enough_questions_are_held_back() -> None:
    made = records(200)
    assert division(made, 10) is by_article
    assert division(made, 0) is by_article
    assert division([replace(record, title="Handbook") for record in made], 0) is by_article
    unasked = [replace(record, question="") for record in made]
    handbook = [replace(record, title="手册") for record in made]
    assert division([*unasked, *handbook], 10) is by_passage


GROUPS = [f"article {number}" for number in range(200)]


def judgement(group: str, label: str = "[Utility:5]") -> JudgementRow:
    return JudgementRow("utility", "Why?", "So.", label, "en", "own", "natural", group)


def test_a_group_falls_on_the_side_where_its_records_fall() -> None:
    records = [Record("s", "en", "Why?", ("so",), True, group, "text") for group in GROUPS]
    _, held = split(records, 20)
    _, judged = divided([judgement(group) for group in GROUPS], attrgetter("group"), 20)
    assert [row.group for row in judged] == [record.title for record in held]
    assert [row.group for row in judged] == [group for group in GROUPS if held_back(group, 20)]
    assert 20 < len(judged) < 60


def test_no_row_is_lost_or_doubled_by_the_split() -> None:
    rows = [judgement(group, label) for group in GROUPS for label in ("[Utility:1]", "[Utility:5]")]
    train, check = divided(rows, attrgetter("group"), 20)
    assert sorted(map(str, [*train, *check])) == sorted(map(str, rows))
    assert not {row.group for row in train} & {row.group for row in check}
