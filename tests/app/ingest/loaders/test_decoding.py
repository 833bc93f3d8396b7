"""A text is read as it is marked, else as it declares, else as is likeliest."""

from pathlib import Path

import opencc
import pytest

from app.ingest.errors import DocumentRefused
from app.ingest.loaders.by_suffix import load
from app.ingest.loaders.decoding import decode
from app.websearch.encoding import codec_of, declared_charset

TO_TRADITIONAL = opencc.OpenCC("s2twp")
PLAIN = "<p>" + "Plain English text follows here for a while. " * 20 + "</p>"


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("gbk", "年假为十天，需提前申请。"),
        ("GB2312", "病假需要医院证明。"),
        ("big5", "員工年假為十天。"),
        ("Shift_JIS", "休暇は十日です。申請してください。"),
        ("euc-kr", "휴가는 열흘입니다."),
        ("windows-1251", "Отпуск длится десять дней."),
        ("windows-1250", "Příliš žluťoučký kůň."),
        ("koi8-u", "Відпустка триває десять днів."),
        ("iso-8859-7", "Η άδεια διαρκεί δέκα ημέρες."),
        ("windows-874", "ลาพักร้อนสิบวัน"),
    ],
)
def test_a_page_is_read_as_it_declares(charset: str, text: str) -> None:
    page = f'<html><head><meta charset="{charset}"></head><p>{text}</p>{PLAIN}</html>'
    blocks = load(Path("leave.html"), page.encode(codec_of(charset))).blocks
    assert blocks[0].text == text
    http = f'<meta http-equiv="Content-Type" content="text/html; charset={charset}">'
    assert declared_charset(http.encode()) == charset


@pytest.mark.parametrize("declared", ["gbk", "utf-16", "punycode", "rot13", "x" * 300, "utf-8"])
def test_a_false_declaration_keeps_no_page_out(declared: str) -> None:
    text = "<p>年假（annual leave）为十天€，需提前申请！</p>"
    page = f'<meta charset="{declared}">{text}'
    assert text in decode(page.encode("utf-8-sig"), declared_charset(page.encode()))
    assert text in decode(page.encode(), declared)


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ("iso-8859-1", "The café’s menu."),
        ("gb2312", "年假为十天，需提前申请。"),
        ("big5", "員工年假"),
    ],
)
def test_an_old_declaration_garbles_no_utf_8(declared: str, text: str) -> None:
    page = f"<html><head><meta charset={declared}></head><p>{text}</p></html>"
    assert load(Path("menu.html"), page.encode()).blocks[0].text == text


def test_what_is_in_no_known_encoding_is_refused() -> None:
    with pytest.raises(DocumentRefused, match="binary"):
        decode(b"a\0b", "gbk")
    with pytest.raises(DocumentRefused, match="encoding is not known"):
        decode("Отпуск длится десять дней.".encode("cp1251"))
    assert decode("年假为十天，需要提前申请。".encode("gb18030")) == "年假为十天，需要提前申请。"


@pytest.mark.parametrize("page", sorted(Path("docs/zh").glob("*.md")), ids=lambda page: page.stem)
def test_markdown_in_chinese_reads_alike_in_old_encodings(page: Path) -> None:
    simplified = page.read_text(encoding="utf-8")
    traditional = TO_TRADITIONAL.convert(simplified)
    for codec, text in (("gb18030", simplified), ("big5hkscs", traditional)):
        content = text.encode(codec, errors="ignore")
        assert decode(content) == content.decode(codec)


def test_damaged_utf_8_is_read_as_utf_8() -> None:
    text = "年假为十天，需要提前申请。\n" * 9
    assert decode(text.encode() + "年".encode()[:2]) == text + "\ufffd"
    assert decode("年".encode()[1:] + text.encode(), "gbk").endswith(text)
