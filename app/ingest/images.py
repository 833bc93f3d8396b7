"""Images of a document: found where it shows them, and kept as chunks that their captions make.

A caption is searched together with the text around the image; both are the document's own words.
"""

import base64
import binascii
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from app.ingest.chunker import Chunk
from app.ingest.loaders.document import Block, DocumentRefused, local_path, read
from app.retrieval.images import IMAGE_KEYWORD, MAX_BYTES
from app.retrieval.index import Row

MAX_IMAGES = 200
MAX_TOTAL_BYTES = 60_000_000
"""Of one document; further ones are left out."""
AROUND_CHARS = 200
"""Of the text before an image, and of the text after it."""
_DATA_URL = re.compile(r"data:image/[\w.+-]{1,40};base64,", re.IGNORECASE)


def data_url_content(url: str) -> bytes:
    """What a data URL of an image holds. Raises DocumentRefused."""
    head = _DATA_URL.match(url)
    if head is None:
        raise DocumentRefused("no data URL of an image: data:image/…;base64,…")
    if len(url) > MAX_BYTES * 4 // 3 + 100:
        raise DocumentRefused(f"image too large: more than {MAX_BYTES / 1e6:.0f} MB")
    try:
        return base64.b64decode(url[head.end() :], validate=True)
    except (binascii.Error, ValueError) as error:
        raise DocumentRefused("its base64 is broken") from error


def image_chunks(
    blocks: Sequence[Block], chunks: Sequence[Chunk], file: Path, root: str
) -> list[tuple[Chunk, Row]]:
    """Chunks after the text's `chunks`, one an image, each with what is kept of its image.

    Images are those that can be read: embedded ones, still as their author encoded them, and files
    below the folder `root`. Nothing is fetched from the web. An image that stands in the document
    twice is taken once. `near` is the position of the text chunk that it stands by.
    """
    images: dict[bytes, tuple[Chunk, Row]] = {}
    total = 0
    for at, block in enumerate(blocks):
        picture = block.picture
        content = picture.content or _content(picture.reference, file, root) if picture else b""
        if picture is None or not content or content in images:
            continue
        total += len(content)
        if len(images) >= MAX_IMAGES or total > MAX_TOTAL_BYTES:
            break
        before = _neighbour(reversed(blocks[:at]), block)
        after = _neighbour(blocks[at + 1 :], block)
        position = len(chunks) + len(images)
        chunk = Chunk(
            text=block.text,
            headings=block.headings,
            first=position,
            last=position,
            page=block.page,
            lead="\n",
            before=" ".join(filter(None, [before[-AROUND_CHARS:], after[:AROUND_CHARS]])),
        )
        near = _near(before or after, block.headings, chunks)
        image = {"content": content, "caption": picture.caption, "near": near}
        images[content] = chunk, {"keywords": [IMAGE_KEYWORD], "image": image}
    return list(images.values())


def _content(reference: str, file: Path, root: str) -> bytes:
    """Empty where there is none that may be read."""
    if reference[:5].lower() == "data:":
        try:
            return data_url_content(reference)
        except DocumentRefused:
            return b""
    if not root or not local_path(reference):
        return b""
    try:
        place = os.path.realpath(file.parent / local_path(reference))
        is_below = place.startswith(os.path.join(os.path.realpath(root), ""))
        return read(Path(place)) if is_below else b""
    except (DocumentRefused, ValueError):  # a NUL within it
        return b""


def _neighbour(blocks: Iterable[Block], image: Block) -> str:
    """The nearest text of the same section."""
    texts = (it.text for it in blocks if it.picture is None and it.headings == image.headings)
    return next(texts, "")


def _near(text: str, headings: tuple[str, ...], chunks: Sequence[Chunk]) -> int | None:
    """The chunk that holds the text, else the first of the section, if there is one."""
    here = [(at, chunk) for at, chunk in enumerate(chunks) if chunk.headings == headings]
    line = next(iter(text.splitlines()), "")[:60]
    holding = (at for at, chunk in here if line and line in chunk.text)
    return next(holding, here[0][0] if here else None)
