"""Sentences, languages and answers of plain text, in English and Chinese."""

import re
from collections.abc import Sequence
from pathlib import Path

_SENTENCE_END = re.compile(r"(?<=[。！？；])|(?<=[.!?;])[\"'”’)\]]*\s+|\n+")
_CJK = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


def sentences(text: str) -> list[str]:
    """The text's sentences without surrounding blanks; 。！？； end one as . ! ? ; do."""
    return [part.strip() for part in _SENTENCE_END.split(text) if part and part.strip()]


def named_sections(path: Path) -> dict[str, str]:
    """The parts of a text file, each under a line `=== name`, by their names."""
    parts = path.read_text(encoding="utf-8").split("=== ")[1:]
    return dict(part.strip().split("\n", 1) for part in parts)


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


def normal_form(text: str) -> str:
    """Case-folded words of a text, single-spaced, for comparing answers."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def language_of(text: str) -> str:
    """ "zh" or "en"."""
    return "zh" if is_chinese(text) else "en"


def contains_answer(passage: str, answers: Sequence[str]) -> bool:
    """Whether an answer occurs in the passage, at word bounds, whatever its case.

    Chinese knows no word bounds: there an answer is looked for as a substring.
    """
    words = f" {normal_form(passage)} "
    for answer in answers:
        form = normal_form(answer)
        if form and (form in words if is_chinese(answer) else f" {form} " in words):
            return True
    return False
