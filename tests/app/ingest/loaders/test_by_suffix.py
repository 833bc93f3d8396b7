import gc
import io
import os
import time
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from app.ingest.loaders import document as module
from app.ingest.loaders.by_suffix import READERS, load
from app.ingest.loaders.document import (
    IMAGES,
    SUFFIXES,
    DocumentRefused,
    LoadedDocument,
    read,
)


def loaded(name: str, content: bytes) -> LoadedDocument:
    return load(Path(name), content)


def pdf(text: str, password: str | None = None) -> bytes:
    """A real one-page PDF that shows `text` in Helvetica."""
    writer = PdfWriter()
    page = writer.add_blank_page(300, 200)
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    stream = DecodedStreamObject()
    stream.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode() if text else b"")
    page[NameObject("/Contents")] = writer._add_object(stream)
    if password is not None:
        writer.encrypt(password, algorithm="RC4-128")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_markdown_knows_its_sections() -> None:
    page = loaded(
        "page.md",
        b"""# The *Pump* House

First line
of a paragraph with a [link](https://example.org) and `code`.

## Parts

- a valve
- a gauge

| part | price |
|---|---|
| valve | 3.50 |

### Old parts

```sh
# make  pump
```
""",
    )
    assert page.title == "The Pump House"
    assert [(block.headings, block.text, block.kind) for block in page.blocks] == [
        ((), "First line of a paragraph with a link and code.", "text"),
        (("Parts",), "- a valve", "text"),
        (("Parts",), "- a gauge", "text"),
        (("Parts",), "part | price\nvalve | 3.50", "table"),
        (("Parts", "Old parts"), "# make  pump", "code"),
    ]


def test_chinese_lines_are_joined_without_a_space() -> None:
    page = loaded("page.md", "# 水泵房\n\n水泵在三月\n检修过。\n".encode())
    assert (page.title, page.blocks[0].text) == ("水泵房", "水泵在三月检修过。")


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ("![The three actions](a.png)\n\nThere are three.", ["There are three."]),
        ("![三种动作](a.png)\n\n动作有三种。", ["动作有三种。"]),
        ("[![build](a.svg)](ci) ![docs](b.svg)\n\nIt runs.", ["It runs."]),
        ("Press ![Start](a.png) twice.", ["Press Start twice."]),
        ("按两次![启动](a.png)。", ["按两次启动。"]),
        ("![A pump](a.png)\nThe pump.", ["A pump The pump."]),
    ],
)
def test_the_text_of_an_image_counts_within_a_sentence_alone(
    content: str, texts: list[str]
) -> None:
    page = loaded("page.md", f"# Page\n\n{content}\n".encode())
    assert [block.text for block in page.blocks if block.picture is None] == texts


def test_front_matter_gives_the_title() -> None:
    page = loaded("page.md", b"---\ntitle: 'Pumps'\ntags: [a]\n---\n\nText.\n")
    assert (page.title, [block.text for block in page.blocks]) == ("Pumps", ["Text."])


def test_html_without_its_chrome() -> None:
    page = loaded(
        "page.html",
        b"""<!doctype html><html><head><title>Site - Pumps</title><style>p {}</style></head>
<body><nav>Home</nav><header>Logo</header><main><header><h1>Pumps</h1></header>
<div>Loose <b>text</b> here.<p>A <i>paragraph</i>.</p></div>
<h2>Parts</h2><ul><li>valve<ul><li>seat</li></ul></li><li>gauge</li></ul>
<table><tr><th>part</th><th>price</th></tr><tr><td>valve</td><td>3.50</td></tr></table>
<pre>make
  pump</pre></main><script>alert(1)</script><footer>2020</footer></body></html>""",
    )
    assert page.title == "Pumps"
    assert [(block.headings, block.text) for block in page.blocks] == [
        ((), "Loose text here."),
        ((), "A paragraph."),
        (("Parts",), "- valve"),
        (("Parts",), "- seat"),
        (("Parts",), "- gauge"),
        (("Parts",), "part | price\nvalve | 3.50"),
        (("Parts",), "make\n  pump"),
    ]


def test_landmarks_are_told_by_their_roles_too() -> None:
    page = loaded(
        "page.html",
        b"""<body><div role="search">Find</div><div><div role="main"><h1>Pumps</h1><p>Text.</p>
<div role="complementary">Beside</div></div></div><div>Menu of another kind</div>
<div role="contentinfo">2020</div></body>""",
    )
    assert (page.title, [block.text for block in page.blocks]) == ("Pumps", ["Text."])
    page = loaded("page.html", b'<p>Text.</p><div role="contentinfo">2020</div>')
    assert [block.text for block in page.blocks] == ["Text."]


