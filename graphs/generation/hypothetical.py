"""Questions that a text would answer: found by them, a text is nearer to what users ask."""

import re

from langchain_core.messages import BaseMessage, HumanMessage

from graphs.generation.query_expansion import without_fence
from graphs.types import Language
from prompts import prompt

LONGEST_QUESTION = 300
NUMBER = re.compile(r"^(?:[-*•]|[(（]?\d{1,2}(?:[.:：](?!\d)|[)、）]))\s*")


def asking_for_questions(
    title: str, text: str, count: int, language: Language
) -> list[BaseMessage]:
    slots = {"title": title, "text": text, "count": str(count)}
    return [HumanMessage(prompt("hypothetical", language).render(**slots))]


def questions_in(reply: str, count: int) -> list[str]:
    """The reply's questions, one a line, each once; lines too long to be one are left out."""
    replied = without_fence(reply).splitlines()
    lines = (NUMBER.sub("", line.strip()).strip() for line in replied)
    found = dict.fromkeys(line for line in lines if 3 < len(line) <= LONGEST_QUESTION)
    return list(found)[:count]
