"""Where the index is: one folder of this machine, or a Milvus by its address."""

import asyncio
from importlib import import_module
from pathlib import Path
from typing import Any

from app.retrieval import lancedb as lance
from app.retrieval.embedders.static import Embedder
from app.retrieval.index import Encode, Index, IndexUnusable, make_folder


async def open_index(folder: Path, embedder: Embedder, url: str = "", token: str = "") -> Index:
    """The index, empty where there is none yet; `folder` is this machine's own in either case.

    Raises IndexMismatch where it was written with another embedder or in another format,
    IndexUnusable where it cannot be read.
    """
    if not url:
        return await lance.LanceIndex.open(folder, embedder)
    await asyncio.to_thread(make_folder, folder.parent)
    index: Index = await _milvus().MilvusIndex.open(url, token, embedder, folder)
    return index


async def renew_index(
    folder: Path, embedder: Embedder, encode: Encode, url: str = "", token: str = ""
) -> int:
    """Writes every row anew as `encode` makes it, and says how many there are.

    Raises IndexUnusable where there is no index or it cannot be read.
    """
    if not url:
        return await lance.renew(folder, embedder, encode)
    return int(await asyncio.to_thread(_milvus().renew, url, token, embedder, encode))


def _milvus() -> Any:
    """The adapter, by name: it is an extra, and importing it takes a second."""
    try:
        return import_module("app.retrieval.milvus")
    except ModuleNotFoundError as error:
        raise IndexUnusable(
            "SELFCRAG_INDEX_URL names a Milvus, whose client is not installed:"
            " pip install 'self-crag[milvus]'"
        ) from error
