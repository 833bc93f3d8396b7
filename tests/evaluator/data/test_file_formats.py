"""Data files of every format as users bring them, and what is refused with its line."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from evaluator.data.records import Record, read_file, read_folder, read_judgements
from evaluator.errors import DataError

LONG = "How long is the river?"
RIVER = "The river is 212 km long."
MILL = "The mill grinds rye."


def wrote(path: Path, *rows: Any) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def told(records: list[Record]) -> list[tuple[str, str, bool]]:
    return [(record.question, record.passage, record.relevant) for record in records]


def pair(label: object, passage: str = RIVER, **more: object) -> dict[str, object]:
    return {"question": LONG, "passage": passage, "label": label, **more}


def critic(task: str, told: str, output: str, instruction: str = "Judge.") -> dict[str, str]:
    return {"task": task, "instruction": instruction, "input": told, "output": output}


BOTH_WAYS = [(LONG, RIVER, True), (LONG, MILL, False)]


@pytest.mark.parametrize("name", ["x.tsv", "x.txt", "x.tsv.gz", "x.txt.gz"])
@pytest.mark.parametrize("negative", ["-1", "0"])
def test_crags_text_files(tmp_path: Path, name: str, negative: str) -> None:
    lines = [f"{LONG} [SEP] {RIVER}\t1", f"{LONG} [SEP] {MILL}\t{negative}"]
    assert told(read_file(wrote(tmp_path / name, *lines))) == BOTH_WAYS


def test_a_title_before_slashes_is_known_as_one(tmp_path: Path) -> None:
    lines = [f"{LONG} [SEP] Oder // {RIVER}\t1", "河有多长？ [SEP] 磨坊 // 磨坊磨黑麦。\t-1"]
    records = read_file(wrote(tmp_path / "x.tsv", *lines))
    assert [(r.title, r.passage, r.language, r.answers) for r in records] == [
        ("Oder", RIVER, "en", ()), ("磨坊", "磨坊磨黑麦。", "zh", ()),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("yes", "no"),
    [
        (True, False), (1, -1), (1.0, -1.0), ("1", "-1"), (1, 0), ("true", "False"),
        ("relevant", "irrelevant"), ("[Relevant]", "[Irrelevant]"),
    ],
)  # fmt: skip
def test_feedback_rows(tmp_path: Path, yes: object, no: object) -> None:
    path = wrote(tmp_path / "x.jsonl.gz", pair(yes), pair(no, MILL))
    assert told(read_file(path)) == BOTH_WAYS


def test_an_answer_marks_its_sentence_unless_users_rejected_it(tmp_path: Path) -> None:
    rows = [
        pair(True, answer="212 km", score=1),
        pair(True, f"{RIVER} It is cold.", answer="212 km", score=-0.5),
        pair(True, f"{RIVER} It is old.", answer="400 km"),
        pair(False, MILL, answer="212 km"),
    ]
    records = read_file(wrote(tmp_path / "x.jsonl", *rows))
    assert [record.answers for record in records] == [("212 km",), (), (), ()]


def test_popqa_holds_its_subjects_page_for_relevant(tmp_path: Path) -> None:
    row = {
        "question": LONG, "prop": "length", "subj": "Oder", "s_wiki_title": "Oder_River",
        "possible_answers": '["212 km", "131 mi"]',
        "ctxs": [
            {"title": "Oder River", "text": RIVER}, {"title": "oder river", "text": "It is cold."},
            {"title": "Mill", "text": "A mill stands 212 km away."},
        ],
    }  # fmt: skip
    records = read_file(wrote(tmp_path / "x.jsonl", row))
    assert [(r.relevant, r.answers) for r in records] == [
        (True, ("212 km", "131 mi")), (True, ()), (False, ()),
    ]  # fmt: skip
    page = {"question": LONG, "prop": "length", "answers": ["212 km"], "passage": RIVER}
    assert told(read_file(wrote(tmp_path / "y.jsonl", page))) == BOTH_WAYS[:1]
    only_asked = {"question": LONG, "prop": "length", "answers": ["212 km"]}
    assert read_file(wrote(tmp_path / "z.jsonl", only_asked)) == []


def test_ares_rows_may_call_the_passage_document(tmp_path: Path) -> None:
    row = {"question": LONG, "document": RIVER, "answer": "212 km", "answer_faithful": True}
    rows = [{**row, "context_relevant": True}, {**row, "document": MILL, "context_relevant": None}]
    assert told(read_file(wrote(tmp_path / "x.jsonl", *rows))) == BOTH_WAYS[:1]


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_json_arrays_and_lines_in_json_files(tmp_path: Path, name: str) -> None:
    rows = [pair(1), pair(-1, MILL)]
    assert told(read_file(wrote(tmp_path / name, json.dumps(rows)))) == BOTH_WAYS
    assert told(read_file(wrote(tmp_path / name, json.dumps(rows, indent=1)))) == BOTH_WAYS
    assert told(read_file(wrote(tmp_path / name, *rows))) == BOTH_WAYS


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_bytes(
        b"\xef\xbb\xbf" + f"{LONG} [SEP] {RIVER}\t1\r\n{LONG} [SEP] {MILL}\t-1\r\n\r\n".encode()
    )
    assert told(read_file(path)) == BOTH_WAYS


def test_one_folder_holds_all_formats(tmp_path: Path) -> None:
    wrote(tmp_path / "a.tsv", f"{LONG} [SEP] {RIVER}\t1", f"{LONG} [SEP] {MILL}\t-1")
    wrote(tmp_path / "b.jsonl", pair(True), pair(False, MILL))
    evidence = f"Task instruction: {LONG}\nEvidence: "
    wrote(
        tmp_path / "c.json",
        json.dumps([
            critic("relevance", evidence + RIVER, "[Relevant]"),
            critic("relevance", evidence + MILL, "[Irrelevant]"),
            critic("retrieval", f"Task instruction: {LONG}", "[Retrieval]"),
        ]),
    )  # fmt: skip
    wrote(tmp_path / "bench_x.tsv", "broken")
    wrote(tmp_path / "README.txt", "Data of our own.")
    records = read_folder(tmp_path)
    assert [record.source for record in records] == ["a", "a", "b", "b", "c", "c"]
    assert told(records) == 3 * BOTH_WAYS
    (judgement,) = read_judgements(tmp_path)
    assert (judgement.task, judgement.source, judgement.second) == ("retrieval", "c", "")


TASK = f"Task instruction: {LONG}\n"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            critic("retrieval", f"##\n{TASK}", "[No Retrieval]"),
            ("retrieval", LONG, "", "[No Retrieval]"),
        ),
        (
            critic("multi_retrieval",
                   f"{TASK}Preceding sentences: It\nflows.\nEvidence: {RIVER}\nOutput: Long.",
                   "[Continue to Use Evidence]"),
            ("retrieval", LONG, RIVER, "[Continue to Use Evidence]"),
        ),
        (
            critic("groundness", f"{TASK}Output: 212 km.\nEvidence: {RIVER}", "[Fully support]"),
            ("support", f"{LONG} [SEP] 212 km.", RIVER, "[Fully supported]"),
        ),
        (
            critic("groudness", f"{TASK}Evidence: {MILL}\nOutput: 212 km.", " [No support] "),
            ("support", f"{LONG} [SEP] 212 km.", MILL, "[No support / Contradictory]"),
        ),
        (
            critic("groundness", f"{TASK}Output: 212 km.\nEvidence: {RIVER}",
                   "[Partially supported]"),
            ("support", f"{LONG} [SEP] 212 km.", RIVER, "[Partially supported]"),
        ),
        (
            critic("utility", "Task instruction: Add.\nInput: 1\nOutput: 2\nOutput: 3",
                   "[Utility:4]"),
            ("utility", "Add.\nInput: 1\nOutput: 2", "3", "[Utility:4]"),
        ),
        (
            critic("utility", "全长212公里。", "[Utility:5]", "河有多长？"),
            ("utility", "河有多长？", "全长212公里。", "[Utility:5]"),
        ),
    ],
)  # fmt: skip
def test_critic_rows_become_judgements(
    tmp_path: Path, row: dict[str, str], expected: tuple[str, ...]
) -> None:
    wrote(tmp_path / "x.jsonl", row)
    (found,) = read_judgements(tmp_path)
    assert (found.task, found.first, found.second, found.label) == expected
    assert found.language == ("zh" if "河" in found.first else "en")
    assert read_file(tmp_path / "x.jsonl") == []


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (critic("relevance", TASK, "[Relevant]"), "relevance needs its evidence"),
        (critic("groundness", TASK + "Output: x", "[No support]"), "needs its evidence"),
        (critic("groundness", RIVER, "[No support]", LONG), "needs its answer"),
        (critic("utility", TASK, "[Utility:1]"), "needs its answer"),
        (critic("utility", TASK + "Output: x", "[Utility:6]"), "output must be one of"),
        (critic("retrieval", TASK, "[Relevant]"), r"output must be one of \[Retrieval\]"),
        (critic("retrieval", TASK, "[Continue to Use Evidence]"), "needs the evidence"),
        (critic("grading", TASK, "[Relevant]"), "task must be one of retrieval, "),
        ({"task": "utility", "input": TASK, "output": "[Utility:1]"}, "lacks instruction"),
    ],
)
def test_faulty_critic_rows_name_their_line(
    tmp_path: Path, row: dict[str, str], words: str
) -> None:
    wrote(tmp_path / "x.jsonl", critic("retrieval", TASK, "[Retrieval]"), row)
    with pytest.raises(DataError, match=rf"x\.jsonl:2.*{words}"):
        read_judgements(tmp_path)


def test_sentences_of_one_answer_may_be_judged_differently(tmp_path: Path) -> None:
    asked = f"{TASK}Evidence: {RIVER}\nOutput: "
    rows = [critic("multi_retrieval", asked + "Long.", "[Retrieval]"),
            critic("multi_retrieval", asked + "Cold.", "[No Retrieval]")]  # fmt: skip
    wrote(tmp_path / "x.jsonl", *rows)
    assert len(read_judgements(tmp_path)) == 2
    wrote(tmp_path / "x.jsonl", *rows, {**rows[0], "output": "[No Retrieval]"})
    with pytest.raises(DataError, match=r"x\.jsonl:3 .*x\.jsonl:1 "):
        read_judgements(tmp_path)


SQUAD = {"question": LONG, "answers": ["212 km"], "answerable": True, "passage": RIVER}


@pytest.mark.parametrize(
    ("name", "rows", "words"),
    [
        ("x.tsv", [f"{LONG} [SEP] {RIVER}\t1", f"{LONG} [SEP] {MILL}\t2"], ":2: the label must be"),
        ("x.tsv", [f"{LONG} [SEP] {RIVER}\t1", f"{LONG} [SEP] {MILL}"], ":2 lacks its label"),
        ("x.tsv", [f"{LONG} [SEP] {RIVER}\t1\t"], ":1 has a tab too many"),
        ("x.tsv", [f"{LONG} {RIVER}\t1"], r":1 lacks the \[SEP\]"),
        ("x.tsv", [f"{LONG} [SEP] \t1"], ":1: passage must be"),
        ("x.tsv", [f"{LONG} [SEP] {RIVER}\t1", "", f"{LONG} [SEP] {MILL}\t0"], ":2 lacks its"),
        ("x.tsv", [f"{LONG} [SEP] {RIVER}\t1"], ":1: every pair .* is labelled relevant"),
        ("x.tsv", [], " is empty"),
        ("x.json", ["[]"], " is empty"),
        ("x.json", ["[", json.dumps(pair(1)) + ",", '{"question"]'], " is not JSON: .* line 3"),
        ("x.json", ["[", json.dumps(pair(1)) + ",", "7]"], ": row 2 holds no object"),
        ("x.jsonl", [pair(1), "", pair(-1, MILL)], ":2 is blank"),
        ("x.jsonl", [pair(1), pair("maybe", MILL)], ":2: label must be true or false"),
        ("x.jsonl", [pair(1), pair(None, MILL)], ":2: label must be true or false"),
        ("x.jsonl", [pair(1), pair(2, MILL)], ":2: label must be true or false"),
        ("x.jsonl", [pair(1), pair(-1, MILL, score="good")], ":2: score must be a number"),
        ("x.jsonl", [pair(1), pair(-1, MILL, score=3)], ":2: score must be a number"),
        ("x.jsonl", [pair(1), json.dumps(pair(-1, "\ud800"))], ":2: passage holds half"),
        ("x.jsonl", [pair(-1), pair(-1, MILL)], ":1: every pair .* is labelled irrelevant"),
        ("x.jsonl", [pair(1), pair(-1, MILL), pair(0)], r":3 labels .*x\.jsonl:1 labels"),
        ("x.jsonl", [pair(1), SQUAD], ":2 differs: .* SQuAD-like, .* pair"),
        ("x.jsonl", [pair(1), {"question": LONG, "passage": MILL}], ":2 lacks label"),
        ("x.jsonl", [pair(1), {"passage": MILL, "label": 1}], ":2 lacks question"),
        ("x.jsonl", [{"question": LONG, "passage": RIVER}], ":1: nothing says whether"),
        ("x.jsonl", [{"question": LONG, "answerable": True}], ":1 lacks passage"),
        ("x.jsonl", [{"question": LONG, "context_relevant": True}], ":1 lacks passage or document"),
        ("x.jsonl", [{**SQUAD, "answers": "212 km"}], ":1: answers must be a list"),
        ("x.jsonl", [SQUAD, "{broken"], ":2 is not JSON"),
        ("x.jsonl", [SQUAD, "[1]"], ":2 holds no object"),
        ("x.jsonl", [SQUAD, {**SQUAD, "answerable": "yes"}], ":2: answerable must be true or"),
        ("x.jsonl", [SQUAD, {**SQUAD, "answers": []}], ":2: answerable, but without"),
        ("x.jsonl", [SQUAD, {**SQUAD, "passage": " "}], ":2: passage must be"),
        ("x.jsonl", [SQUAD, {**SQUAD, "answerable": False}], r":2 labels .*x\.jsonl:1 labels"),
        (
            "x.jsonl",
            [critic("relevance", f"{TASK}Evidence: {RIVER}", "[Relevant]")],
            ":1: every pair .* is labelled relevant",
        ),
    ],
)
def test_refusals_name_file_and_line(
    tmp_path: Path, name: str, rows: list[Any], words: str
) -> None:
    path = wrote(tmp_path / name, *rows)
    stem, _, suffix = name.partition(".")
    with pytest.raises(DataError, match=rf"{stem}\.{suffix}{words}"):
        read_folder(path.parent)
    wrote(tmp_path / f"{name}.gz", *rows)
    path.unlink()
    with pytest.raises(DataError, match=rf"{stem}\.{suffix}\.gz"):
        read_folder(path.parent)


@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "x.tsv"])
def test_text_that_is_no_utf8_names_its_line(tmp_path: Path, name: str) -> None:
    good = f"{LONG} [SEP] {RIVER}\t1" if name == "x.tsv" else json.dumps(pair(1))
    start = b"[" if name == "x.json" else b""
    (tmp_path / name).write_bytes(start + good.encode() + b"\n\xb9\xfe\n")
    with pytest.raises(DataError, match=rf"{name}:2 cannot be read as UTF-8"):
        read_folder(tmp_path)


def test_a_gzip_cut_short_or_none_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(json.dumps(pair(1)).encode() * 50)
    for content in (whole[:-9], whole[:12] + b"\xff\xff" + whole[14:], b"plain"):
        (tmp_path / "x.jsonl.gz").write_bytes(content)
        with pytest.raises(DataError, match="cannot be read"):
            read_folder(tmp_path)


def test_a_published_set_may_hold_a_few_contradictions(tmp_path: Path) -> None:
    rows = [{**SQUAD, "question": f"{n}. {LONG}"} for n in range(200)]
    wrote(tmp_path / "x.jsonl", *rows, {**rows[3], "answerable": False})
    assert len(read_folder(tmp_path)) == 201
