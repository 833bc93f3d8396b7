import json
from collections import Counter
from pathlib import Path

import pytest

from evaluator.calibration.model_card import CARD
from evaluator.data.records import JudgementRow, by_article, by_passage, held_back
from evaluator.data.synthetic.build import KINDS, RIGHT, cases, constructed
from evaluator.data.synthetic.material import read_material
from evaluator.data.synthetic.wording import asked_for, shape_of, statement
from evaluator.errors import DataError
from evaluator.schema import LABELS

RIVERS = ["Elm", "Oak", "Ash", "Fir", "Yew", "Bay", "Fig", "Box", "Gum", "Nut", "Pea", "Rye"]


def en_rows(place: int, name: str) -> list[dict[str, object]]:
    length, year = 112 + 7 * place, 1810 + place
    passage = (
        f"The {name} River rises in the northern hills near a small village. "
        f"It is {length} km long and flows past four market towns. "
        f"The first stone bridge was built by Anna {name}field in {year}. "
        f"Barges carried {place + 21} loads of salt down the stream every week."
    )
    asked = [
        (f"How long is the {name} River?", f"{length} km", True),
        (f"Who built the first stone bridge over the {name}?", f"Anna {name}field", True),
        (f"When was the first bridge over the {name} built?", str(year), True),
        (f"Who destroyed the bridge over the {name}?", "", False),
    ]
    return [squad(q, answer, known, f"{name} River", passage) for q, answer, known in asked]


def zh_rows(place: int, name: str) -> list[dict[str, object]]:
    length, year = 112 + 7 * place, 1810 + place
    town = "甲乙丙丁戊己庚辛壬癸子丑"[place]
    passage = (
        f"{town}河发源于北部山区的一个小村庄。河流全长{length}公里，流经四座集镇。"
        f"第一座石桥由{town}文安于{year}年主持修建。每周有{place + 21}船食盐顺流而下运往港口。"
    )
    asked = [
        (f"{town}河全长多少公里？", f"{length}公里", True),
        (f"{town}河上第一座石桥是谁主持修建的？", f"{town}文安", True),
        (f"{town}河上的石桥是哪一年修建的？", f"{year}年", True),
    ]
    return [squad(q, answer, known, f"{town}河", passage) for q, answer, known in asked]


def squad(question: str, answer: str, known: bool, title: str, passage: str) -> dict[str, object]:
    return {
        "question": question, "answers": [answer] if known else [], "answerable": known,
        "title": title, "passage": passage,
    }  # fmt: skip


def labelled(place: int, name: str) -> list[dict[str, object]]:
    passage = f"The mill at {name}ton grinds {place + 3} sorts of grain for the whole valley."
    question = f"How many sorts of grain does the mill at {name}ton grind?"
    good = {"context_relevant": True, "answer_faithful": True, "answer_relevant": True}
    bad = {"context_relevant": True, "answer_faithful": False, "answer_relevant": False}
    none = {"context_relevant": False, "answer_faithful": None, "answer_relevant": None}
    return [
        {"question": question, "passage": passage, "answer": f"{place + 3} sorts", **good},
        {"question": question, "passage": passage, "answer": "A grey harbour seal", **bad},
        {"question": question, "passage": "Seals rest on the pier.", "answer": "", **none},
        {"question": f"{name}ton has a mill.", "passage": passage, "answer": "SUPPORTS", **good},
        {
            "question": question, "passage": passage,
            "answer": "The text does not say so.", **good,
        },
    ]  # fmt: skip


