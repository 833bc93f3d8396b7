"""Whatever is pasted, reading it takes time in proportion to its length."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest

from graphs.generation.answer import cited
from graphs.generation.compression import as_summary
from graphs.generation.extractive import candidate_sentences
from graphs.generation.prompts import (
    as_hypothetical_questions,
    as_query,
    as_subquestions,
)
from graphs.nodes.queries import as_question
from graphs.nodes.web import as_keywords
from graphs.reflection.tokens import clean
from graphs.text.citations import without_unknown_markers
from graphs.text.language import answer_language
from graphs.text.prompt_injection import as_data
from graphs.text.questions import is_courtesy, standalone, subquestions_of
from graphs.text.sentences import sentences
from graphs.text.units import split_strips
from graphs.types import Message, Strip

LENGTH = 1_200
"""Of the shorter text; the longer one has four times as many characters."""
SLACK_S = 0.02


def quotable(text: str) -> object:
    return candidate_sentences([Strip("p#0", "p", text, "T", "a.md", "internal", (0, 0))])


def filtered(text: str) -> None:
    """As it is streamed, some tokens at a time."""

    async def streamed() -> None:
        async def chunks() -> AsyncIterator[str]:
            for at in range(0, len(text), 32):
                yield text[at : at + 32]

        async for _ in without_unknown_markers(chunks(), 3):
            pass

    asyncio.run(streamed())


def followed(text: str) -> object:
    return standalone(text, [Message(role="user", content=text)] * 3)


def worded(text: str) -> object:
    return as_question(text, text)


def searched(text: str) -> object:
    return as_keywords(text, text)


def hypothetical(text: str) -> object:
    return as_hypothetical_questions(text, 3)


READERS: list[Callable[[str], object]] = [
    *(subquestions_of, answer_language, sentences, split_strips, as_data, quotable, clean),
    is_courtesy,
    *(as_summary, as_query, searched, as_subquestions, filtered, cited),
    *(followed, worded, hypothetical),
]
# A text is its beginning, then the unit again and again, then its end.
UNITS = [
    *(" ", "\t", "\n", "\u3000", " \n", "-", "*", "#", "`", '"', "“", "(", "[", "]", "<", "< "),
    *("1", "1.", "[1]", "[1] ", "|", " |", "_", ".", "?", "。", "？", ",", ", ", "，", "and "),
    *(", and ", "what is ", "什么", "汉", "a", "a_", "a-", "<s>", "文a ", "…", '."', ".[1]"),
    *("a 是 ", "how 怎 ", "用中文 ", "answer in ", "` ", "`a` ", "```\n", "1. ```\n", "好。`"),
]
BEGINNINGS = ["什么是", "a <"]


def spent(read: Callable[[str], object], text: str) -> float:
    """Seconds of CPU."""
    started = time.process_time()
    read(text)
    return time.process_time() - started


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_four_times_the_text_takes_about_four_times_as_long(
    read: Callable[[str], object],
) -> None:
    for unit in UNITS:
        for beginning in BEGINNINGS:
            short, long = (
                beginning + unit * (size // len(unit)) + "x?" for size in (LENGTH, 4 * LENGTH)
            )
            if spent(read, long) > SLACK_S:
                taken = min(spent(read, long) for _ in range(3))
                assert taken <= 8 * spent(read, short) + SLACK_S, (beginning, unit)
