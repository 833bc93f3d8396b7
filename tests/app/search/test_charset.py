"""The table of encodings, and what a page's head declares."""

import codecs

import pytest

from app.search.charset import CODECS, codec_of, declared_charset


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
