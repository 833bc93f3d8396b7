import io
import zipfile
from pathlib import Path

import pytest

from app.ingest.loaders import office
from app.ingest.loaders.by_suffix import load
from app.ingest.loaders.document import DocumentRefused
from tests.app.ingest.word import paragraph, table, word


def test_headings_paragraphs_and_tables_are_kept() -> None:
    body = (
        paragraph("The pump house", "Heading1")
        + paragraph("It stands by the river.")
        + paragraph("Parts", "Heading2")
        + table(("part", "price"), ("valve", "3.50"))
        + paragraph("维护", "Heading2")
        + paragraph("水泵在三月检修过。")
    )
    document = load(Path("house.docx"), word(body))
    assert document.title == "The pump house"
    assert [(block.headings, block.text, block.kind) for block in document.blocks] == [
        ((), "It stands by the river.", "text"),
        (("Parts",), "part | price\nvalve | 3.50", "table"),
        (("维护",), "水泵在三月检修过。", "text"),
    ]


def test_paragraphs_of_one_cell_stay_apart() -> None:
    cell = f"<w:tc>{paragraph('one')}{paragraph('two')}</w:tc>"
    document = load(Path("a.docx"), word(f"<w:tbl><w:tr>{cell}</w:tr></w:tbl>"))
    assert [block.text for block in document.blocks] == ["one two"]


LAUGHS = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
LAUGHS = f'<!DOCTYPE d [<!ENTITY a0 "ha">{LAUGHS}]>'
OUTSIDE = '<!DOCTYPE d [<!ENTITY a SYSTEM "file:///etc/hostname">]>'


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"PK and nothing more", "damaged Word file"),
        (word("<w:p>")[:-40], "damaged Word file"),
        (word("<w:p>"), "damaged Word file"),
        (office.OLE + b"\0" * 600, "without a password"),
        (word(paragraph("&a9;"), prolog=LAUGHS), "damaged Word file"),
        (word(paragraph("&a;"), prolog=OUTSIDE), "no text"),
        (word(paragraph("")), "no text"),
    ],
)
def test_what_word_would_not_open_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(DocumentRefused, match=reason):
        load(Path("a.docx"), content)


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = word(paragraph("boom"), bomb=b"\0" * 40_000_000)
    assert len(bomb) < 50_000
    with pytest.raises(DocumentRefused, match="would unpack to 40 MB"):
        load(Path("a.docx"), bomb)


def test_a_part_that_lies_about_its_size_is_damage() -> None:
    body = word(paragraph("boom " * 100_000))
    size = zipfile.ZipFile(io.BytesIO(body)).getinfo("word/document.xml").file_size
    lying = body.replace(size.to_bytes(4, "little"), (900).to_bytes(4, "little"))
    assert lying != body
    with pytest.raises(DocumentRefused, match="damaged Word file"):
        load(Path("a.docx"), lying)