def snippets(place: int, name: str) -> dict[str, object]:
    text = f"In trials, extract of {name.lower()} leaves lowered swelling in {place + 5} patients."
    return {
        "question": f"What does {name.lower()} leaf extract do?", "type": "summary",
        "ideal_answer": [f"Extract of {name.lower()} leaves lowered swelling in patients."],
        "exact_answer": None, "snippets": [{"text": text}],
    }  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("data")
    kinds = {
        "en_rivers": [row for i, name in enumerate(RIVERS) for row in en_rows(i, name)],
        "zh_rivers": [row for i, name in enumerate(RIVERS) for row in zh_rows(i, name)],
        "en_mills": [row for i, name in enumerate(RIVERS) for row in labelled(i, name)],
        "en_leaves": [snippets(i, name) for i, name in enumerate(RIVERS)],
        "bench_rivers": en_rows(77, "Held"),
    }
    for name, rows in kinds.items():
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        (place / f"{name}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[JudgementRow]:
    return constructed(folder, 1)


def test_every_task_and_language_is_balanced(rows: list[JudgementRow]) -> None:
    counts = Counter(
        (row.task, row.language, row.label)
        for row in rows
        if row.task == "retrieval" or row.kind.startswith("constructed")
    )
    for task, labels in LABELS.items():
        if task == "relevance":
            continue
        made = [label for label in labels if label != "[No Retrieval]"]
        for language in ("en", "zh"):
            assert len({counts[task, language, label] for label in made}) == 1
            assert counts[task, language, made[0]] >= 5


def test_the_same_seed_gives_the_same_rows(folder: Path, rows: list[JudgementRow]) -> None:
    assert constructed(folder, 1) == rows
    assert constructed(folder, 2) != rows


def test_a_list_a_byte_order_mark_and_blank_lines_at_the_end_change_no_row(
    folder: Path, rows: list[JudgementRow], tmp_path: Path
) -> None:
    for path in folder.iterdir():
        text = path.read_text(encoding="utf-8")
        if "rivers" in path.name:
            listed = json.dumps([json.loads(line) for line in text.splitlines()])
            (tmp_path / f"{path.stem}.json").write_text(listed, encoding="utf-8")
        else:
            (tmp_path / path.name).write_bytes(b"\xef\xbb\xbf" + f"{text}\r\n\r\n".encode())
    assert constructed(tmp_path, 1) == rows


def test_counts_stay_within_the_bound(folder: Path) -> None:
    few = [row for row in constructed(folder, 1, max_rows=15) if "constructed" in row.kind]
    assert max(Counter((row.task, row.language) for row in few).values()) <= 15


def test_held_out_files_are_not_read(rows: list[JudgementRow]) -> None:
    assert not any("Held" in row.first + row.second for row in rows)


def held_out(group: str) -> bool:
    return held_back(group, 50)


def trained_on(group: str) -> bool:
    return not held_out(group)


def test_nothing_of_the_other_side_of_a_split_is_used(folder: Path) -> None:
    sides = {}
    for held, side in ((False, trained_on), (True, held_out)):
        made = constructed(folder, 1, side=side)
        sides[held] = " ".join(row.first + row.second for row in made)
        assert all(held_back(row.group, 50) is held for row in made)
    for name in RIVERS:
        texts = [f"Anna {name}field" in sides[held] for held in (False, True)]
        assert texts.count(True) == 1


@pytest.mark.parametrize("title", ["Handbook", "手册"])
def test_one_article_may_be_divided_by_its_passages(tmp_path: Path, title: str) -> None:
    made = [
        {**row, "title": title}
        for place, name in enumerate(RIVERS)
        for row in (en_rows(place, name) if title.isascii() else zh_rows(place, name))
    ]
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in made)
    (tmp_path / "rivers.jsonl").write_text(lines, encoding="utf-8")
    train, check = (
        constructed(tmp_path, 1, side=side, key=by_passage) for side in (trained_on, held_out)
    )
    for side in (train, check):
        assert {row.task for row in side} >= {"support", "utility", "retrieval"}
    assert not {row.group for row in train} & {row.group for row in check}


