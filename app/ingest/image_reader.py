"""Image reader: images become plain pixels apart from the service, within bounds."""

from collections.abc import Sequence
from pathlib import Path

from app.ingest.images import data_url_content
from app.ingest.loaders.document import DocumentRefused
from app.ingest.sandbox import ImageTask, Sandbox, serve_images
from app.retrieval.images import MAX_BYTES, PlainImage
from app.retrieval.index import Row
from graphs.errors import InvalidImage


class ImageReader:
    """Reads images in a process of their own, within bounds; close it with `aclose`."""

    def __init__(self, cache: Path) -> None:
        self._sandbox = Sandbox(cache, 1, serve_images)

    async def read(self, content: bytes) -> PlainImage:
        """Raises DocumentRefused."""
        if len(content) > MAX_BYTES:
            raise DocumentRefused(f"image too large: more than {MAX_BYTES / 1e6:.0f} MB")
        (image,) = await self._sandbox.rows(ImageTask(content))
        assert isinstance(image, PlainImage)
        return image

    async def read_url(self, url: str) -> PlainImage:
        """The same for a data URL. Raises InvalidImage."""
        try:
            return await self.read(data_url_content(url))
        except DocumentRefused as refusal:
            raise InvalidImage(f"image refused: {refusal.reason}") from refusal

    async def aclose(self) -> None:
        await self._sandbox.aclose()


async def with_images_read(rows: Sequence[Row], reader: ImageReader) -> list[Row]:
    """The rows with their images as PlainImage; without those that are refused.

    Raises DocumentRefused where the document is nothing but such an image.
    """
    read_rows: list[Row] = []
    refusal: DocumentRefused | None = None
    for row in rows:
        if "image" not in row:
            read_rows.append(row)
            continue
        try:
            plain = await reader.read(row["image"]["content"])
        except DocumentRefused as error:
            refusal = error
        else:
            read_rows.append(row | {"image": row["image"] | {"content": plain}})
    if refusal is not None and not read_rows:
        raise refusal
    if len(read_rows) == len(rows):
        return read_rows
    return [_renumbered(row, at, len(read_rows)) for at, row in enumerate(read_rows)]


def _renumbered(row: Row, position: int, chunks: int) -> Row:
    """Images stand after the text, so that what they leave empty is theirs alone."""
    version = row["id"].rpartition("-")[0]
    moved = {"chunks": chunks, "position": position, "id": f"{version}-{position}"}
    return row | moved | ({"first": position, "last": position} if "image" in row else {})
