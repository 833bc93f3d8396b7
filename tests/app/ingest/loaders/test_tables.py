import json
from pathlib import Path

import pytest

from app.ingest.chunker import chunk
from app.ingest.loaders import tables as tabular
from app.ingest.loaders.by_suffix import load
from app.ingest.loaders.document import DocumentRefused
from app.ingest.pipeline import ingest
from app.retrieval.retriever import HybridRetriever


def passages(name: str, text: str) -> list[tuple[tuple[str, ...], str]]:
    document = load(Path(name), text.encode())
    assert document.title == "prices"
    return [(part.headings, part.text) for part in chunk(document.blocks)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("prices.csv", "part,price\nvalve,3.50\n\n,\nseal; red,\n"),
        ("prices.csv", 'part;price\nvalve;3.50\n\n;\n"seal; red";\n'),
        ("prices.csv", "part|price\r\nvalve|3.50\r\n\r\n|\r\nseal; red|\r\n"),
        ("prices.tsv", "part\tprice\nvalve\t3.50\n\n\t\nseal; red\t\n"),
    ],
)
def test_one_row_is_one_passage_whatever_stands_between_cells(name: str, text: str) -> None:
    assert passages(name, text) == [
        (("#2",), "part: valve; price: 3.50"),
        (("#5",), "part: seal; red"),
    ]


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [
        ("prices.csv", "\n;;\n部件;价格\n阀门;3,50\n", 4),
        ("prices.tsv", "\n部件\t价格\n阀门\t3,50\n", 3),
        ("prices.csv", "部件;价格;;\n阀门;3,50;;\n", 2),
    ],
)
def test_what_stands_before_or_behind_the_names_hides_none(
    name: str, text: str, number: int
) -> None:
    assert passages(name, text) == [((f"#{number}",), "部件: 阀门; 价格: 3,50")]


def test_a_title_above_a_table_names_no_column() -> None:
    text = "Prices of May,,\n部件,价格,\n阀门,3.50,红\n"
    assert [told for _, told in passages("prices.csv", text)] == [
        "Prices of May",
        "部件; 价格",
        "阀门; 3.50; 红",
    ]


def test_a_first_row_of_values_names_no_columns() -> None:
    assert passages("prices.csv", "valve,3.50\nseal,1\n") == [
        (("#1",), "valve; 3.50"),
        (("#2",), "seal; 1"),
    ]


def test_chinese_columns_and_quoted_line_ends() -> None:
    assert passages("prices.csv", '部件,说明\n阀门,"第一行\n第二行"\n') == [
        (("#2",), "部件: 阀门; 说明: 第一行 第二行")
    ]


def test_a_huge_cell_is_cut_into_passages_of_its_row() -> None:
    found = passages("prices.csv", "part,story\nvalve," + "It was sold again. " * 20_000)
    assert len(found) > 100
    assert {headings for headings, _ in found} == {("#2",)}
    assert max(len(text) for _, text in found) < 2000


def test_records_with_a_text_stand_under_their_title() -> None:
    lines = [
        {"title": "Valve", "text": "It is red.\n\nIt leaks.", "id": 7},
        {"Name": "Valve", "Passage": "It was sold."},
        {"content": "Words."},
    ]
    expected = [
        (("Valve", "#1"), "It is red.\nIt leaks."),
        (("Valve", "#2"), "It was sold."),
        (("#3",), "Words."),
    ]
    assert passages("prices.jsonl", "\n".join(map(json.dumps, lines))) == expected
    assert passages("prices.json", json.dumps(lines)) == expected
    assert passages("prices.json", json.dumps({"data": lines})) == expected
    listed = {"version": 1, "标签": ["a"], "faqs": lines, "next": None}
    assert passages("prices.json", json.dumps(listed)) == [((), "version: 1; 标签: a"), *expected]
    assert passages("prices.json", json.dumps({"total": 3, "items": [], "data": lines})) == [
        ((), "total: 3"),
        *expected,
    ]


@pytest.mark.parametrize(
    ("title", "text"),
    [("标题", "内容"), ("標題", "內容"), ("题目", "正文"), ("題目", "文本"), ("名称", "段落")],
)
def test_chinese_fields_are_title_and_text(title: str, text: str) -> None:
    record = {title: "阀门", "编号": 7, text: "阀门是红色的。\n\n阀门在夜里打开。"}
    assert passages("prices.json", json.dumps(record)) == [
        (("阀门", "#1"), "阀门是红色的。\n阀门在夜里打开。")
    ]


def test_a_record_with_a_text_or_two_lists_stays_whole() -> None:
    parts = [{"part": "seal"}, {"part": "阀座"}]
    told = {"name": "Valve", "text": "It is red.", "parts": parts}
    assert passages("prices.json", json.dumps(told)) == [(("Valve", "#1"), "It is red.")]
    (both,) = passages("prices.json", json.dumps({"old": parts, "new": parts}))
    assert both[0] == ("#1",)


def test_other_records_are_told_field_by_field() -> None:
    record = {
        "部件": "阀门",
        "size": {"mm": 12, "sold": True},
        "tags": ["a", "b", {"c": 1}],
        "x": None,
    }
    (passage,) = passages("prices.json", json.dumps(record))
    assert passage == (
        ("#1",),
        "部件: 阀门; size.mm: 12; size.sold: true; tags: a, b; tags.c: 1",
    )


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text"\n', "line 2 is not JSON"),
        ("a.json", "{", "is not JSON"),
        ("a.json", "1" * 5000, "is not JSON"),
        ("a.json", '{"a": null}', "no text"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.csv", "a,b\n", "no text"),
    ],
)
def test_refused_with_a_reason(name: str, text: str, reason: str) -> None:
    with pytest.raises(DocumentRefused, match=reason):
        load(Path(name), text.encode())


def test_too_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular, "MAX_ROWS", 2)
    for name, text in (("a.csv", "1\n2\n3\n"), ("a.jsonl", "1\n2\n3\n"), ("a.json", "[1, 2, 3]")):
        with pytest.raises(DocumentRefused, match="more than 2 rows"):
            load(Path(name), text.encode())


@pytest.mark.parametrize("ending", ["json", "jsonl"])
async def test_half_a_character_keeps_nothing_out(
    retriever: HybridRetriever, tmp_path: Path, ending: str
) -> None:
    records = r'{"title": "Valve \ud83d", "text": "It is red \udc00. 阀门\ud83d\ude00在夜里打开。"}'
    half, whole = tmp_path / f"half.{ending}", tmp_path / "whole.md"
    half.write_text(records, "utf-8")
    whole.write_text("Words.\n", "utf-8")
    report = await ingest([half, whole], retriever.index, retriever.segmenter)
    assert (len(report.added), report.refused) == (2, [])
    first, *_ = await retriever.retrieve("阀门何时打开？", 1)
    assert first.text == "It is red \ufffd. 阀门😀在夜里打开。"
    assert first.title == "half › Valve \ufffd › #1"