def test_support_joins_question_and_answer_and_shows_the_passage(rows: list[JudgementRow]) -> None:
    for row in rows:
        if row.task == "support":
            question, mark, answer = row.first.partition(" [SEP] ")
            assert mark
            assert question
            assert answer
            assert len(row.second) > 10
        if row.kind.startswith("constructed"):
            assert row.kind.removeprefix("constructed: ") in CARD, "the card says how"


def test_right_answers_are_in_the_passage_and_wrong_ones_are_not_the_answer(
    rows: list[JudgementRow], folder: Path
) -> None:
    known = {
        (m.question, m.passage): m.answers
        for m in read_material(folder, lambda _: True, by_article)
    }
    kinds = Counter(row.kind.removeprefix("constructed: ") for row in rows)
    assert kinds.keys() >= KINDS.keys()
    for row in rows:
        kind, (question, _, answer) = row.kind[13:], row.first.partition(" [SEP] ")
        right = known.get((question, row.second), ())
        if row.task == "support" and kind in RIGHT and right:
            assert any(value in answer for value in right)
        if kind in ("wrong value", "wrong statement", "changed sentence"):
            assert not any(value in answer for value in right)
        if kind == "another passage":
            assert not any(value in row.second for value in right)


def test_a_language_has_as_many_cases_of_a_kind_as_asked(folder: Path) -> None:
    made = cases(read_material(folder, lambda _: True, by_article), 1, 9)
    counts = Counter((case.language, case.kind) for case in made)
    asked = {name for name, kind in KINDS.items() if kind.accepted is not None}
    assert {kind for _, kind in counts} == asked
    assert set(counts.values()) == {9}
    assert {case.kind for case in made if case.right} == set(RIGHT)


def test_natural_labels_are_kept_and_contradictory_ones_left_out(rows: list[JudgementRow]) -> None:
    answers = {
        (row.task, row.first.rpartition("] ")[2] if row.task == "support" else row.second): row
        for row in rows
        if row.kind.startswith("natural") and row.task != "retrieval"
    }
    assert answers["support", "A grey harbour seal"].label == "[No support / Contradictory]"
    assert answers["utility", "A grey harbour seal"].label == "[Utility:1]"
    assert ("utility", "SUPPORTS") not in answers
    assert not any("does not say" in text for _, text in answers)


def test_evidence_without_the_answer_asks_for_retrieval(rows: list[JudgementRow]) -> None:
    removed = [row for row in rows if row.kind == "constructed: answer removed"]
    assert removed
    assert all(row.label == "[Retrieval]" for row in removed)
    asked = [row for row in removed if row.first.startswith("How long is")]
    assert not any(" km long" in row.second for row in asked)


@pytest.mark.parametrize(
    ("question", "value", "language", "said"),
    [
        ("Who founded the mill?", "Ann Reed", "en", "Ann Reed founded the mill."),
        ("What is the capital?", "Port Elm", "en", "The capital is Port Elm."),
        ("Why did it close?", "lack of rain", "en", None),
        ("这座桥是谁修建的？", "文安", "zh", "这座桥是文安修建的。"),
        ("石橋是哪一年建成的？", "1804年", "zh", "石橋是1804年建成的。"),
        ("河长多少公里？", "212公里", "zh", "河长212公里。"),
        ("为什么停产？", "缺水", "zh", None),
    ],
)
def test_questions_become_statements(
    question: str, value: str, language: str, said: str | None
) -> None:
    assert statement(question, value, language) == said


def test_values_are_told_apart_by_looks_and_by_what_is_asked() -> None:
    assert shape_of("1804") == shape_of("1912")
    assert shape_of("Ann Reed") != shape_of("lack of rain")
    assert asked_for("In what year was it?", "en") == asked_for("When was it?", "en")
    assert asked_for("是誰？", "zh") == asked_for("是谁？", "zh") == "who"


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "en_broken.jsonl").write_text("{broken", encoding="utf-8")
    with pytest.raises(DataError, match="en_broken"):
        constructed(tmp_path, 1)
