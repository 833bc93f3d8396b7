"""Words and vectors of all that is stored, made anew: after an update, or for another embedder."""

from functools import partial
from pathlib import Path

from app.retrieval.embed import Embedder
from app.retrieval.ingest import writing
from app.retrieval.opening import renew_index
from app.retrieval.rows import encoded
from app.retrieval.segment import Segmenter


async def reindex(folder: Path, embedder: Embedder, segmenter: Segmenter) -> int:
    """Renews words and vectors of every stored chunk; says how many chunks there are.

    Raises IngestBusy, and IndexUnusable where there is no index or it cannot be read.
    """
    async with writing(folder):
        encode = partial(encoded, embedder=embedder, segmenter=segmenter)
        return await renew_index(folder, embedder, encode)
