"""Queries of the knowledge base, read from what a language model makes of a question."""

import re
from collections.abc import Sequence

from graphs.text.subquestions import MOST_PARTS

MOST_SUBQUESTIONS = 3
# The question, its clearer wording, the invented passage, and the parts.
MOST_QUERIES = 3 + max(MOST_PARTS, MOST_SUBQUESTIONS)
LONGEST_QUERY, LONGEST_PASSAGE = 400, 1200
LIST_MARK = re.compile(r"^\s*(?:[-*•](?!\d)|\d{1,2}(?:[.．](?!\d)|[)）、]))\s*")
_QUOTES = '"“”「」` '
_FENCE = re.compile(r"```\w*+[ \t\r]*+\n|```")


def without_fence(reply: str) -> str:
    """The reply without the marks of a code block, which some models put around what they say."""
    return _FENCE.sub("\n", reply).strip()


def as_query(reply: str) -> str:
    """The reply's one line; empty where it is more than that, or longer than a question."""
    text = without_fence(reply).strip(_QUOTES)
    return "" if "\n" in text or len(text) > LONGEST_QUERY else text


def as_parts(reply: str) -> list[str]:
    """Its first three lines, without list marks."""
    lines = [as_query(LIST_MARK.sub("", line)) for line in without_fence(reply).splitlines()]
    return [line for line in lines if line][:MOST_SUBQUESTIONS]


def as_passage(reply: str, question: str) -> str:
    """HyDE's query: the question joined with the invented passage; empty where there is none."""
    passage = " ".join(without_fence(reply).split())[:LONGEST_PASSAGE]
    return f"{question}\n{passage}" if passage else ""


def queries_of(question: str, made: Sequence[str]) -> list[str]:
    """The question first, no query twice; at most MOST_QUERIES."""
    kept: dict[str, str] = {}
    for query in [question, *made]:
        kept.setdefault(" ".join(query.casefold().split()), query)
    return [query for query in kept.values() if query][:MOST_QUERIES]
