"""Sentences, languages and the neutralising of special tokens, in English and Chinese."""

import re
import unicodedata
from collections.abc import Callable, Iterable

_SENTENCE_END = re.compile(r"(?<=[。！？；])|(?<=[.!?;])[\"'”’)\]]*\s+|\n+")
_CJK = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")


def sentences(text: str) -> list[str]:
    """The text's sentences without surrounding blanks; 。！？； end one as . ! ? ; do."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part and part.strip()]


def is_sound(text: str) -> bool:
    """Whether it can be written as UTF-8: half of a surrogate pair is no character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_chinese(text: str) -> bool:
    """Whether at least a fifth of the text's characters are Chinese."""
    return len(_CJK.findall(text)) * 5 >= len(text.strip()) > 0


def neutraliser(special_tokens: Iterable[str]) -> Callable[[str], str]:
    """A function that breaks these strings with a blank wherever a text spells them.

    For tokenizers that read special tokens out of plain text: an end token inside a passage
    makes T5's heads refuse the whole batch. T5's tokenizer folds wide letters and drops
    invisible ones first, so a text that spells a token only then is returned folded and broken.
    """
    longest_first = sorted((token for token in special_tokens if token), key=len, reverse=True)
    if not longest_first:
        return lambda text: text
    spelt = re.compile("|".join(re.escape(token) for token in longest_first))

    def broken(text: str) -> str:
        return spelt.sub(lambda found: f"{found.group()[0]} {found.group()[1:]}", text)

    def neutral(text: str) -> str:
        as_written = broken(text)
        folded = _INVISIBLE.sub("", unicodedata.normalize("NFKC", as_written))
        return broken(folded) if spelt.search(folded) else as_written

    return neutral


def normal_form(text: str) -> str:
    """Case-folded words of a text, single-spaced, for comparing answers."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def contains_answer(passage: str, answers: list[str]) -> bool:
    """Whether an answer occurs in the passage, at word bounds, whatever its case.

    Chinese knows no word bounds: there an answer is looked for as a substring.
    """
    words = f" {normal_form(passage)} "
    for answer in answers:
        form = normal_form(answer)
        if form and (form in words if is_chinese(answer) else f" {form} " in words):
            return True
    return False
