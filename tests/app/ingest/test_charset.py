"""A text is read as it is marked, else as it declares, else as is likeliest."""

from pathlib import Path

import pytest

from app.ingest.charset import decode
from app.ingest.loaders import load
from app.ingest.refusal import DocumentRefused
from app.search.charset import codec_of, declared_charset

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
    assert decode("年假为十天，需要提前申请。".encode("gb18030")) == "年假为十天，需要提前申请。"
