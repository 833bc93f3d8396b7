"""Where the index is: one folder of this machine, or a Milvus by its address."""

from pathlib import Path

from app.retrieval import lance
from app.retrieval.embed import Embedder
from app.retrieval.index import Encode, Index


async def open_index(folder: Path, embedder: Embedder) -> Index:
    """The index, empty where there is none yet; `folder` is this machine's own in either case.

    Raises IndexMismatch where it was written with another embedder or in another format,
    IndexUnusable where it cannot be read.
    """
    return await lance.LanceIndex.open(folder, embedder)


async def renew_index(folder: Path, embedder: Embedder, encode: Encode) -> int:
    """Writes every row anew as `encode` makes it, and says how many there are.

    Raises IndexUnusable where there is no index or it cannot be read.
    """
    return await lance.renew(folder, embedder, encode)
