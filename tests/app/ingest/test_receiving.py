"""Forms as clients send them: what their files are called, and how many parts they may have."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.ingest.receiving import MOST_PARTS, UploadTooLarge, clean_name, receive

FORM = "multipart/form-data; boundary=x"


def part(disposition: bytes, content: bytes = b"Words.") -> bytes:
    head = b"--x\r\nContent-Disposition: form-data; " + disposition
    return head + b"\r\n\r\n" + content + b"\r\n"


async def names(folder: Path, *parts: bytes) -> list[str]:
    async def body() -> AsyncIterator[bytes]:
        for sent in (*parts, b"--x--\r\n"):
            yield sent

    return [file.name for file in await receive(body(), FORM, folder, 1_000_000, 10_000_000)]


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ('name="files"; filename="报告.md"'.encode(), "报告.md"),
        ('name="files"; filename="报告.md"'.encode("gbk"), "报告.md"),
        (
            b'name=files; filename="=?utf-8?B?5oql5ZGKLm1k?=";'
            b" filename*=utf-8''%E6%8A%A5%E5%91%8A.md",
            "报告.md",
        ),
        (b"name=\"files\"; filename*=UTF-8''%E6%8A%A5%E5%91%8A%20a.md", "报告 a.md"),
        (b"name=file; filename*=iso-8859-1'en'caf%E9.md; filename=cafe.md", "café.md"),
        (b"name=\"files\"; filename*=utf-8''..%2F..%2Fetc%2Fpasswd.txt", "passwd.txt"),
        (b'name="files"; filename="it\'s a.md"', "it's a.md"),
    ],
)
async def test_files_are_called_as_their_senders_mean(
    tmp_path: Path, disposition: bytes, name: str
) -> None:
    assert await names(tmp_path, part(disposition)) == [name]


async def test_a_form_has_no_more_parts_than_it_needs(tmp_path: Path) -> None:
    few, many = part(b'name="q"', b"") * 500, part(b'name="\xff"', b"") * (MOST_PARTS - 500)
    lamp = part(b'name="files"; filename="lamp.md"')
    assert await names(tmp_path, few, lamp) == ["lamp.md"]
    with pytest.raises(UploadTooLarge, match="more than 2,000 parts"):
        await names(tmp_path, few, many, lamp)


def test_long_names_that_begin_alike_stay_two() -> None:
    name = "关于进一步规范城市社区居家养老服务设施建设管理工作的若干意见及实施细则" * 2
    cut = [clean_name(f"{name}（第{number}批）.md") for number in "一二"]
    assert len(set(cut)) == 2
    assert all(len(it.encode()) <= 200 and it.endswith(".md") for it in cut)
    assert clean_name("short.md") == "short.md"
