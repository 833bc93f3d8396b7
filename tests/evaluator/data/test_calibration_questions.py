import json
from dataclasses import asdict
from pathlib import Path

import pytest

from evaluator.data.calibration_questions import LabelledQuestion, read_questions
from evaluator.errors import DataError
from tests.evaluator.data.test_file_formats import wrote

ASKED = {"question": "How?", "passages": ["so", "thus"], "labels": [True, False]}
NONE = {"question": "Why?", "passages": ["so"], "labels": [False]}
JUDGED = {"question": "How?", "passage": "so", "label": True}
JUDGED_NOT = {"question": "怎样？", "passage": "不", "label": False}


def test_questions_are_read_back(tmp_path: Path) -> None:
    made = [
        LabelledQuestion("How?", ["so", "thus"], [True, False], ["so"], ["thus"]),
        LabelledQuestion("怎样？", ["不"], [False]),
    ]
    for name in ("questions.jsonl", "questions.jsonl.gz"):
        assert read_questions(wrote(tmp_path / name, *map(asdict, made))) == made


def test_feedback_is_gathered_by_question(tmp_path: Path) -> None:
    path = wrote(
        tmp_path / "feedback.jsonl",
        JUDGED,
        JUDGED_NOT,
        {"question": "How? ", "passage": "thus", "label": -1, "score": 0.3},
        {"question": "How?", "passage": "so", "label": 1},
        {"question": "Why?", "passage": "so", "label": "irrelevant"},
    )
    assert read_questions(path) == [
        LabelledQuestion("How?", ["so", "thus"], [True, False]),
        LabelledQuestion("怎样？", ["不"], [False]),
        LabelledQuestion("Why?", ["so"], [False]),
    ]


def test_a_title_stands_before_its_passage_as_the_service_grades_it(tmp_path: Path) -> None:
    path = wrote(
        tmp_path / "feedback.jsonl",
        {**JUDGED, "title": "Bread"},
        {**JUDGED, "passage": "thus", "title": ""},
        {**JUDGED_NOT, "title": "面包"},
    )
    assert [question.passages for question in read_questions(path)] == [
        ["Bread // so", "thus"],
        ["面包 // 不"],
    ]
    path = wrote(tmp_path / "faulty.jsonl", {**JUDGED, "title": 3}, JUDGED_NOT)
    with pytest.raises(DataError, match=":1: title must be a text"):
        read_questions(path)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("{", ":2 is not JSON"),
        ("[]", ":2 holds no object"),
        ({"question": "How?"}, ":2: not a labelled question"),
        ({**ASKED, "passage": "so", "label": True}, ":2: not a labelled question"),
        ({**ASKED, "labels": [True]}, ":2: 2 passages, but 1 labels"),
        ({**ASKED, "labels": [True, "yes"]}, r":2: label must .* not .yes"),
        ({**ASKED, "labels": [True, 2]}, ":2: label must"),
        ({**ASKED, "labels": [True, None]}, ":2: label must"),
        ({**ASKED, "labels": [True, []]}, ":2: label must"),
        ({**ASKED, "labels": "10"}, ":2: passages and labels must be lists"),
        ({**ASKED, "passages": [], "labels": []}, ":2: passages and labels must"),
        ({**ASKED, "passages": ["so", 3]}, ":2: each of passages must be a text"),
        ({**ASKED, "strips": "so"}, ":2: strips must be a list"),
        ({**ASKED, "question": " "}, ":2: question must"),
        (JUDGED, ":2: a row .* among rows"),
        (json.dumps({**ASKED, "question": "河\ud83d"}), ":2: question holds half of a surrogate"),
        (json.dumps({**ASKED, "strips": ["so \ud83d"]}), ":2: each of strips holds half of a"),
    ],
)
def test_faults_name_file_and_line(tmp_path: Path, row: object, words: str) -> None:
    path = wrote(tmp_path / "questions.jsonl", NONE, row)
    with pytest.raises(DataError, match=f"questions.jsonl{words}"):
        read_questions(path)


def test_opposite_labels_of_one_pair_name_both_lines(tmp_path: Path) -> None:
    path = wrote(tmp_path / "feedback.jsonl", JUDGED, JUDGED_NOT, {**JUDGED, "label": False})
    with pytest.raises(DataError, match=r":3 labels the pair of .*:1 the other way"):
        read_questions(path)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((ASKED, ASKED), "jsonl: no question without an answering passage among 2"),
        ((NONE,), "jsonl: no question with an answering passage"),
        ((JUDGED,), "jsonl: no question without"),
    ],
)
def test_one_kind_of_question_is_refused(
    tmp_path: Path, rows: tuple[object, ...], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        read_questions(wrote(tmp_path / "questions.jsonl", *rows))


def test_broken_bytes_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_bytes(json.dumps(ASKED).encode() + b"\n\xff\n")
    with pytest.raises(DataError, match=":2 cannot be read as UTF-8"):
        read_questions(path)
    path.write_bytes(b"")
    with pytest.raises(DataError, match="is empty"):
        read_questions(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_questions(tmp_path / "missing.jsonl")
