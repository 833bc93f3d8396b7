"""Coverage: which share of a question's content words stands in the texts that answer it."""

from collections.abc import Iterable

from graphs.text.language import tokens_of

_ENDINGS = ("'s", "’s", "ing", "ed", "es", "s")
_SHORTEST = 3


def coverage(question: str, texts: Iterable[str]) -> float:
    """0 to 1; 1 for a question without content words."""
    needed = content_terms(question)
    present = {term for text in texts for term in content_terms(text)}
    return len(needed & present) / len(needed) if needed else 1.0


def content_terms(text: str) -> set[str]:
    """English words without their endings, words of grammar left out, and pairs of ideographs."""
    terms = set[str]()
    for token in tokens_of(text):
        if token.is_chinese:
            terms.update(token.text[at : at + 2] for at in range(max(1, len(token.text) - 1)))
        elif not token.is_small:
            terms.add(_without_ending(token.text.casefold()))
    return terms


def _without_ending(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word.removesuffix(ending)
    return word
