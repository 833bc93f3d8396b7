"""Static embedder: weighted means of token vectors from the table shipped with the project."""

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from app.retrieval.embedder import Vectors, unit
from app.retrieval.hybrid import TABLE_WEIGHTS
from app.retrieval.tokenizer import Segmenter
from graphs.text.language import script_of
from graphs.types import Language

TABLE = Path(__file__).parent / "table"


class StaticEmbedder:
    """WordPiece tokens in English, jieba words in Chinese; both tables load at the first use.

    The two languages' vectors have the same width but nothing else in common.
    """

    crosses_languages = False
    weights = TABLE_WEIGHTS

    def __init__(self, segmenter: Segmenter, folder: Path = TABLE) -> None:
        self._segmenter = segmenter
        self._folder = folder
        about = json.loads((folder / "about.json").read_text("utf-8"))
        self.dimensions = int(about["dimensions"])

    @cached_property
    def name(self) -> str:
        return table_name(self._folder)

    def load(self) -> None:
        """Reads the tables, which the first text of each language would do otherwise."""
        _ = self.name, self._english, self._chinese

    @cached_property
    def _english(self) -> tuple[Tokenizer, "VectorTable"]:
        tokenizer = Tokenizer.from_file(str(self._folder / "en_tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer, VectorTable(self._folder / "en.npz")

    @cached_property
    def _chinese(self) -> tuple[dict[str, int], "VectorTable"]:
        words = (self._folder / "zh_words.txt").read_text("utf-8").split("\n")
        return {word: row for row, word in enumerate(words)}, VectorTable(self._folder / "zh.npz")

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            table, ids = self._rows(text)
            vectors[row] = table.sum(ids)
        return unit(vectors)

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self.embed([text])[0]
        return vector

    def word(self, word: str, language: Language) -> tuple[Vectors, int]:
        """As `WordVectors` says."""
        if language == "zh":
            known, table = self._chinese
            ids = [known[part] for part in _known(word, known)]
            is_whole = word in known
        else:
            tokenizer, table = self._english
            unknown = tokenizer.token_to_id("[UNK]")
            tokens = tokenizer.encode(word, add_special_tokens=False).ids
            ids = [token for token in tokens if token != unknown]
            is_whole = len(tokens) == len(ids) == 1
        return table.sum(ids), max(ids, default=0) if is_whole else len(table)

    def _rows(self, text: str) -> tuple["VectorTable", list[int]]:
        if script_of(text) == "zh":
            rows, table = self._chinese
            words = self._segmenter.words(text)
            return table, [rows[part] for word in words for part in _known(word, rows)]
        tokenizer, table = self._english
        unknown = tokenizer.token_to_id("[UNK]")
        tokens = tokenizer.encode(text, add_special_tokens=False).ids
        return table, [token for token in tokens if token != unknown]


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


def table_name(folder: Path = TABLE) -> str:
    """`static-` and the first 8 hex digits of the table's hash."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.np[yz]")):
        digest.update(file.read_bytes())
    return f"static-{digest.hexdigest()[:8]}"


def _known(word: str, rows: dict[str, int]) -> list[str]:
    """The word, or those of its characters that have a vector."""
    return [word] if word in rows else [character for character in word if character in rows]