def test_docbook_s_navigation_and_contents_are_left_out() -> None:
    page = loaded(
        "page.html",
        """<div class="navheader"><table><tr><td>上一页</td></tr></table></div><h1>水泵</h1>
<div class="toc"><p>目录</p><dl><dt>阀门</dt></dl></div><p>正文。</p>
<div class="navfooter"><table><tr><td>第 1 章</td><td>第 3 章</td></tr></table></div>""".encode(),
    )
    assert (page.title, [block.text for block in page.blocks]) == ("水泵", ["正文。"])


def test_a_definition_is_its_term_and_what_is_said_of_it() -> None:
    page = loaded(
        "page.html",
        b"""<dl><dt>max_rows</dt><dd>The most rows. The default is 100.</dd>
<dt>min_rows</dt><dt>least</dt>
<dd><p>The fewest.</p><pre>least = 1</pre><p>More of it.</p></dd></dl>
<p>After them.</p>""",
    )
    assert [(block.headings, block.text) for block in page.blocks] == [
        (("max_rows",), "max_rows: The most rows. The default is 100."),
        (("min_rows, least",), "min_rows, least: The fewest."),
        (("min_rows, least",), "least = 1"),
        (("min_rows, least",), "More of it."),
        ((), "After them."),
    ]


def test_what_only_leads_on_and_marks_of_headings_leave() -> None:
    page = loaded(
        "page.html",
        """<table><tr><td><a href="a">Prev</a></td><td>|</td><td><a href="b">2</a></td></tr></table>
<h2>Parts<a href="#parts">¶</a></h2><ul><li><a href="c">Index</a></li><li>a
<a href="d">valve</a></li></ul><table><tr><td><a href="e">valve</a></td><td>3.50</td></tr></table>
<p>Next: <a href="f" rel="next">Pumps</a>, Up: <a href="g" accesskey="u" rel="up">Top</a></p>
""".encode(),
    )
    assert [(block.headings, block.text) for block in page.blocks] == [
        (("Parts",), "- a valve"),
        (("Parts",), "valve | 3.50"),
    ]


def test_html_chrome_within_text_is_left_out_however_it_is_nested() -> None:
    page = loaded(
        "page.html",
        b"""<body><nav>A<nav>B</nav></nav><header>C<header>D</header></header>
<p>Press <button>E<div>F</div></button> twice.</p><script>if (a<b) {}</script>""",
    )
    assert [block.text for block in page.blocks] == ["Press twice."]


def test_html_tables_for_the_layout_are_read_cell_by_cell() -> None:
    inner = "<table><tr><td>valve</td><td>3.50</td></tr></table>"
    page = loaded(
        "page.html",
        f"<table><tr><td>Loose words.</td><td><p>One.</p>{inner}</td></tr></table>".encode(),
    )
    assert [block.text for block in page.blocks] == ["Loose words.", "One.", "valve | 3.50"]


@pytest.mark.parametrize(
    ("opened", "repeated", "count"),
    [
        ("", "<div>", 750),
        ("", "<span>", 750),
        ("", "<table><tr><td>", 175),
        ("<div>" * 60, "<p>deep words", 2000),
    ],
)
def test_deeply_nested_html_takes_time_in_proportion(
    opened: str, repeated: str, count: int
) -> None:
    text = "deep words"

    def spent_s(times: int) -> float:
        content = f"{opened}{repeated * times}{text}".encode()
        gc.disable()  # what other tests left behind is not looked through here
        started = time.process_time()
        page = loaded("page.html", content)
        taken = time.process_time() - started
        gc.enable()
        assert {block.text for block in page.blocks} <= {text, f"{text}{text}"}
        assert page.blocks
        return taken

    few = max(spent_s(count), 0.02)  # below it the clock is too coarse
    assert spent_s(4 * count) < 10 * few


@pytest.mark.parametrize("name", ["page.html", "page.md"])
@pytest.mark.parametrize("content", ["<div>" * 20_000, "<div><b><i>" * 3000 + "<p>word" * 3000])
def test_markup_built_to_exhaust_a_parser_is_refused(name: str, content: str) -> None:
    with pytest.raises(DocumentRefused, match="nested too deeply"):
        loaded(name, content.encode())


