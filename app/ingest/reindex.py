"""Words and vectors of all that is stored, made anew: after an update, or for another embedder."""

from collections.abc import Sequence
from pathlib import Path

from app.ingest.rows import encoded
from app.retrieval.embedders.static import Embedder, EmbedderFailed
from app.retrieval.index import IndexUnusable, Row
from app.retrieval.index_factory import renew_index
from app.retrieval.tokenizer import Segmenter
from app.retrieval.write_lock import writing


async def reindex(
    folder: Path, embedder: Embedder, segmenter: Segmenter, url: str = "", token: str = ""
) -> int:
    """Renews words and vectors of every stored chunk; says how many chunks there are.

    Raises IngestBusy, EmbedderFailed, and IndexUnusable where there is no index or it cannot be
    read; the old index then stays.
    """
    failed: list[EmbedderFailed] = []

    def encode(rows: Sequence[Row]) -> list[Row]:
        try:
            return encoded(rows, embedder=embedder, segmenter=segmenter)
        except EmbedderFailed as error:
            failed.append(error)  # the storage that asks for rows makes another error of it
            raise

    async with writing(folder):
        try:
            return await renew_index(folder, embedder, encode, url, token)
        except IndexUnusable:
            if failed:
                raise failed[0] from None
            raise
