"""Forms as clients send them: what their files are called, and what bounds they have."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.ingest import uploads as module
from app.ingest.uploads import UploadBroken, UploadTooLarge, receive

FORM = "multipart/form-data; boundary=x"


def part(disposition: bytes, content: bytes = b"Words.") -> bytes:
    head = b"--x\r\nContent-Disposition: form-data; " + disposition
    return head + b"\r\n\r\n" + content + b"\r\n"


async def names(folder: Path, *parts: bytes) -> list[str]:
    async def body() -> AsyncIterator[bytes]:
        for sent in (*parts, b"--x--\r\n"):
            yield sent

    form = await receive(body(), FORM, folder, 1_000_000)
    return [file.name for file in form.files]


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
        (b"name=file; filename=a; filename*=utf-8''..%2F..%2Fetc%2Fpasswd.txt", "passwd.txt"),
        (b'name="files"; filename="it\'s a.md"', "it's a.md"),
    ],
)
async def test_files_are_called_as_their_senders_mean(
    tmp_path: Path, disposition: bytes, name: str
) -> None:
    assert await names(tmp_path, part(disposition)) == [name]


async def test_a_form_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lamp = part(b'name="files"; filename="lamp.md"')
    assert await names(tmp_path, part(b'name="q"', b"") * 500, lamp) == ["lamp.md"]
    with pytest.raises(UploadTooLarge, match="Too many fields"):
        await names(tmp_path, part(b'name="\xff"', b"") * 1001, lamp)
    with pytest.raises(UploadTooLarge, match="Too many files"):
        await names(tmp_path, lamp * 1001)
    monkeypatch.setattr(module, "MAX_TOTAL_BYTES", 100)
    with pytest.raises(UploadTooLarge, match="larger than 100 bytes"):
        await names(tmp_path, lamp, lamp)


async def test_a_form_that_is_cut_off_is_told(tmp_path: Path) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield part(b'name="files"; filename="lamp.md"')
        yield b"--x\r\nContent-Disposition"

    with pytest.raises(UploadBroken, match="ends before its last boundary"):
        await receive(body(), FORM, tmp_path, 1_000_000)
