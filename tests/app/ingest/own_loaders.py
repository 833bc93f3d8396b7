"""Document loaders as a user might choose them; light to import."""

from collections.abc import Iterator

from langchain_core.document_loaders import BaseLoader
from langchain_core.documents import Document


class PagesLoader(BaseLoader):
    """Pages between lines of dashes, the first line the title."""

    def __init__(self, file_path: str) -> None:
        self._path = file_path

    def lazy_load(self) -> Iterator[Document]:
        with open(self._path, encoding="utf-8") as file:
            title, *lines = file.read().splitlines()
        for number, text in enumerate("\n".join(lines).split("\n---\n")):
            yield Document(text, metadata={"page": number, "title": title})


class BloatingLoader(PagesLoader):
    def lazy_load(self) -> Iterator[Document]:
        held = [bytes(100_000_000) for _ in range(100)]
        yield Document(str(len(held)))


class FailingLoader(PagesLoader):
    def lazy_load(self) -> Iterator[Document]:
        raise ZeroDivisionError
        yield


class NoLoader:
    def __init__(self, file_path: str) -> None: ...
