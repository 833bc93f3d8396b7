"""The table of encodings, and what a page's head declares, and what is likeliest."""

import codecs
import zlib
from pathlib import Path

import pytest
from opencc import OpenCC

from app.websearch.html_text import CODECS, codec_of, declared_charset, decoded, is_utf_8, likely


def test_every_name_has_a_codec() -> None:
    for name in CODECS:
        assert codecs.lookup(codec_of(f" {name.upper()} ")), name


def test_other_names_have_none() -> None:
    assert [codec_of(name) for name in ("", "iso-8859-12", "punycode", "zlib", "latin-9000")] == [
        ""
    ] * 5


@pytest.mark.parametrize(
    ("head", "declared"),
    [
        (b'<meta charset="GBK">', "GBK"),
        (b"<META http-equiv=Content-Type content='text/html; charset=big5'>", "big5"),
        (b"<meta charset=utf-16le>", ""),
        (b"<metadata charset=gbk>", ""),
        (b"<p>charset=gbk", ""),
    ],
)
def test_a_head_declares_only_what_can_be_true(head: bytes, declared: str) -> None:
    assert declared_charset(head) == declared


ENGLISH = "The office is closed on Monday. Please write to (name) before noon. " * 20


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("gb18030", "**重要**：请勿关机。"),
        ("gb18030", "评估器"),
        ("gb18030", "王琦瑶"),
        ("gb18030", "3个"),
        ("gb18030", "name,city,email\n陈静,Shanghai,chen@example.com\n"),
        ("gb18030", "├── docs  文档\n│   └── en  英文\n└── app  代码\n"),
        ("gb18030", ENGLISH.replace("name", "陈静", 1)),
        ("big5hkscs", "**重要**：請勿關機。"),
        ("big5hkscs", "員工年假為十天。"),
        ("big5hkscs", "name,city,email\n張敏,Taipei,chang@example.com\n"),
        ("big5hkscs", ENGLISH.replace("name", "王偉", 1)),
        ("cp1252", "It’s the company’s “policy” – see § 5, at 10 °C…"),
        ("cp1252", ENGLISH + "The café’s **menu**."),
        ("cp1252", "Die Änderung: Öl für die Straße, Größe ÄÖÜ."),
        ("cp1252", "Die Datei ist zu groß"),
        ("cp1252", "erreur dans «\xa0fichier\xa0»\xa0: l’élève créé à Noël"),
        ("cp1252", "¿Qué? ¡Ahora! Español."),
        ("utf-8", ENGLISH),
    ],
)
def test_the_likeliest_of_bytes_that_tell_nothing(codec: str, text: str) -> None:
    assert text.encode(codec).decode(likely(text.encode(codec))) == text


@pytest.mark.parametrize("codec", ["utf-8", "gb18030", "big5hkscs"])
def test_a_text_may_be_cut_within_a_character(codec: str) -> None:
    assert likely("員工年假為十天，請於七日前提出申請。".encode(codec)[:-1]) == codec


@pytest.mark.parametrize("text", ["年假为十天，需提前申请。", "The café serves tea. " * 20])
def test_one_broken_byte_makes_no_other_encoding_of_utf_8(text: str) -> None:
    whole = text.encode()
    assert is_utf_8(whole + b"\xff" + whole)
    assert not is_utf_8(text.encode("gb18030"))


@pytest.mark.parametrize(
    "content",
    [
        bytes(range(256)) * 4,
        zlib.compress(ENGLISH.encode()),
        "Отпуск длится десять дней.".encode("cp1251"),
        "Η άδεια διαρκεί δέκα ημέρες.".encode("iso8859-7"),
    ],
)
def test_what_is_in_none_of_them_is_told(content: bytes) -> None:
    assert likely(content) == ""


LEAVE = "<p>年假（annual leave）为十天€，需提前申请！</p>"


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        *((name, LEAVE) for name in ("gbk", "utf-16", "punycode", "rot13", "x" * 300, "utf-8")),
        *(("gb2312", "普洱茶產自雲南。"), ("iso-8859-1", "café’s")),
    ],
)
def test_a_false_declaration_keeps_no_page_out(declared: str, text: str) -> None:
    assert decoded(text.encode("utf-8-sig"), declared) == text
    if declared != "utf-16":
        assert decoded(text.encode(), declared) == text
        assert decoded(f"{text}é".encode()[:-1], declared) == text, "cut within a character"


@pytest.mark.parametrize("page", ["index.md", "explain/scores.md"])
def test_markdown_in_chinese_reads_alike_in_old_encodings(page: str) -> None:
    simplified = Path("docs/zh", page).read_text(encoding="utf-8")
    traditional = OpenCC("s2twp").convert(simplified)
    for codec, text in (("gb18030", simplified), ("big5hkscs", traditional)):
        content = text.encode(codec, errors="ignore")
        assert decoded(content) == content.decode(codec)


def test_damaged_text_is_read_but_for_the_damage() -> None:
    text = "年假为十天，需要提前申请。\n" * 9
    assert decoded(text.encode() + "年".encode()[:2]) == text, "cut within a character"
    for damaged in (decoded("年".encode()[1:] + text.encode(), "gbk"),
                    decoded(text.encode("gbk") + b"\xff" + text.encode("gbk"), "gbk")):  # fmt: skip
        assert damaged is not None
        assert damaged.endswith(text)
