"""Whether a text holds a gold answer: normalised matching, and the papers' published matching."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

from graphs.text.citations import without_markers

_CJK = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3040-\u30ff\uac00-\ud7af"
_TOKEN = re.compile(rf"[{_CJK}]|[0-9]+(?:[.,][0-9]+)*|(?:(?![{_CJK}0-9_])\w)+")
_ARTICLES = {"a", "an", "the"}


def tokens(text: str) -> list[str]:
    """Words, numbers and single CJK characters in lower case; no articles, no markers `[n]`.

    As SQuAD's scorer for English (punctuation and articles leave) and CMRC 2018's for Chinese (a
    character is a token). Commas that group digits leave: `1,024` is `1024`.
    """
    folded = unicodedata.normalize("NFKC", without_markers(text)).casefold()
    words = (token.replace(",", "") for token in _TOKEN.findall(folded))
    return [token for token in words if token not in _ARTICLES]


def holds(text: str, answers: Sequence[str]) -> bool:
    """Whether the text has all tokens of one of the answers, one after the other."""
    inside = _padded(text)
    return any(_padded(answer) in inside for answer in answers if tokens(answer))


def published_match(text: str, answers: Sequence[str]) -> bool:
    """The papers' `match`: an answer stands in the text, letter by letter, in any case."""
    return any(answer.lower() in text.lower() for answer in answers)


def exact_match(text: str, answers: Sequence[str]) -> bool:
    """Whether the text is one of the answers, by its tokens."""
    predicted = tokens(text)
    return any(predicted == tokens(answer) for answer in answers)


def token_f1(text: str, answers: Sequence[str]) -> float:
    """The best F1 of the text's tokens against those of an answer, 0…1."""
    predicted = Counter(tokens(text))
    return max((_f1(predicted, Counter(tokens(answer))) for answer in answers), default=0.0)


def _padded(text: str) -> str:
    return f" {' '.join(tokens(text))} "


def _f1(predicted: Counter[str], gold: Counter[str]) -> float:
    common = (predicted & gold).total()
    return 2 * common / (predicted.total() + gold.total()) if common else 0.0
