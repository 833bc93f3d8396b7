"""Multipart uploads: Starlette's form parser within bounds, and safe file names."""

import hashlib
import re
import shutil
import unicodedata
from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import anyio.to_thread
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

MAX_FILES, MAX_FIELDS = 1000, 1000
MAX_TOTAL_BYTES = 200_000_000
FIELDS = frozenset({"files", "file"})
# What no file system or terminal should be asked to show.
UNSHOWN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
MAX_NAME_BYTES = 200
# A name beyond ASCII as RFC 5987 has it. RFC 7578 forbids it in forms, yet .NET sends it, next to
# a `filename` that is no name.
EXTENDED_NAME = re.compile(r";\s*filename\*\s*=\s*\"?utf-8'[^']*'([^;\"\s]+)", re.IGNORECASE)


class UploadTooLarge(Exception):
    """A file, or all of them, are larger than allowed, or they are too many."""


class UploadBroken(Exception):
    """The body is no form of files."""


@dataclass(frozen=True, slots=True)
class Received:
    """A file under the name its sender gave, cleaned."""

    name: str
    file: Path


async def receive(
    body: AsyncIterable[bytes], content_type: str, folder: Path, max_bytes: int
) -> list[Received]:
    """The files of the body, in `folder`; of two of one name the last counts.

    Raises UploadTooLarge where a file has more than `max_bytes`, or all have too many; a body
    beyond MAX_TOTAL_BYTES is read no further. Raises UploadBroken.
    """
    if not content_type.lower().startswith("multipart/form-data"):
        raise UploadBroken("send multipart/form-data with the files in the field `files`")
    parser = Parser(content_type, body)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        if "maximum" in error.message.lower():
            raise UploadTooLarge(f"The upload is too large: {error.message}") from error
        raise UploadBroken(f"is no multipart/form-data: {error.message}") from error
    try:
        return await anyio.to_thread.run_sync(_kept, form, folder, max_bytes)
    finally:
        await form.close()


class Parser(MultiPartParser):
    """Starlette's own, for a body that is bounded and comes to its end.

    What is raised while the body is read makes it close its temporary files.
    """

    def __init__(self, content_type: str, body: AsyncIterable[bytes]) -> None:
        headers = Headers({"content-type": content_type})
        super().__init__(headers, self._all_of(body), max_files=MAX_FILES, max_fields=MAX_FIELDS)
        self._is_whole = False

    def on_end(self) -> None:
        self._is_whole = True

    async def _all_of(self, body: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
        total = 0
        async for chunk in body:
            total += len(chunk)
            if total > MAX_TOTAL_BYTES:
                raise UploadTooLarge(f"The upload is larger than {MAX_TOTAL_BYTES:,} bytes.")
            yield chunk
        if not self._is_whole:
            raise UploadBroken("ends before its last boundary")


def clean_name(name: str) -> str:
    """The last part of a path, as one name that any file system takes; empty where none is left."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    last = " ".join(UNSHOWN.sub("", last).split()).lstrip(".")
    stem, dot, suffix = last.rpartition(".")
    if len(last.encode()) <= MAX_NAME_BYTES:
        return last
    suffix = dot + suffix if len(suffix) < 10 else ""
    # Of two names that begin alike neither takes the other's place.
    ending = f"-{hashlib.sha256(last.encode()).hexdigest()[:8]}{suffix}"
    room = MAX_NAME_BYTES - len(ending.encode())
    return (stem or last).encode()[:room].decode(errors="ignore") + ending


def _kept(form: FormData, folder: Path, max_bytes: int) -> list[Received]:
    """The files, copied to `folder`; other fields of the form are passed over."""
    received: dict[str, Received] = {}
    for number, (field, part) in enumerate(form.multi_items()):
        if field not in FIELDS or not isinstance(part, UploadFile):
            continue
        name = clean_name(_sent_name(part))
        if not name:
            raise UploadBroken("holds a file without a name")
        if (part.size or 0) > max_bytes:
            raise UploadTooLarge(f"The file {name} is larger than {max_bytes:,} bytes.")
        # What has no title of its own is called as its file is.
        place = folder / str(number)
        place.mkdir()
        with (place / name).open("xb") as file:
            shutil.copyfileobj(part.file, file)
        received[name] = Received(name, place / name)
    if not received:
        raise UploadBroken("holds no file in the field `files`")
    return list(received.values())


def _sent_name(part: UploadFile) -> str:
    """`filename*` before `filename`; UTF-8 unless it is something else: Windows sends GBK."""
    name, header = part.filename or "", part.headers["content-disposition"]
    if extended := EXTENDED_NAME.search(header):
        return unquote(extended[1])
    try:
        header.encode("latin-1").decode()
    except UnicodeDecodeError:
        return name.encode("latin-1", "replace").decode("gb18030", "replace")
    return name
