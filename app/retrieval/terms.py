"""Terms: how rare they are, the keywords of a text, and reranking by them without a model.

Reranking follows TILDE (arXiv 2108.08513): what a term says about its passage is decided at ingest,
a question only adds up. How rare a term is, how often and where it stands, and how far it is from
what the passage is about in general make its weight; pairs of neighbouring words have theirs.
Keywords are the rarest words: as queries, 3 of them find what whole questions find (400 questions
a language among 7,500 passages, BM25 recall@5: English .835 of .838, Chinese .998 of .998).
"""

import asyncio
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from threading import Lock

import numpy as np
import snowballstemmer
from numpy.typing import NDArray

from app.retrieval.embedder import StaticEmbedder, Vectors, unit
from app.retrieval.index import STORAGE_ERRORS, Index, IndexUnusable
from app.retrieval.retriever import chunk_ids
from app.retrieval.tokenizer import STOP_WORDS_EN, STOP_WORDS_ZH, Segmenter, word_set
from graphs.errors import RetrieverFailed
from graphs.options import Scope
from graphs.text.language import script_of
from graphs.text.model_output import whole_characters
from graphs.text.sentences import HAN, IDEOGRAPHS
from graphs.types import Language, Passage

MAX_TERMS = 150
MAX_CHARS = 20_000  # of a text; chunks are far shorter
STEPS = 8  # of a stored weight: 1/8 to 31 7/8
STORED = np.dtype([("term", "<u4"), ("weight", "u1")])
_CACHED = 1 << 12  # words, of which a vector is 1 kB

Scores = NDArray[np.float64]
Term = tuple[str, str]
"""A term and a word that is written so."""


SHARES: Mapping[Language, float] = {"en": 0.4, "zh": 0.2}
"""Share of these scores in the joined order; the retriever's have the rest. Found, as the figures
below, on training questions (benchmarks/term_weights.md)."""
SATURATION, LENGTH = 0.9, 0.2
"""Of BM25's kind: how soon further occurrences stop to count, how much a long passage is
discounted."""
USUAL_WORDS = 60.0
"""Telling words of a passage of usual length."""
IN_TITLE = 3.0
"""Occurrences that one in the title counts for."""
GENERAL = -0.5
"""Times the cosine of the term's vector and the passage's mean: below 0 for what stands out."""
PAIR, PAIR_IN_TITLE = 1.5, 2.25
# A run of ideographs, which jieba cuts, or any other word: self-crag, Node.js, C++.
RUN = re.compile(rf"[{IDEOGRAPHS}]+|[^\W{IDEOGRAPHS}]+(?:[-'’./+#][^\W{IDEOGRAPHS}]+)*[+#]*")
POSSESSIVE = re.compile(r"['’]s$")
# Words that are asked with rather than asked about, beside the stop words.
EMPTY_WORDS = (
    STOP_WORDS_EN
    | STOP_WORDS_ZH
    | word_set(
        "also between during happen happened happens many mean means much name named new old one"
        " people called kind type get got give gave goes made make makes take took come came use"
        " used using go done different difference explain describe list find work works"
        " 介绍 解释 说明 区别 意思 叫做 叫 名字 时候 时间 问题 以及 之间 它们 分别 哪里 哪个 哪些"
        " 哪一年 哪年 多久 多远 多高 多长 多大 年 月 日 中 上 下 里 内 后 前"
    )
)
MAX_QUESTION_CHARS = 500
MAX_CHINESE_CHARS = 4
"""Neighbouring Chinese words up to this length are one keyword: 机器学习."""
MAX_KEYWORD_CHARS = 40


class TermTables:
    """Words, their rarity and their vectors; methods block and are safe in several threads."""

    def __init__(self, segmenter: Segmenter) -> None:
        self.segmenter, self._vectors = segmenter, StaticEmbedder(segmenter)
        self.vector = lru_cache(_CACHED)(self._vector)
        self.rarity = lru_cache(_CACHED)(self._rarity)
        self._stem = lru_cache(_CACHED)(self._stemmed)
        self._stemmer, self._stemming = snowballstemmer.stemmer("english"), Lock()

    def terms(self, text: str, language: Language) -> list[Term]:
        """In reading order, without stop words: English stems, Chinese words as jieba cuts them."""
        text = whole_characters(text[:MAX_CHARS])
        if language == "zh":
            cut = self.segmenter.words(text)
            return [(word, word) for word in cut if word not in STOP_WORDS_ZH]
        words = re.findall(r"\w+", text.lower())
        return [(self._stem(word), word) for word in words if word not in STOP_WORDS_EN]

    def _stemmed(self, word: str) -> str:
        with self._stemming:  # it keeps the word in itself
            stem: str = self._stemmer.stemWord(word)
        return stem

    def _vector(self, word: str, language: Language) -> Vectors:
        return self._vectors.word(word, language)[0]

    def _rarity(self, word: str, language: Language) -> float:
        if language == "zh":
            cutter = self.segmenter.cutter
            return math.log(cutter.total / (cutter.FREQ.get(word) or 1)) / 4
        return math.log(1 + self._vectors.word(word, language)[1] / 500)


