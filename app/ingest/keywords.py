"""What else is known of a chunk: the words that tell it apart (arXiv 2407.01219, metadata)."""

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache, lru_cache

from tokenizers import Tokenizer

from app.retrieval.embedders.static import TABLE
from app.retrieval.tokenizer import STOP_WORDS_EN, STOP_WORDS_ZH, Segmenter
from graphs.text.sentences import HAN
from graphs.types import Language

KEYWORDS = 8
ENGLISH_WORD = re.compile(r"[^\W_]+(?:[-'’.][^\W_]+)*")
LONGEST_KEYWORD = 40


def keywords(
    text: str, words: Iterable[str], language: Language, segmenter: Segmenter
) -> list[str]:
    """At most KEYWORDS terms of a chunk, most telling first, lower-case and Simplified.

    `words` are the text's segmented words, which only Chinese needs. How rare a word is comes from
    the word counts of the shipped vocabularies (tf-idf).
    """
    if language == "zh":
        counts = Counter(word for word in words if len(word) > 1)
    else:
        counts = Counter(word.lower() for word in ENGLISH_WORD.findall(text))
    weighed = {
        word: count / (count + 1) * _rarity(word, segmenter)
        for word, count in counts.items()
        if _tells(word)
    }
    best = sorted(weighed, key=lambda word: (-weighed[word], word))
    chosen: list[str] = []
    for word in best:
        # A part of a longer Chinese word says nothing beside it.
        if language != "zh" or not any(word in longer for longer in chosen):
            chosen.append(word)
        if len(chosen) == KEYWORDS:
            break
    return chosen


def _tells(word: str) -> bool:
    if len(word) < 2 or len(word) > LONGEST_KEYWORD or word.isdigit():
        return False
    return word not in STOP_WORDS_EN and word not in STOP_WORDS_ZH


def _rarity(word: str, segmenter: Segmenter) -> float:
    """Rises as a word is rarer in general, both languages on about the same scale, 0 to 1."""
    if HAN.search(word):
        segmenter.load()  # in an English text nothing was segmented yet
        count = segmenter.cutter.FREQ.get(word) or 1
        return math.log(segmenter.cutter.total / count) / math.log(segmenter.cutter.total)
    return _english_rarity(word)


@lru_cache(maxsize=100_000)
def _english_rarity(word: str) -> float:
    """By the word's place in a vocabulary ordered by frequency; names are in several pieces."""
    pieces = _tokenizer().encode(word, add_special_tokens=False).ids
    size = _tokenizer().get_vocab_size()
    return min(1.0, math.log(1 + max(pieces, default=0)) / math.log(size) + 0.1 * (len(pieces) > 1))


@cache
def _tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(TABLE / "en_tokenizer.json"))
