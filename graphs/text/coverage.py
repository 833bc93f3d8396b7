"""Coverage: which share of a question's content words stands in the texts that answer it."""

from functools import cache

from opencc import OpenCC

from graphs.text.language import SMALL_WORDS, tokens_of

MAX_CHARS = 20_000
_SHORTEST = 3


def coverage(question: str, text: str) -> float | None:
    """0 to 1; None for a question without content words. The first 20,000 characters count."""
    needed, present = content_terms(question), content_terms(text)
    return len(needed & present) / len(needed) if needed else None


def content_terms(text: str) -> set[str]:
    """English words by their stems, words of grammar left out, and pairs of ideographs.

    Traditional characters count as their Simplified ones.
    """
    terms = set[str]()
    for token in tokens_of(text[:MAX_CHARS]):
        if token.is_chinese:
            run = _converter().convert(token.text)
            terms.update(run[at : at + 2] for at in range(max(1, len(run) - 1)))
            continue
        word = token.text.casefold().replace("’", "'")
        if not SMALL_WORDS & {word, word.removesuffix("'s")}:
            terms.add(_stem(word.removesuffix("'s")))
    return terms


@cache
def _converter() -> OpenCC:
    return OpenCC("t2s")


def _stem(word: str) -> str:
    """Without plural, -ing, -ed and a last e, as far as three letters stay."""
    if word.endswith("ies"):
        word = f"{word[:-3]}y"
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed", "e"):
        if len(word) - len(ending) >= _SHORTEST:
            word = word.removesuffix(ending)
    return word
