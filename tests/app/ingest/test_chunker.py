import re

from hypothesis import given
from hypothesis import strategies as st

from app.ingest.chunker import CHUNK_TOKENS, HARD_TOKENS, chunk
from app.ingest.loaders.document import Block
from graphs.text.sentences import sentences, token_count

ENGLISH = st.sampled_from(
    [
        "The pump was serviced in March.",
        "Version 2.1 of the valve costs 3.50 euros, e.g. in Lyon.",
        "Who opened the gate?",
        "See https://example.org/a.b/c?d=1 for the drawing!",
        "Dr. Lind measured 0.592 bar; nobody else did so on that long and windy afternoon.",
    ]
)
CHINESE = st.sampled_from(
    [
        "水泵在三月检修过。",
        "谁打开了闸门？",
        "第二版阀门的价格是3.5元，只在里昂出售！",
        "他说：“今天不下雨。”",
        "压力计读数为0.592巴；没有人再测过。",
    ]
)


@given(st.lists(ENGLISH, min_size=1, max_size=60))
def test_english_sentences_all_arrive_whole_and_in_order(written: list[str]) -> None:
    chunks = chunk([Block(" ".join(written))])
    assert [part for found in chunks for part in sentences(found.text)] == sentences(
        " ".join(written)
    )
    assert all(token_count(found.text) <= CHUNK_TOKENS + 1 for found in chunks)


@given(st.lists(CHINESE, min_size=1, max_size=60))
def test_chinese_sentences_are_joined_without_spaces(written: list[str]) -> None:
    chunks = chunk([Block("".join(written))])
    assert "".join(found.text for found in chunks) == "".join(written)
    for found in chunks:
        assert re.search(r"[。？！”；]$", found.text)


@given(st.lists(st.text(max_size=80), max_size=20))
def test_no_text_is_lost_whatever_it_is(texts: list[str]) -> None:
    chunks = chunk([Block(text) for text in texts])
    kept = "".join("".join(found.text.split()) for found in chunks)
    assert kept == "".join("".join(text.split()) for text in texts)


def test_sections_are_never_mixed() -> None:
    chunks = chunk(
        [Block("One.", ("A",)), Block("Two.", ("A",)), Block("Three.", ("A", "B")), Block("Four.")]
    )
    assert [(found.text, found.headings) for found in chunks] == [
        ("One.\nTwo.", ("A",)),
        ("Three.", ("A", "B")),
        ("Four.", ()),
    ]


def test_a_listing_stays_whole_where_it_fits() -> None:
    listing = "\n".join(f"step {number}. go on" for number in range(12))
    around = "word " * 100
    chunks = chunk([Block(around), Block(listing, kind="code"), Block(around)])
    assert sum(listing in found.text for found in chunks) == 1


def test_a_long_listing_is_cut_at_line_ends() -> None:
    lines = [f"value number {number} is {number * 7}" for number in range(300)]
    chunks = chunk([Block("\n".join(lines), kind="code")])
    assert len(chunks) > 1
    texts = [found.text for found in chunks]
    assert all(text.startswith("```\n") and text.endswith("\n```") for text in texts)
    assert [line for found in chunks for line in found.text.splitlines() if line != "```"] == lines


def test_each_part_of_a_long_table_has_its_head() -> None:
    rows = [f"option_{number} | {number * 7} seconds" for number in range(300)]
    chunks = chunk([Block("\n".join(["name | default", *rows]), kind="table")])
    assert len(chunks) > 1
    lines = [found.text.splitlines() for found in chunks]
    assert {first for first, *_ in lines} == {"name | default"}
    assert [row for _, *own in lines for row in own if row != "name | default"] == rows


def test_a_long_sentence_stays_whole_up_to_the_hard_cap() -> None:
    long = "the river " * (CHUNK_TOKENS // 2) + "ends."
    assert [found.text for found in chunk([Block(long)])] == [long]
    longer = "the river flows on, " * HARD_TOKENS + "and ends."
    chunks = chunk([Block(longer)])
    assert len(chunks) > 1
    assert all(token_count(found.text) <= HARD_TOKENS + 1 for found in chunks)
    assert " ".join(found.text for found in chunks) == longer


def test_encoded_data_without_any_space_is_cut_too() -> None:
    chunks = chunk([Block("QUJD" * 20_000)])
    assert max(len(found.text) for found in chunks) <= 8 * HARD_TOKENS
