"""Coverage: which share of a question's content words stands in the texts that answer it."""

import re
from collections.abc import Iterable

from graphs.text.language import SMALL_WORDS
from graphs.text.sentences import IDEOGRAPHS

_WORDS = re.compile(rf"[{IDEOGRAPHS}]+|[^\W_{IDEOGRAPHS}](?:[^\W{IDEOGRAPHS}]|[-.](?=\w))*")
_ENDINGS = ("ing", "ed", "es", "s")
_SHORTEST = 3


def coverage(question: str, texts: Iterable[str]) -> float:
    """0 to 1; 1 for a question without content words."""
    wanted_terms = content_terms(question)
    present = {term for text in texts for term in content_terms(text)}
    return len(wanted_terms & present) / len(wanted_terms) if wanted_terms else 1.0


def content_terms(text: str) -> set[str]:
    """English words without their endings, words of grammar left out, and pairs of ideographs."""
    terms = set[str]()
    for word in _WORDS.findall(text.casefold()):
        if re.match(f"[{IDEOGRAPHS}]", word):
            terms.update(word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif word not in SMALL_WORDS:
            terms.add(_without_ending(word))
    return terms


def _without_ending(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word.removesuffix(ending)
    return word