def test_each_of_many_tables_is_read_for_itself() -> None:
    table = "| a | b |\n|---|---|\n| 1 | 2 |\n\n"
    page = loaded("page.md", (table * 400).encode())
    assert [block.text for block in page.blocks] == ["a | b\n1 | 2"] * 400


def test_text_paragraphs_with_wrapped_lines() -> None:
    page = loaded(
        "notes.txt",
        b"Notes\n\nThe pump house stands at the end of the long\nroad. It is old.\n\n"
        b"- one\n- two\n",
    )
    assert page.title == "notes"
    assert [block.text for block in page.blocks] == [
        "Notes",
        "The pump house stands at the end of the long road. It is old.",
        "- one\n- two",
    ]


def test_control_characters_do_not_reach_a_terminal() -> None:
    page = loaded(
        "a.md", "# Pumps\n\n## A\x1b]0;B\x07\n\nRed \x1b[31mvalve\u009b2J\tis shut.\n".encode()
    )
    assert page.blocks[-1].text == "Red [31mvalve 2J is shut."
    assert page.blocks[-1].headings[-1] == "A]0;B"


def test_a_pdf_is_read() -> None:
    page = loaded("page.pdf", pdf("The pump was serviced in March."))
    assert [block.text for block in page.blocks] == ["The pump was serviced in March."]


@pytest.mark.parametrize(
    ("name", "encoding", "text", "block"),
    [
        ("a.txt", "utf-16", "长江是中国最长的河流。", "长江是中国最长的河流。"),
        ("a.md", "gb18030", "**重要**：请勿关机。\n", "重要：请勿关机。"),
        ("a.csv", "big5", "name,city\n張敏,Taipei\n", "name: 張敏; city: Taipei"),
        ("a.md", "cp1252", "It’s *the* café’s “menu”.\n", "It’s the café’s “menu”."),
        ("a.html", "cp932", "<meta charset=Shift_JIS><p>休暇は十日です。", "休暇は十日です。"),
        ("a.html", "utf-8", "<meta charset=big5><p>員工年假", "員工年假"),
    ],
)
def test_old_encodings_are_read(name: str, encoding: str, text: str, block: str) -> None:
    assert loaded(name, text.encode(encoding)).blocks[0].text == block


def test_every_known_suffix_has_a_reader() -> None:
    assert READERS.keys() | IMAGES == SUFFIXES


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.txt", b"", "empty"),
        ("a.md", b" \n\t\n", "empty"),
        ("a.txt", b"\x00\x01\x02", "binary"),
        ("a.txt", "Отпуск длится десять дней.".encode("cp1251"), "encoding is not known"),
        ("a.odt", b"PK", "unknown kind of file: .odt"),
        ("a", b"text", "unknown kind of file: a"),
        ("a.html", b"<html><body><script>1</script></body></html>", "no text"),
        ("a.md", b"# Only a title\n", "no text"),
        ("a.pdf", b"%PDF-1.7 and then nothing", "damaged PDF"),
        ("a.pdf", b"not a PDF at all", "damaged PDF"),
    ],
)
def test_refused_with_a_reason(name: str, content: bytes, reason: str) -> None:
    with pytest.raises(DocumentRefused, match=reason):
        loaded(name, content)


def test_an_encrypted_pdf_is_refused() -> None:
    content = pdf("Secret.", password="pump")
    assert PdfReader(io.BytesIO(content)).is_encrypted
    with pytest.raises(DocumentRefused, match="password"):
        loaded("a.pdf", content)


def test_a_scan_is_refused() -> None:
    with pytest.raises(DocumentRefused, match="text recognition"):
        loaded("a.pdf", pdf(""))


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentRefused, match="cannot be read"):
        read(tmp_path / "gone.md")
    (tmp_path / "folder.md").mkdir()
    with pytest.raises(DocumentRefused, match="cannot be read"):
        read(tmp_path / "folder.md")


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "endless.md").symlink_to("/dev/zero")
    for name in ("pipe.md", "endless.md"):
        with pytest.raises(DocumentRefused, match="not a regular file"):
            read(tmp_path / name)


def test_a_file_over_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    (tmp_path / "long.md").write_text("eleven characters", "utf-8")
    with pytest.raises(DocumentRefused, match="too large"):
        read(tmp_path / "long.md")
