"""Loaders of the user's choice: any document loader of LangChain's, by its class path.

They run where files of binary formats are read: apart from the service, within bounds of time and
memory.
"""

from collections.abc import Iterable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document

from app.ingest.loaders.document import Block, DocumentRefused
from app.ingest.loaders.markup import text_blocks


def read_by(loader: str, path: Path) -> tuple[str, list[Block]]:
    """Title and blocks of a file, by `package.module.Class`. Raises DocumentRefused."""
    documents = _loader(loader, path).lazy_load()
    return _blocks(documents)


def _loader(name: str, path: Path) -> BaseLoader:
    module, _, class_name = name.rpartition(".")
    try:
        kind = getattr(import_module(module), class_name)
        loader = kind(str(path))
    except (ImportError, AttributeError) as error:
        why = " ".join(str(error).split())
        raise DocumentRefused(f"its loader {name} cannot be used: {why}") from error
    if not isinstance(loader, BaseLoader):
        raise DocumentRefused(f"its loader {name} is not a LangChain document loader")
    return loader


def _blocks(documents: Iterable[Document]) -> tuple[str, list[Block]]:
    """Pages of a document count from 0 in LangChain, from 1 here."""
    title, blocks = "", list[Block]()
    for document in documents:
        value, page = document.metadata.get("title"), document.metadata.get("page")
        title = title or (value if isinstance(value, str) else "")
        number = page + 1 if isinstance(page, int) else None
        blocks += [replace(block, page=number) for block in text_blocks(document.page_content)]
    return title, blocks
