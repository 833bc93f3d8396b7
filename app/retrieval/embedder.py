"""Embedders: the protocol, and the static table of token vectors that is shipped."""

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from app.retrieval.tokenizer import Segmenter
from graphs.errors import RetrieverFailed
from graphs.text.language import script_of
from graphs.types import Language

TABLE = Path(__file__).parent / "table"

Vectors = NDArray[np.float32]


class EmbedderFailed(RetrieverFailed):
    """An endpoint gave no vectors; the message says why and what would help.

    Search goes on with words alone; ingest ends, and reads the rest the next time.
    """


@dataclass(frozen=True, slots=True)
class Weights:
    """S = lexical · BM25 + dense · cosine, both brought to 0…1 first."""

    lexical: float
    dense: float


# Measured on training questions (benchmarks/hybrid_weights.md). In Chinese every weight of the
# table's scores makes the order worse where questions share the text's words: they break ties and
# fill up.
TABLE_WEIGHTS: Mapping[Language, Weights] = {"en": Weights(1.0, 0.5), "zh": Weights(1.0, 0.0)}
# The paper's, of a large encoder; best for a small one, too (benchmarks/retrieval.md, embedders).
ENCODER_WEIGHTS: Mapping[Language, Weights] = dict.fromkeys(("en", "zh"), Weights(0.3, 1.0))
E5_WEIGHTS: Mapping[Language, Weights] = {"en": Weights(0.5, 1.0), "zh": Weights(1.0, 1.0)}
"""On no set of benchmarks/retrieval.md, e5, does it find less than the table with these."""


class Embedder(Protocol):
    """Texts to unit vectors; `embed` blocks and belongs in a worker thread."""

    @property
    def name(self) -> str:
        """Identifies the vectors: an index serves only the embedder it was written with."""

    @property
    def dimensions(self) -> int: ...

    @property
    def crosses_languages(self) -> bool:
        """Whether a question may be compared with passages in the other language."""

    @property
    def weights(self) -> Mapping[Language, Weights]:
        """Of a hybrid search that is told no other."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a passage, of length 1, or all zeros where nothing of the text is known.

        Raises EmbedderFailed.
        """

    async def embed_query(self, text: str) -> Vectors:
        """A question's vector, shape (dimensions,). Raises EmbedderFailed."""

    async def aclose(self) -> None:
        """Release the connections."""


def unit(vectors: Vectors) -> Vectors:
    """Rows of length 1; rows of zeros stay."""
    norms: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)


class VectorTable:
    """Vectors as stored: int8 with one scale a row, which contains the token's weight."""

    def __init__(self, file: Path) -> None:
        with np.load(file) as parts:
            self._rows, self._scales = parts["rows"], parts["scales"].astype(np.float32)

    def __len__(self) -> int:
        return len(self._rows)

    def sum(self, ids: Sequence[int]) -> Vectors:
        """The sum of these rows, shape (dimensions,)."""
        picked = list(ids)
        vectors: Vectors = self._rows[picked].astype(np.float32) * self._scales[picked]
        total: Vectors = vectors.sum(axis=0)
        return total


class StaticEmbedder:
    """Weighted means of token vectors: WordPiece tokens in English, jieba words in Chinese.

    Each table loads at its first use, once in a process. The two languages' vectors have nothing in
    common; the narrower ones of English end in zeros.
    """

    crosses_languages = False
    weights = TABLE_WEIGHTS

    def __init__(self, segmenter: Segmenter) -> None:
        self._segmenter = segmenter

    @cached_property
    def dimensions(self) -> int:
        return int(json.loads((TABLE / "about.json").read_text("utf-8"))["dimensions"])

    @property
    def name(self) -> str:
        return table_name()

    def load(self) -> None:
        """Reads the tables, which the first text of each language would do otherwise."""
        table_name(), _english(), _chinese()

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            summed = self._summed(text)
            vectors[row, : len(summed)] = summed
        return unit(vectors)

    async def embed_query(self, text: str) -> Vectors:
        vector: Vectors = (await asyncio.to_thread(self.embed, [text]))[0]
        return vector

    async def aclose(self) -> None:
        """There is nothing to release."""

    def word(self, word: str, language: Language) -> tuple[Vectors, int]:
        """A word's vector, as wide as its table, all zeros where it is unknown, and its rank.

        The rank is the word's place in the table, in English ordered by how often words occur, of
        its rarest part where it has several; past the end of it where it is unknown.
        """
        if language == "zh":
            known, table = _chinese()
            ids = [known[part] for part in _known(word, known)]
            is_whole = word in known
        else:
            tokenizer, table = _english()
            unknown = tokenizer.token_to_id("[UNK]")
            tokens = tokenizer.encode(word, add_special_tokens=False).ids
            ids = [token for token in tokens if token != unknown]
            is_whole = len(tokens) == len(ids) == 1
        return table.sum(ids), max(ids, default=0) if is_whole else len(table)

    def _summed(self, text: str) -> Vectors:
        if script_of(text) == "zh":
            rows, table = _chinese()
            words = self._segmenter.words(text)
            return table.sum([rows[part] for word in words for part in _known(word, rows)])
        return self.word(text, "en")[0]


@cache
def table_name() -> str:
    """`static-` and the first 8 hex digits of the tables' hash."""
    digest = hashlib.sha256()
    for file in sorted(TABLE.glob("*.np[yz]")):
        digest.update(file.read_bytes())
    return f"static-{digest.hexdigest()[:8]}"


@cache
def _english() -> tuple[Tokenizer, VectorTable]:
    tokenizer = Tokenizer.from_file(str(TABLE / "en_tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer, VectorTable(TABLE / "en.npz")


@cache
def _chinese() -> tuple[Mapping[str, int], VectorTable]:
    words = (TABLE / "zh_words.txt").read_text("utf-8").split("\n")
    return {word: row for row, word in enumerate(words)}, VectorTable(TABLE / "zh.npz")


def _known(word: str, rows: Mapping[str, int]) -> list[str]:
    """The word, or those of its characters that have a vector."""
    return [word] if word in rows else [character for character in word if character in rows]
