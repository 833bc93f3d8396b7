"""Files of a multipart body, written to disk as they arrive, within bounds."""

import hashlib
import re
import unicodedata
from collections.abc import AsyncIterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import unquote_to_bytes

import anyio.to_thread
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

MOST_FILES, MOST_PARTS = 1000, 2000
FIELDS = frozenset({"files", "file"})
# What no file system or terminal should be asked to show.
UNSHOWN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
LONGEST_NAME_BYTES = 200
# A name beyond ASCII as RFC 5987 has it. RFC 7578 forbids it in forms, yet .NET sends it, next to
# a `filename` that is no name.
EXTENDED_NAME = re.compile(rb";\s*filename\*\s*=\s*\"?([\w-]*)'[^';]*'([^;\"\s]+)", re.IGNORECASE)


class UploadTooLarge(Exception):
    """A file, or all of them, are larger than allowed."""


class UploadBroken(Exception):
    """The body is no form of files."""


@dataclass(frozen=True, slots=True)
class Received:
    """A file under the name its sender gave, cleaned."""

    name: str
    file: Path


async def receive(
    body: AsyncIterable[bytes], content_type: str, folder: Path, most_bytes: int, most_total: int
) -> list[Received]:
    """The files of the body, in `folder`; of two of one name the last counts.

    Raises UploadTooLarge as soon as a bound is passed, and UploadBroken.
    """
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise UploadBroken("send multipart/form-data with the files in the field `files`")
    form = _Form(folder, most_bytes)
    total = 0
    try:
        parser = MultipartParser(boundary, form.callbacks())
        async for chunk in body:
            total += len(chunk)
            if total > most_total:
                raise UploadTooLarge(f"The upload is larger than {most_total:,} bytes.")
            await anyio.to_thread.run_sync(parser.write, chunk)
    except (FormParserError, UnicodeError) as error:
        raise UploadBroken("is not multipart/form-data as its boundary tells") from error
    finally:
        form.close()
    if not form.is_whole:
        raise UploadBroken("ends before its last boundary")
    if not form.received:
        raise UploadBroken("holds no file in the field `files`")
    return list({received.name: received for received in form.received}.values())


def clean_name(name: str) -> str:
    """The last part of a path, as one name that any file system takes; empty where none is left."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    last = " ".join(UNSHOWN.sub("", last).split()).lstrip(".")
    stem, dot, suffix = last.rpartition(".")
    if len(last.encode()) <= LONGEST_NAME_BYTES:
        return last
    suffix = dot + suffix if len(suffix) < 10 else ""
    # Of two names that begin alike neither takes the other's place.
    ending = f"-{hashlib.sha256(last.encode()).hexdigest()[:8]}{suffix}"
    room = LONGEST_NAME_BYTES - len(ending.encode())
    return (stem or last).encode()[:room].decode(errors="ignore") + ending


def sent_name(disposition: bytes, options: Mapping[bytes, bytes]) -> str | None:
    """The file's name as it was sent, `filename*` before `filename`; None where it has none."""
    if extended := EXTENDED_NAME.search(disposition):
        return _text(unquote_to_bytes(extended.group(2)), extended.group(1).decode().casefold())
    plain = options.get(b"filename")
    return None if plain is None else _text(plain)


def _text(name: bytes, charset: str = "") -> str:
    """UTF-8 unless it is something else; Chinese Windows sends GBK."""
    codecs = ("cp1252",) if charset == "iso-8859-1" else ("utf-8", "gb18030")
    for codec in codecs:
        with suppress(UnicodeDecodeError):
            return name.decode(codec)
    return name.decode("utf-8", "replace")


class _Form:
    """What the parser calls, in a worker thread."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder, self._most_bytes = folder, most_bytes
        self.received: list[Received] = []
        self.is_whole = False
        self._header = [b"", b""]
        self._disposition = b""
        self._file: BinaryIO | None = None
        self._size = self._parts = 0

    def callbacks(self) -> "MultipartCallbacks":
        return {
            "on_part_begin": self._begin,
            "on_header_field": lambda data, start, end: self._gather(0, data[start:end]),
            "on_header_value": lambda data, start, end: self._gather(1, data[start:end]),
            "on_header_end": self._header_end,
            "on_headers_finished": self._open,
            "on_part_data": lambda data, start, end: self._write(data[start:end]),
            "on_part_end": self.close,
            "on_end": self._end,
        }

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise UploadTooLarge(f"The upload holds more than {MOST_PARTS:,} parts.")
        self._disposition, self._size = b"", 0

    def _gather(self, part: int, data: bytes) -> None:
        self._header[part] += data

    def _header_end(self) -> None:
        field, value = self._header
        if field.lower() == b"content-disposition":
            self._disposition = value
        self._header = [b"", b""]

    def _open(self) -> None:
        """Other fields of the form are passed over."""
        _, options = parse_options_header(self._disposition)
        sent = sent_name(self._disposition, options)
        if sent is None or options.get(b"name", b"").decode("utf-8", "replace") not in FIELDS:
            return
        name = clean_name(sent)
        if not name:
            raise UploadBroken("holds a file without a name")
        if len(self.received) >= MOST_FILES:
            raise UploadTooLarge(f"The upload holds more than {MOST_FILES} files.")
        # What has no title of its own is called as its file is.
        place = self._folder / str(len(self.received))
        place.mkdir()
        file = place / name
        self.received.append(Received(name, file))
        self._file = file.open("xb")

    def _write(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._most_bytes:
            name = f"The file {self.received[-1].name}" if self._file else "A field of the form"
            raise UploadTooLarge(f"{name} is larger than {self._most_bytes:,} bytes.")
        if self._file is not None:
            self._file.write(data)

    def _end(self) -> None:
        self.is_whole = True
