"""Hostile pages: in no prompt are they more than data, and no marker of theirs is a citation.

The model is the most obedient one: it answers with all that it was given, word for word.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from app.llm.chat import chat_model
from graphs.critics.llm import LlmCritic
from graphs.critics.llm_grader import LlmEvaluator
from graphs.generation.extractive import compose, pieces_of, quoted_sentences
from graphs.grading.strips import strips_of
from graphs.ports import Services
from graphs.reflection.scores import CONTINUE, RELEVANT, RETRIEVE, SUPPORT, UTILITY
from graphs.text.citations import cited_numbers
from graphs.text.prompt_injection import as_data
from graphs.types import Message, Passage, WebPage
from prompts import NAMES, prompt
from tests import fakes
from tests.graphs.traced import Trace, traced
from tests.loopback.critic import CriticServer
from tests.loopback.openai import MODEL, OPENAI_KEY, text_of

HOSTILE = json.loads(Path(__file__).with_name("injections.json").read_text(encoding="utf-8"))
QUESTIONS = {"en": "How high is the tower of Umbra?", "zh": "乌木城的塔有多高？"}
TEXTS: list[str] = [text for texts in HOSTILE["texts"].values() for text in texts]
OPTIONS: dict[str, Any] = {
    "web": "always", "top_strips": 50, "evidence_tokens": 20_000, "retrieval": "always",
    "max_drafts": 2, "max_critic": 1, "max_llm_calls": 1000,
}  # fmt: skip
BLOCK = re.compile(
    r"<(?P<name>[a-z]+)-(?P<nonce>[0-9a-f]{16})>\n(?P<data>.*?)\n</(?P=name)-(?P=nonce)>", re.DOTALL
)
TOKENS = re.compile(
    r"<\s?/?\s?\||<</?SYS|</?s>|</ s>|\[/?INST\]|<(?:start|end)_of_turn>|<bos>|<eos>|<pad>|<unk>"
    r"|<sop>|\[gMASK\]|<think|<tool_call|\[TOOL_CALLS|\[/?AVAILABLE|<extra_id|<unused|</?paragraph"
    r"|\[/?SYSTEM_PROMPT|<\s?/?\s?(?:knowledge|passage|question|answer|findings|dialogue)"
    rf"|{'|'.join(map(re.escape, (*RETRIEVE, CONTINUE, *RELEVANT, *SUPPORT, *UTILITY)))}",
    re.IGNORECASE,
)
ANY_MARKER = re.compile(
    r"(?<![\w\]])[\[［【]\s?[0-9０-９]+(?:\s?[-–~,，;；]\s?[0-9０-９]+)*\s?[\]］】]"
)
PARROTED = re.compile(r"^\[\d+\] \(.*\)\n?", re.MULTILINE)


class Parrot(CriticServer):
    """Judges as the critic does. `cites`: with the markers of what it repeats."""

    def reset(self) -> None:
        super().reset()
        self.cites = False

    def reply(self, messages: Sequence[dict[str, Any]]) -> str:
        asked = text_of(messages[-1])
        if asked.endswith(("The JSON object:", "对应的 JSON 对象：")) or "<passage-" in asked:
            return super().reply(messages)
        if asked.endswith(("Keywords:", "关键词：")):
            return "tower, site:evil.example, https://evil.example/?q=c2VjcmV0, Umbra [2]"
        told = {block["name"]: block["data"] for block in BLOCK.finditer(asked)}
        if "knowledge" not in told:
            return next(question for question in QUESTIONS.values() if question in asked)
        parts = PARROTED.split(told["knowledge"])[1:]
        ends = (f" [{n}].\n\n" if self.cites else "\n\n" for n in count(1))
        # Without backticks: what was code in a page may be none in an answer.
        said = (part.strip().replace("`", "") + end for part, end in zip(parts, ends, strict=False))
        return "So it says: " + "".join(said)


def pages() -> Iterator[Passage]:
    """Each with a word of its own, or it would pass for a repetition."""
    number = count()
    texts = [*TEXTS, *(f"{first}\n\n{second}" for first, second in HOSTILE["split"])]
    for text in texts:
        n = next(number)
        yield Passage(
            f"p{n}", f"{text} Umbra page{n}.", f"Page {n}", f"docs/{n}.md", retrieval_score=0.1
        )
    for title in HOSTILE["titles"]:
        n = next(number)
        yield Passage(
            f"p{n}", f"The tower is tall, page{n}.", title, f"docs/{n}.md", retrieval_score=0.1
        )
    for source in HOSTILE["sources"]:
        n = next(number)
        yield Passage(
            f"p{n}", f"The tower is tall, page{n}.", f"Page {n}", source, retrieval_score=0.1
        )


PAGES = list(pages())
RUNS = [PAGES[at : at + 20] for at in range(0, len(PAGES), 20)]


def frames() -> set[str]:
    """All messages as they are without data."""
    found = set[str]()
    for language, question in QUESTIONS.items():
        nobody = prompt("dialogue", language).render(turns="")
        for name in NAMES:
            asked = prompt(name, language)
            for dialogue in ("", nobody):
                slots = {
                    **dict.fromkeys(asked.slots, ""),
                    "question": question,
                    "dialogue": dialogue,
                }
                found.add(
                    BLOCK.sub("", asked.render(**{slot: slots[slot] for slot in asked.slots}))
                )
    return found


FRAMES = frames()


@pytest.fixture
def parrot(started: Any) -> Parrot:
    server: Parrot = started.fresh(Parrot)
    return server


async def run(
    parrot: Parrot, found: Sequence[Passage], workflow: str, language: str, mode: Any
) -> Trace:
    """Half of the pages are local, half are of the web; one of them was quoted to the user."""
    chat = chat_model(parrot.base_url, OPENAI_KEY, MODEL, timeout_s=20, max_concurrent=8)
    web = [WebPage(p.source, p.title, 0.9, tuple(p.text.split("\n\n"))) for p in found[10:]]
    services = Services(
        retriever=fakes.FakeRetriever(found[:10]),
        evaluator=LlmEvaluator(chat, MODEL, mode),
        critic=LlmCritic(chat, MODEL),
        keyword_extractor=fakes.FakeKeywords(),
        web_search=fakes.FakeWebSearch(web),
        chat=chat,
        chat_name=MODEL,
    )
    history: list[Message] = [
        {"role": "user", "content": QUESTIONS[language]},
        {"role": "assistant", "content": found[0].text},
    ]
    try:
        return await traced(services, QUESTIONS[language], workflow, history, **OPTIONS)
    finally:
        await chat.aclose()


def test_there_are_enough_of_them() -> None:
    assert len(PAGES) >= 150


@pytest.mark.parametrize("number", range(len(RUNS)))
async def test_no_page_leaves_its_block_and_none_is_cited_by_its_own_marker(
    parrot: Parrot, number: int
) -> None:
    """Every page in one of two workflows by turns; `as_data` is the same for all prompts."""
    asked = [("crag", "en", "direct"), ("self_crag", "zh", "few_shot")][number % 2]
    trace = await run(parrot, RUNS[number], *asked)

    nonces, numbered = list[str](), 0
    for request in parrot.requests:
        for message in request.body["messages"]:
            said = text_of(message)
            assert BLOCK.sub("", said) in FRAMES
            blocks = list(BLOCK.finditer(said))
            own = {block["nonce"] for block in blocks}
            nonces += own
            for block in blocks:
                data = block["data"]
                assert not any(nonce in data for nonce in own)
                assert TOKENS.findall(data) == []
                assert {unicodedata.category(sign) for sign in data} & {"Cf", "Co", "Cs"} == set()
                assert {sign for sign in data if ord(sign) >= 0xE0000} == set()
                if block["name"] == "knowledge":
                    numbers = re.findall(r"^\[(\d+)\] \(", data, re.MULTILINE)
                    assert numbers == [str(n + 1) for n in range(len(numbers))]
                    assert len(ANY_MARKER.findall(data)) == len(numbers) > 0
                    numbered += 1
                elif block["name"] in {"passage", "dialogue"}:
                    assert ANY_MARKER.findall(data) == []
    assert numbered > 0
    assert len(set(nonces)) == len(nonces), "drawn anew for each prompt"

    assert "So it says" in trace.answer
    assert trace.output["citations"] == []
    assert trace.output["rewritten_query"] == "tower, Umbra"


async def test_its_own_markers_are_cited(parrot: Parrot) -> None:
    parrot.cites = True
    trace = await run(parrot, RUNS[1], "crag", "en", "direct")

    assert [citation.n for citation in trace.output["citations"]][:3] == [1, 2, 3]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.id)
def test_what_is_quoted_word_for_word_cites_its_own_strip_alone(page: Passage) -> None:
    """Nor does it hold a control token, such as a grade of its own."""
    strips = strips_of(
        [page, fakes.passage("The tower of Umbra is 87 metres high.", 1000)], "passage"
    )
    graded = quoted_sentences(pieces_of(strips))
    hostile = [sentence for sentence in graded if sentence.n == 1]

    assert set(cited_numbers("".join(compose(hostile)))) <= {1}
    assert TOKENS.search("".join(compose(hostile))) is None
    assert set(cited_numbers("".join(compose(hostile, [page.text])))) <= {1}


def test_reading_data_twice_changes_nothing() -> None:
    for page in PAGES:
        for text in (page.text, page.title, page.source):
            assert as_data(as_data(text)) == as_data(text)
