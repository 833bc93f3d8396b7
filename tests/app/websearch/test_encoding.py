"""The table of encodings, and what a page's head declares, and what is likeliest."""

import codecs
import zlib

import pytest

from app.websearch.encoding import CODECS, codec_of, declared_charset, is_utf_8, likely


@pytest.mark.parametrize("name", sorted(CODECS))
def test_every_name_has_a_codec(name: str) -> None:
    assert codecs.lookup(codec_of(f" {name.upper()} "))


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
