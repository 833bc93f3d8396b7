"""Definitions in texts, by their form: "A quay is a wall …", 会话是指……, and a heading's own term.

Few and certain ones: what is not clearly a definition is none.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from graphs.text.sentences import IDEOGRAPHS, sentences
from graphs.types import Language

_NOT_WHAT_IT_IS = r"(?!first|last|only|same|best|most|default|other|next|second)\w"
_ENGLISH = re.compile(
    r"(?P<term>(?:An? )?[A-Za-z][\w'’-]*(?: [\w'’-]+){0,2}|The [\w'’-]+(?: [\w'’-]+){1,4})"
    rf" (?:is|means) (?:an?|any|the) {_NOT_WHAT_IT_IS}"
)
_CHINESE = re.compile(
    rf"(?P<term>[{IDEOGRAPHS}A-Za-z][{IDEOGRAPHS}\w -]{{0,11}}?)"
    r"(?:（[^）]{1,40}）(?:是|指)|是指|指的是|是一[种个类项条段份套])"
)
_NO_TERMS = re.compile(
    r"(?:the )?(?:it|this|that|there|here|he|she|they|one|what|which|who|such|another|each|every|"
    r"if|when|first|second|third|last|next|same|other|result|following)\b"
    r"|这|那|它|他|她|此|该|其|本|每|如果|以下|另|第",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"\b(?:that|which|who|if|when|because|and|or|is|are)\b")
_SAYS_WHAT = re.compile(r" (?:is|means) |\s?[:：]\s?|（|是|指")


@dataclass(frozen=True, slots=True)
class Definition:
    """A term as it stands within a question, and the sentence that says what it is."""

    term: str
    sentence: str


def definitions(text: str, heading: str, language: Language) -> Iterator[Definition]:
    """In their order: of the heading's own term in any form, of others where it is sure."""
    form = _ENGLISH if language == "en" else _CHINESE
    for line in sentences(text):
        found = form.match(line)
        term = found["term"].strip() if found else _of_heading(line, heading)
        if term and not _NO_TERMS.match(term) and not _CLAUSE.search(term):
            yield Definition(within_sentence(term, text), line)


def within_sentence(term: str, text: str) -> str:
    """The term as it is written inside a sentence: articles, and words of the text, small."""
    first, blank, rest = term.partition(" ")
    small = first.lower()
    is_word = re.search(rf"(?<![\w.]){re.escape(small)}\b", text) is not None
    return f"{small}{blank}{rest}" if small in ("a", "an", "the") or is_word else term


def _of_heading(line: str, heading: str) -> str:
    """The heading where the sentence says what it is, else nothing."""
    begins = bool(heading) and line.casefold().startswith(heading.casefold())
    return heading if begins and _SAYS_WHAT.match(line[len(heading) :]) else ""
