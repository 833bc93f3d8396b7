"""Query expansion: more queries from one question, and questions that a text would answer.

Reads what a language model replies; the prompts are those of `prompts/` (arXiv 2407.01219: query
rewriting, decomposition, HyDE; hypothetical questions as metadata of a chunk).
"""

import re
from collections.abc import Sequence

from langchain_core.messages import BaseMessage, HumanMessage

from graphs.text.model_output import without_fence
from graphs.text.questions import MAX_PARTS
from graphs.types import Language
from prompts import prompt

MAX_SUBQUESTIONS = 3
# The question, its clearer wording, the invented passage, and the parts.
MAX_QUERIES = 3 + max(MAX_PARTS, MAX_SUBQUESTIONS)
MAX_QUERY_CHARS, MAX_PASSAGE_CHARS, MAX_QUESTION_CHARS = 400, 1200, 300
LIST_MARK = re.compile(r"^\s*(?:[-*•](?!\d)|[(（]?\d{1,2}(?:[.．:：](?!\d)|[)）、]))\s*")
_QUOTES = '"“”「」` '


def as_query(reply: str) -> str:
    """The reply's one line; empty where it is more than that, or longer than a question."""
    text = without_fence(reply).strip(_QUOTES)
    return "" if "\n" in text or len(text) > MAX_QUERY_CHARS else text


def as_subquestions(reply: str) -> list[str]:
    """Its first three lines, without list marks."""
    lines = [as_query(LIST_MARK.sub("", line)) for line in without_fence(reply).splitlines()]
    return [line for line in lines if line][:MAX_SUBQUESTIONS]


def as_passage(reply: str, question: str) -> str:
    """HyDE's query: the question joined with the invented passage; empty where there is none."""
    passage = " ".join(without_fence(reply).split())[:MAX_PASSAGE_CHARS]
    return f"{question}\n{passage}" if passage else ""


def queries_of(question: str, made: Sequence[str]) -> list[str]:
    """The question first, no query twice; at most MAX_QUERIES."""
    kept: dict[str, str] = {}
    for query in [question, *made]:
        kept.setdefault(" ".join(query.casefold().split()), query)
    return [query for query in kept.values() if query][:MAX_QUERIES]


def hypothetical_messages(
    title: str, text: str, count: int, language: Language
) -> list[BaseMessage]:
    """Asks for questions that the text answers: by them it is nearer to what users ask."""
    slots = {"title": title, "text": text, "count": str(count)}
    return [HumanMessage(prompt("hypothetical", language).render(**slots))]


def as_hypothetical_questions(reply: str, count: int) -> list[str]:
    """The reply's questions, one a line, each once; lines too long to be one are left out."""
    lines = (LIST_MARK.sub("", line).strip() for line in without_fence(reply).splitlines())
    questions = dict.fromkeys(line for line in lines if 3 < len(line) <= MAX_QUESTION_CHARS)
    return list(questions)[:count]
