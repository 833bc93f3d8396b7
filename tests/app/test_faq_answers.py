"""The text of answers to what people ask first: the page's examples, and twenty of the FAQ.

`faq_answers.json` has a pattern for the asked-for fact of each, written before the answers.
"""

import json
import re
from pathlib import Path

import httpx
import pytest

from graphs.text.citations import without_markers
from graphs.text.sentences import plain
from tests.app.test_first_light import ask

FACTS: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_suffix("").with_name("faq_answers.json").read_text(encoding="utf-8")
)
HELD = {"en": 20, "zh": 16}
"""Of 22 questions a language: answers that hold the fact, at least."""
FIRST = {"en": 12, "zh": 7}
"""Answers whose first sentence holds it, at least."""

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_answers_read_well_and_begin_with_what_was_asked_for(
    handbook: httpx.AsyncClient, language: str
) -> None:
    later, not_at_all = set(), set()
    for question, fact in FACTS[language].items():
        body = await ask(handbook, question)
        answer, said = str(body["answer"]), body["sentences"]
        assert isinstance(said, list)
        texts = [plain(without_markers(answer[one["start"] : one["end"]])) for one in said]
        assert len(texts) == len(set(texts)), f"{question}: said twice"
        assert not re.search(r"[:：]\s*(?:\[\d+\]\s*)?$", answer), f"{question}: nothing follows"
        assert not any(text.startswith(("{", "[")) for text in texts), f"{question}: data"
        if not re.search(fact, answer):
            not_at_all.add(question)
        elif not re.search(fact, answer[said[0]["start"] : said[0]["end"]]):
            later.add(question)
    held = len(FACTS[language]) - len(not_at_all)
    assert held >= HELD[language], f"without the fact: {sorted(not_at_all)}"
    assert held - len(later) >= FIRST[language], f"not in the first sentence: {sorted(later)}"
