"""Queries of the knowledge base, read from what a language model makes of a question."""

import re
from collections.abc import Sequence

MOST_PARTS = 3
MOST_QUERIES = 5
LONGEST_QUERY, LONGEST_PASSAGE = 400, 1200
_MARK = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)、])\s*")
_QUOTES = '"“”「」` '


def as_query(reply: str) -> str:
    """The reply's one line; empty where it is more than that, or longer than a question."""
    text = reply.strip().strip(_QUOTES)
    return "" if "\n" in text or len(text) > LONGEST_QUERY else text


def as_parts(reply: str) -> list[str]:
    """Its first three lines, without list marks."""
    lines = [as_query(_MARK.sub("", line)) for line in reply.splitlines()]
    return [line for line in lines if line][:MOST_PARTS]


def as_passage(reply: str, question: str) -> str:
    """HyDE's query: the question joined with the invented passage; empty where there is none."""
    passage = " ".join(reply.split())[:LONGEST_PASSAGE]
    return f"{question}\n{passage}" if passage else ""


def queries_of(question: str, made: Sequence[str]) -> list[str]:
    """The question first, no query twice; at most five."""
    kept: dict[str, str] = {}
    for query in [question, *made]:
        kept.setdefault(" ".join(query.casefold().split()), query)
    return [query for query in kept.values() if query][:MOST_QUERIES]
