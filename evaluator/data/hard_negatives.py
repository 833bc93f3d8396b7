"""Hard negatives: nearest passages of a question by words (BM25)."""

import re
from collections.abc import Sequence
from importlib import import_module

from evaluator.data.text import is_chinese

_WORD = re.compile(r"[a-z0-9]+|[\u3400-\u9fff]+|[^\W\d_]+")
_STOP = frozenset(
    re.findall(
        r"\w+",
        "the a an of in on at to for and or is are was were be by with as that this it its from "
        "what which who whom whose when where why how did do does has have had",
    )
)


def terms(text: str) -> list[str]:
    """Words for BM25: lower-cased, English stop words dropped, Chinese as character pairs."""
    words: list[str] = []
    for run in _WORD.findall(text.lower()):
        if is_chinese(run):
            words += [run[i : i + 2] for i in range(max(1, len(run) - 1))]
        elif run not in _STOP:
            words.append(run)
    return words or ["-"]


class WordNeighbours:
    """BM25 over a fixed list of passages. Needs bm25s, which the words alone do not."""

    def __init__(self, passages: Sequence[str]) -> None:
        self._size = len(passages)
        self._index = import_module("bm25s").BM25()
        self._index.index([terms(passage) for passage in passages], show_progress=False)

    def nearest(self, questions: Sequence[str], k: int) -> list[list[int]]:
        """For each question the numbers of its k nearest passages, best first."""
        known = self._index.vocab_dict.keys() - {""}  # its own token for queries without words
        queries = [[t for t in terms(q) if t in known] or [min(known)] for q in questions]
        numbers, _ = self._index.retrieve(queries, k=min(k, self._size), show_progress=False)
        return [[int(number) for number in row] for row in numbers]
