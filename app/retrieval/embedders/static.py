"""Dense vectors of texts: what embeds them, and the static table shipped with the project."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from app.retrieval.hybrid import TABLE_WEIGHTS, Weights
from app.retrieval.tokenizer import Segmenter
from graphs.errors import RetrieverFailed
from graphs.text.language import script_of
from graphs.types import Language

TABLE = Path(__file__).parent / "table"

Vectors = NDArray[np.float32]


class EmbedderFailed(RetrieverFailed):
    """An endpoint gave no vectors; the message says why and what would help.

    A question need not fail with it: BM25 finds passages without any vector. Catch it around
    `embed_query`, search the words alone and report the failure beside the answer. Ingest lets it
    end the run: what was committed before stays, what was not is read again the next time.
    """


class Embedder(Protocol):
    """Texts to unit vectors; both methods block and belong in a worker thread.

    `crosses_languages` says whether a question may be compared with passages in the other
    language; `weights` are those of a hybrid search that is told no other; `name` identifies the
    vectors: an index serves only the embedder it was written with.
    """

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def crosses_languages(self) -> bool: ...

    @property
    def weights(self) -> Mapping[Language, Weights]: ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a passage, of length 1, or all zeros where nothing of the text is known.

        Raises EmbedderFailed.
        """
        ...

    def embed_query(self, text: str) -> Vectors:
        """A question's vector, shape (dimensions,): some models read questions another way.

        Raises EmbedderFailed, within QUERY_TIMEOUT_S where an endpoint embeds.
        """
        ...


class StaticEmbedder:
    """Weighted means of token vectors: WordPiece tokens in English, jieba words in Chinese.

    The two languages' vectors have the same width but nothing else in common.
    """

    crosses_languages = False
    weights = TABLE_WEIGHTS

    def __init__(self, segmenter: Segmenter, folder: Path = TABLE) -> None:
        self._segmenter = segmenter
        self._folder = folder
        self._about: dict[str, Any] = json.loads((folder / "about.json").read_text("utf-8"))
        self.dimensions = int(self._about["dimensions"])

    @cached_property
    def name(self) -> str:
        """`static-` and the first 8 hex digits of the table's hash."""
        digest = hashlib.sha256()
        for file in sorted(self._folder.glob("*.np[yz]")):
            digest.update(file.read_bytes())
        return f"static-{digest.hexdigest()[:8]}"

    def load(self) -> None:
        """Reads the table, which the first `embed` would do otherwise."""
        _ = self.name, self._english, self._chinese
        self._segmenter.load()

    @cached_property
    def _english(self) -> tuple[Tokenizer, Vectors]:
        tokenizer = Tokenizer.from_file(str(self._folder / "en_tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer, _table(self._folder / "en.npz")

    @cached_property
    def _chinese(self) -> tuple[dict[str, int], Vectors]:
        words = (self._folder / "zh_words.txt").read_text("utf-8").split("\n")
        return {word: row for row, word in enumerate(words)}, _table(self._folder / "zh.npz")

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            table, ids = self._rows(text)
            if ids:
                vectors[row] = table[ids].sum(axis=0)
        return unit(vectors)

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self.embed([text])[0]
        return vector

    def word(self, word: str, language: Language) -> tuple[Vectors, int]:
        """A word's vector, shape (dimensions,), all zeros where it is unknown, and its rank.

        The rank is the word's place in a vocabulary ordered by how often words occur, of its
        rarest part where it has several; past the end of it where it is unknown.
        """
        if language == "zh":
            known, table = self._chinese
            ids = [known[part] for part in _known(word, known)]
            is_whole = word in known
        else:
            tokenizer, table = self._english
            unknown = tokenizer.token_to_id("[UNK]")
            found = tokenizer.encode(word, add_special_tokens=False).ids
            ids = [token for token in found if token != unknown]
            is_whole = len(found) == len(ids) == 1
        vector: Vectors = table[ids].sum(axis=0)
        return vector, max(ids, default=0) if is_whole else len(table)

    def _rows(self, text: str) -> tuple[Vectors, list[int]]:
        if script_of(text) == "zh":
            rows, table = self._chinese
            words = self._segmenter.words(text)
            return table, [rows[part] for word in words for part in _known(word, rows)]
        tokenizer, table = self._english
        unknown = tokenizer.token_to_id("[UNK]")
        found = tokenizer.encode(text, add_special_tokens=False).ids
        return table, [token for token in found if token != unknown]


def unit(vectors: Vectors) -> Vectors:
    """Rows of length 1; rows of zeros stay."""
    norms: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)


def _known(word: str, rows: dict[str, int]) -> list[str]:
    """The word, or those of its characters that have a vector."""
    return [word] if word in rows else [character for character in word if character in rows]


def _table(file: Path) -> Vectors:
    """Rows are int8 with one scale each, in which the token's weight is contained."""
    with np.load(file) as parts:
        table: Vectors = parts["rows"].astype(np.float32) * parts["scales"].astype(np.float32)
    return table
