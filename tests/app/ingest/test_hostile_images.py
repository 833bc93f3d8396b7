"""Hostile images: refused in words or made plain pixels, by a process that outlives them all."""

import io
import re
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from PIL import Image, PngImagePlugin

from app.ingest.image_reader import ImageReader
from app.ingest.loaders.document import DocumentRefused
from app.retrieval.images import MAX_BYTES
from tests.app.pictures import drawn, encoded

SCRIPT = b"<script>alert(1)</script>"
PNG = encoded(drawn(1))
PAYLOAD = "payload-that-must-not-come-out"
LONGEST_S, MOST_MB = 20.0, 1500


def chunk(kind: bytes, content: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + checksum


def png(width: int, height: int, *more: bytes, depth: int = 1, rows: int | None = None) -> bytes:
    """Of one grey, its rows packed as small as they can be."""
    head = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0)
    packer, line = zlib.compressobj(9), b"\0" * (1 + (width * depth + 7) // 8)
    body = b"".join(packer.compress(line) for _ in range(height if rows is None else rows))
    parts = [chunk(b"IHDR", head), *more, chunk(b"IDAT", body + packer.flush())]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IEND", b"")


def with_chunk(kind: bytes, content: bytes) -> bytes:
    """A harmless picture with one chunk more, right behind its head."""
    return PNG[:33] + chunk(kind, content) + PNG[33:]


def animated(form: str) -> bytes:
    frames = [drawn(2), drawn(3)]
    return encoded(frames[0], form, save_all=True, append_images=frames[1:])


def telling() -> bytes:
    """Metadata of every kind that says what must not come out."""
    exif, info = Image.Exif(), PngImagePlugin.PngInfo()
    exif[0x010E] = PAYLOAD
    info.add_text("Comment", PAYLOAD)
    info.add_itxt("XML:com.adobe.xmp", f"<x>{PAYLOAD}</x>")
    return encoded(drawn(4), "PNG", exif=exif, pnginfo=info)


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "no PNG"),
    "text": (lambda: b"a picture, honestly" * 50, "no PNG"),
    "SVG with script": (lambda: b"<svg xmlns='x'>" + SCRIPT + b"</svg>", "may hold script"),
    "SVG behind a mark and blanks": (lambda: b"\xef\xbb\xbf \n<?xml?><svg/>", "may hold script"),
    "HTML": (lambda: b"<!DOCTYPE html>" + SCRIPT, "may hold script"),
    "cut off": (lambda: PNG[: len(PNG) // 2], "damaged"),
    "wrong checksum": (lambda: PNG[:60] + b"\xff\xff\xff\xff" + PNG[64:], "damaged"),
    "head alone": (lambda: PNG[:33], "no PNG"),
    "pixels as in a bomb": (lambda: png(20_000, 20_000), "pixels"),
    "declared bomb": (lambda: png(2**31 - 1, 2**31 - 1, rows=1), "no PNG|pixels"),
    "endless line": (lambda: png(60_000_000, 24, rows=1), "pixels"),
    "text chunk that unpacks to 50 MB": (
        lambda: with_chunk(b"zTXt", b"a\0\0" + zlib.compress(b"\0" * 50_000_000, 9)),
        "damaged|no PNG",
    ),
    "animated GIF": (lambda: animated("GIF"), "animated"),
    "animated WebP": (lambda: animated("WEBP"), "animated"),
    "animated PNG": (lambda: animated("PNG"), "animated"),
    "icon": (lambda: png(1, 1), "an icon"),
    "TIFF": (lambda: encoded(drawn(1), "TIFF"), "no PNG"),
    "BMP": (lambda: encoded(drawn(1), "BMP"), "no PNG"),
    "PostScript, which another program would run": (
        lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 99 99\n(rm) run\n",
        "no PNG",
    ),
    "PDF": (lambda: encoded(drawn(1), "PDF"), "no PNG"),
    "too many bytes": (lambda: PNG + b"\0" * MAX_BYTES, "too large"),
}
TAKEN: dict[str, Callable[[], bytes]] = {
    "metadata": telling,
    "HTML behind the end": lambda: PNG + SCRIPT + PAYLOAD.encode(),
    "JPEG with a page in its comment": lambda: encoded(
        drawn(1), "JPEG", comment=SCRIPT + PAYLOAD.encode()
    ),
    "GIF with a page in its comment": lambda: encoded(
        drawn(1).quantize(), "GIF", comment=SCRIPT + PAYLOAD.encode()
    ),
    "colours of print": lambda: encoded(drawn(1).convert("CMYK"), "JPEG"),
    "sixteen bits": lambda: png(64, 64, depth=16),
    "transparency": lambda: encoded(drawn(1).convert("RGBA")),
}


def pid_of(reader: ImageReader) -> int | None:
    (idle,) = reader._sandbox._idle
    return idle.process.pid


def peak_mb_of(pid: int | None) -> float:
    """The most memory it has had."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    return int(peak[1]) / 1000


async def test_hostile_images_do_no_harm(tmp_path: Path) -> None:
    """All by one process: none of them ends it, takes long or takes much."""
    reader = ImageReader(tmp_path)
    harm: dict[str, str] = {}
    try:
        await reader.read(PNG)
        process = pid_of(reader)
        for name, (content, reason) in REFUSED.items():
            began, image = time.perf_counter(), content()
            try:
                await reader.read(image)
                harm[name] = "taken"
            except DocumentRefused as refusal:
                if not any(word in refusal.reason for word in reason.split("|")):
                    harm[name] = refusal.reason
            if time.perf_counter() - began > LONGEST_S:
                harm[name] = "slow"
        for name, make in TAKEN.items():
            plain = await reader.read(make())
            shown = Image.open(io.BytesIO(plain.content))
            if b"payload" in plain.content or b"script" in plain.content or shown.getexif():
                harm[name] = "metadata came out"
        assert pid_of(reader) == process, "one of them ended the process"
        peak_mb = peak_mb_of(process)
    finally:
        await reader.aclose()
    assert harm == {}
    assert peak_mb < MOST_MB
