import time
from contextlib import suppress

import pytest

from app.websearch.html_text import (
    TooNested,
    decode,
    html_paragraphs,
    is_cheap_to_parse,
    parsed,
    plain_paragraphs,
)

CHINESE = "普洱茶產自雲南，葉大味濃，愈陳愈香。"


def paragraphs(html: str, most: int = 50, most_characters: int = 10_000) -> tuple[str, ...]:
    return html_paragraphs(html, most, most_characters).paragraphs


def test_only_paragraphs_longer_than_ten_characters_count() -> None:
    html = "<p>0123456789</p><p>0123456789a</p><div>outside of any paragraph</div>"
    assert paragraphs(html) == ("0123456789a",)


def test_the_first_visible_heading_begins_each_paragraph() -> None:
    html = "<h1 hidden>No</h1><h1> \n</h1><h1>The <i>Tower</i></h1><p>It stands by the sea.</p>"
    assert html_paragraphs(html, 5, 100).title == "The Tower"
    assert paragraphs(html) == ("The Tower: It stands by the sea.",)


def test_a_chinese_heading_is_joined_by_chinese_punctuation() -> None:
    assert paragraphs("<h1>灯塔</h1><p>灯塔是建在海岸上的一种高塔。</p>") == (
        "灯塔：灯塔是建在海岸上的一种高塔。",
    )


@pytest.mark.parametrize(
    "hidden",
    [
        "<nav><div><p>hidden from every reader</p></div></nav>",
        "<footer><p>hidden from every reader</p></footer>",
        "<aside><p>hidden from every reader</p></aside>",
        "<div hidden><p>hidden from every reader</p></div>",
        '<p style="color:red;display:none">hidden from every reader</p>',
        '<p aria-hidden="true">hidden from every reader</p>',
        "<noscript><p>hidden from every reader</p></noscript>",
        "<template><p>hidden from every reader</p></template>",
        "<script>document.write('<p>hidden from every reader</p>')</script>",
        "<style>p::after{content:'<p>hidden from every reader'}</style>",
        "<!-- <p>hidden from every reader</p> -->",
    ],
)
def test_what_a_reader_does_not_see_is_left_out(hidden: str) -> None:
    assert paragraphs(f"{hidden}<p>what a reader sees</p>{hidden}") == ("what a reader sees",)


def test_hidden_parts_and_footnote_marks_within_a_paragraph_are_left_out() -> None:
    html = (
        "<p>Lava <b>cools</b> slowly<sup class='reference'><a>[1]</a></sup>"
        "<span hidden>secretly</span><br>and&nbsp;shrinks &amp;\n cracks\u200b.</p>"
    )
    assert paragraphs(html) == ("Lava cools slowly and shrinks & cracks.",)


def test_comparisons_in_scripts_are_no_tags() -> None:
    script = "<script>" + "if(a<b){c<d}" * 20_000 + "</script>"
    assert paragraphs(script + "<p>what a reader sees</p>" * 300)[0] == "what a reader sees"


def test_paragraphs_and_characters_are_bounded() -> None:
    html = "<p>twenty characters ok</p>" * 100
    assert len(paragraphs(html, most=7)) == 7
    assert sum(map(len, paragraphs(html, most_characters=50))) <= 50
    assert len(paragraphs("<p>" + "x" * 100_000, most_characters=500)[0]) == 500


def test_plain_text_is_cut_at_blank_lines() -> None:
    extract = plain_paragraphs("first block\nof two lines\r\n \r\nsecond block here", 5, 100)
    assert extract.paragraphs == ("first block of two lines", "second block here")
    assert extract.title == ""


@pytest.mark.parametrize("codec", ["gb18030", "big5", "utf-8", "utf-16"])
def test_the_header_tells_the_encoding(codec: str) -> None:
    assert decode(CHINESE.encode(codec), f'text/html; Charset="{codec.upper()}"') == CHINESE


@pytest.mark.parametrize("codec", ["gb18030", "big5", "utf-8"])
def test_the_page_tells_the_encoding(codec: str) -> None:
    for meta in (
        f'<meta charset="{codec}">',
        f"<META http-equiv=Content-Type content='text/html; charset={codec}'>",
    ):
        assert decode((meta + CHINESE).encode(codec), "text/html") == meta + CHINESE


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_read_as_the_header_or_its_mark_tells(codec: str) -> None:
    for text in ("English in two bytes a character.", CHINESE):
        name = codec.replace("-le", "le").replace("-be", "be")
        assert decode(text.encode(codec), f"text/plain; charset={name}") == text
        assert decode(("\ufeff" + text).encode(codec), "text/plain") == text


def test_an_undeclared_encoding_is_found() -> None:
    assert decode(CHINESE.encode(), "text/html") == CHINESE
    assert decode(CHINESE.encode()[:-1], "text/html") == CHINESE[:-1]
    assert decode(CHINESE.encode("gb18030"), "text/html") == CHINESE
    assert decode(b"\xef\xbb\xbfcaf\xc3\xa9", "text/html; charset=gbk") == "café"
    assert decode(b"caf\xe9 \xff\xff", "text/html") == "café ÿÿ"


def test_a_declaration_holds_to_the_last_letter() -> None:
    text = "Die Datei ist zu groß"
    assert decode(text.encode("cp1252"), "text/html; charset=iso-8859-1") == text


HOSTILE = {
    "nested": "<div>" * 200_000,
    "formatting": "".join(f"<b id={n}>" for n in range(50)) + "<p>x" * 200_000,
    "table": "<table>" + "<td>" * 200_000,
    "foreign": "<svg>" + "<g></x>" * 100_000,
    "attributes": "<p " + " ".join(f"a{n}=1" for n in range(100_000)) + ">",
    "adoption": "<a><div>" * 100_000,
    "script": "<script>" * 200_000,
    "comment": "<!--" * 200_000,
    "angles": "<" * 1_000_000,
    "split": "<scr<script></script>ipt><div>" * 40_000,
    "textarea": "<textarea><script></textarea>" + "<div>" * 200_000,
    "lists": "<li><p>" * 100_000,
    "entities": "<p>" + "&amp;" * 200_000,
    "shapes": "<svg>" + '<path d="M0"><path d="M1"/' * 40_000,
    "many attributes": ("<i " + " ".join(f"a{n}=1" for n in range(290)) + ">") * 500,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_page_costs_little(name: str) -> None:
    started = time.monotonic()
    with suppress(TooNested):
        assert len(paragraphs(HOSTILE[name])) <= 50
    assert time.monotonic() - started < 3


def test_ordinary_pages_are_cheap_enough() -> None:
    """As large as the longest articles: forty levels, links, lists, tables, forgotten ends."""
    row = "<tr><td><a href='/x' class='y'>cell</a><td>cell<li>item<p>A text <b>of</b> a row."
    html = "<div>" * 40 + f"<table>{row * 50}</table>" * 60 + "</div>" * 40
    article = "<p>A <a href='/a'>link</a> and <i>words</i> go on and on.</p>" * 15_000
    assert is_cheap_to_parse("<div>" * 40 + article)
    assert is_cheap_to_parse(html.replace("<tr>", "</td></tr><tr>").replace("<td>cell<", "</td><"))


def test_a_page_of_diagrams_is_read() -> None:
    shapes = '<path d="M0 0"/><polygon points="0 0"/><text>a label</text>' * 6_000
    tree = parsed(f"<p>Before.<svg>{shapes}</svg><p>After.")
    assert [node.text(deep=False) for node in tree.css("p")] == ["Before.", "After."]
    assert len(tree.css("text")) == 6_000