@lru_cache(maxsize=1)
def term_tables(segmenter: Segmenter) -> TermTables:
    """Kept for the last one who asked, for they remember thousands of words."""
    return TermTables(segmenter)


def term_weights(
    title: str, heading: str, text: str, language: Language, tables: TermTables
) -> dict[str, float]:
    """Term to weight, the heaviest MAX_TERMS of a passage."""
    named = tables.terms(f"{title}\n{heading}", language)
    inside = tables.terms(text, language)
    if not named and not inside:
        return {}
    weights = _single(named, inside, language, tables)
    weights |= _pairs(named, inside, language, tables)
    heaviest = sorted(weights.items(), key=lambda item: -item[1])[:MAX_TERMS]
    return {term: weight for term, weight in heaviest if weight > 0}


def _single(
    named: Sequence[Term], inside: Sequence[Term], language: Language, tables: TermTables
) -> dict[str, float]:
    counts, in_title = Counter(term for term, _ in inside), {term for term, _ in named}
    terms = [*named, *inside]
    vectors = np.stack([tables.vector(word, language) for _, word in terms])
    general = np.maximum(0, unit(vectors) @ unit(vectors.sum(axis=0, keepdims=True))[0])
    first = {terms[at][0]: at for at in reversed(range(len(terms)))}
    slow = SATURATION * (1 - LENGTH + LENGTH * len(inside) / USUAL_WORDS)
    weights = {}
    for term, at in first.items():
        often = counts[term] * (1 + SATURATION) / (counts[term] + slow)
        placed = often + IN_TITLE * (term in in_title)
        rarity = tables.rarity(terms[at][1], language)
        weights[term] = rarity * placed * (1 + GENERAL * float(general[at]))
    return weights


def _pairs(
    named: Sequence[Term], inside: Sequence[Term], language: Language, tables: TermTables
) -> dict[str, float]:
    weights: dict[str, float] = {}
    for terms, weight in ((named, PAIR_IN_TITLE), (inside, PAIR)):
        for (left, first), (right, second) in pairwise(terms):
            rarer = min(tables.rarity(first, language), tables.rarity(second, language))
            pair = f"{left} {right}"
            weights[pair] = max(weights.get(pair, 0.0), weight * rarer)
    return weights


def query_terms(question: str, language: Language, tables: TermTables) -> list[str]:
    """What `lexical_scores` looks for: the question's terms and their pairs, each once."""
    terms = [term for term, _ in tables.terms(question, language)]
    pairs = [f"{left} {right}" for left, right in pairwise(terms)]
    return list(dict.fromkeys([*terms, *pairs]))


def packed(weights: Mapping[str, float]) -> bytes:
    """As stored: five bytes a term, its CRC-32 and its weight in steps; equal hashes are rare."""
    steps = (max(1, min(255, round(weight * STEPS))) for weight in weights.values())
    rows = list(zip(map(_hashed, weights), steps, strict=True))
    return np.array(rows, dtype=STORED).tobytes()


def lexical_scores(terms: Sequence[str], stored: Sequence[bytes | None]) -> Scores:
    """Each passage's weights of these terms, summed, shape (passages,); 0 where none is stored."""
    parts = [np.frombuffer(one or b"", dtype=STORED) for one in stored]
    if not parts:
        return np.zeros(0)
    rows, owner = np.concatenate(parts), np.repeat(np.arange(len(parts)), list(map(len, parts)))
    hits = np.isin(rows["term"], np.array([_hashed(term) for term in terms], dtype="<u4"))
    weights = rows["weight"][hits] / STEPS
    scores = np.bincount(owner[hits], weights=weights, minlength=len(parts))
    return scores.astype(np.float64)  # of no hits at all it makes integers


