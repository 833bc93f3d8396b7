from dataclasses import replace

import pytest

from graphs.generation.answer import NO_LISTENER, answer_directly, revise_answer
from graphs.generation.prompts import DraftRequest, rewriting_messages
from graphs.generation.replies import ModelReply, reply_to
from graphs.options import Context
from graphs.ports import Services
from graphs.reflection.beam import segment_from
from graphs.types import Draft, Strip, Usage
from tests.fakes import FakeChat, services

SECOND = "second-model"
MESSAGES = rewriting_messages("Who built it?", [])


def able(chat: FakeChat, second: FakeChat | None = None) -> Services:
    return replace(services(chat=chat), fallback=second, fallback_name=SECOND)


def reasons_of(reply: ModelReply) -> list[str]:
    return [entry.reason for entry in reply.degraded]


async def test_the_model_replies() -> None:
    reply = await reply_to(MESSAGES, able(FakeChat(keywords="tower")))
    assert reply == ModelReply("tower", Usage(1, 10, 3))


async def test_nobody_is_asked_where_there_is_no_model() -> None:
    assert await reply_to(MESSAGES, services()) == ModelReply()


async def test_the_fallback_replies_where_the_model_fails() -> None:
    fails, second = FakeChat(fails_to_rewrite=True), FakeChat(keywords="tower")
    reply = await reply_to(MESSAGES, able(fails, second))
    assert (reply.text, reply.usage) == ("tower", Usage(2, 10, 3))
    assert reasons_of(reply) == [
        "the model is gone The fallback model second-model stood in.",
    ]


async def test_where_both_fail_there_is_no_reply() -> None:
    fails = FakeChat(fails_to_rewrite=True)
    reply = await reply_to(MESSAGES, able(fails, fails))
    assert (reply.text, reply.usage) == ("", Usage(2))
    assert reasons_of(reply) == ["the model is gone"] * 2


REQUEST = DraftRequest("What?", [], [], floor=0.0, language="en")


async def test_a_revision_falls_back() -> None:
    parts = able(FakeChat(chunks=["x"], fails_after=0), FakeChat(chunks=["Better."]))
    revised = await revise_answer(REQUEST, Draft("Bad.", ()), "It is bad.", parts, NO_LISTENER)
    assert (revised.answer, revised.generator) == ("Better.", SECOND)
    assert "stood in" in revised.degraded[0].reason
    assert revised.usage == Usage(2, 10, 3)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_direct_answer_falls_back(fails: bool) -> None:
    second = FakeChat(chunks=["Four."], fails_after=0 if fails else None)
    parts = able(FakeChat(chunks=["x"], fails_after=0), second)
    written = await answer_directly(REQUEST, parts, NO_LISTENER)
    assert written.answer == ("" if fails else "Four.")
    assert len(written.degraded) == (2 if fails else 1)


async def test_a_segment_falls_back() -> None:
    passage = Strip("s1", "d1", "It is tall.", "T", "a.md", "internal", (0, 0))
    parts = able(FakeChat(fails_to_rewrite=True), FakeChat(keywords="It is tall."))
    found = await segment_from(REQUEST, passage, "", parts)
    assert found.segment is not None
    assert (found.segment.text, found.segment.generator) == ("It is tall.", SECOND)
    assert found.usage.llm_calls == 2
    assert "stood in" in found.degraded[0].reason


async def test_a_spent_budget_spends_no_call_of_the_fallback() -> None:
    parts = able(FakeChat(), FakeChat()).within_budget(Usage(llm_calls=1), Context(max_llm_calls=1))
    assert (parts.chat, parts.fallen_back) == (None, None)