def joined(hybrid: Sequence[float], lexical: Scores, language: Language) -> Scores:
    """Both brought to 0…1 and mixed by the language's share, shape (passages,)."""
    share = SHARES[language]
    return (1 - share) * _unit_range(np.asarray(hybrid, float)) + share * _unit_range(lexical)


def _unit_range(scores: Scores) -> Scores:
    spread = np.ptp(scores) if scores.size else 0.0
    return (scores - scores.min()) / spread if spread > 0 else np.zeros_like(scores)


def _hashed(term: str) -> int:
    return zlib.crc32(term.encode())


class LexicalReranker:
    """Scores of 0 to 1, joined with those of the retriever; one query of the index a call."""

    def __init__(self, index: Index, tables: TermTables) -> None:
        self._index, self._tables = index, tables

    async def rerank(
        self, question: str, passages: Sequence[Passage], scope: Scope
    ) -> Sequence[float]:
        parts = [chunk_ids(passage.id) for passage in passages]
        ids = [key for keys in parts for key in keys]
        try:
            rows = await self._index.columns(ids, ["terms"], scope)
        except (*STORAGE_ERRORS, IndexUnusable) as error:
            raise RetrieverFailed(self._index.remedy) from error
        language = script_of(question)
        terms = await asyncio.to_thread(query_terms, question, language, self._tables)
        lexical = lexical_scores(terms, [row["terms"] for row in rows.values()])
        scores = dict(zip(rows, lexical, strict=True))
        # A passage of several chunks is worth its best one.
        best = [max((scores.get(key, 0.0) for key in keys), default=0.0) for keys in parts]
        hybrid = [passage.score for passage in passages]
        return [float(score) for score in joined(hybrid, np.array(best, float), language)]


class RareWords:
    """`ports.KeywordExtractor`, and the keywords of a chunk."""

    def __init__(self, tables: TermTables) -> None:
        self._tables = tables

    async def keywords(self, question: str, most: int) -> Sequence[str]:
        return await asyncio.to_thread(self.of_question, question, most)

    def of_question(self, question: str, most: int) -> list[str]:
        """The rarest words, neighbours joined, as they are written and in their order."""
        question = question[:MAX_QUESTION_CHARS]
        spans: list[tuple[int, int, float]] = []
        for start, end, word in self._words(question):
            rarity = self._rarity(word)
            if spans and _joins(question, spans[-1][0], spans[-1][1], start, end):
                begin, _, before = spans.pop()
                spans.append((begin, end, max(before, rarity)))
            else:
                spans.append((start, end, rarity))
        telling = [span for span in spans if span[1] - span[0] > 1] or spans
        best = sorted(telling, key=lambda span: -span[2])[:most]
        return list(dict.fromkeys(question[start:end] for start, end, _ in sorted(best)))

    def of_text(self, text: str, most: int) -> list[str]:
        """The words that are frequent in it and rare in general, lower-case and Simplified."""
        counts = Counter(word for *_, word in self._words(text))
        weights = {
            word: count / (count + 1) * self._rarity(word)
            for word, count in counts.items()
            if 1 < len(word) <= MAX_KEYWORD_CHARS and not word.isdigit()
        }
        return sorted(weights, key=lambda word: (-weights[word], word))[:most]

    def _words(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Places and words, lower-case and Simplified, that are no empty ones."""
        segmenter = self._tables.segmenter
        for run in RUN.finditer(text):
            place = run.start()
            words: Iterable[str] = [POSSESSIVE.sub("", run[0]).lower()]
            if HAN.match(run[0]):
                words = segmenter.cutter.cut(segmenter.simplified(run[0]), HMM=False)
            for word in words:
                start, place = place, place + len(word)
                if word not in EMPTY_WORDS and (len(word) > 1 or HAN.match(word)):
                    yield start, place, word

    def _rarity(self, word: str) -> float:
        return self._tables.rarity(word, "zh" if HAN.match(word) else "en")


def _joins(text: str, begin: int, end: int, start: int, stop: int) -> bool:
    """Whether the word from `start` to `stop` goes on from the words from `begin` to `end`."""
    is_chinese = [bool(HAN.match(text[place])) for place in (end - 1, start)]
    if all(is_chinese):
        return end == start and stop - begin <= MAX_CHINESE_CHARS
    return not any(is_chinese) and text[end:start] == " "
