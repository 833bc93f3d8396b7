"""self_rag and self_crag over HTTP: drafts, critique and retractions as a client sees them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk

from graphs.ports import Services
from graphs.types import Judgement
from tests import fakes
from tests.app.api.routes.test_ask import ANSWER, NUMBER, assert_cited, assert_typed
from tests.app.api.test_sse import names
from tests.app.serving import Sent, Serve, Serving, shown, wait_until
from tests.umbra import CHINESE, ENGLISH, FIRST, SECOND, TOWER, TURM

BOTH = pytest.mark.parametrize(
    ("workflow", "question"), [("self_rag", ENGLISH), ("self_crag", CHINESE)]
)
OPTIONAL = (*NUMBER, type(None))
JUDGED = {"relevance": OPTIONAL, "support": OPTIONAL, "utility": OPTIONAL, "score": NUMBER}
CANDIDATE = {"n": int, "origin": str, "document_ids": list, "answer": str, "chosen": bool} | JUDGED
CRITIQUE = {"round": int, "criticism": str, "accepted": bool} | JUDGED
ENDS = {"accepted", "unchanged", "max_critic"}


def steps(events: list[Sent], phase: str) -> list[dict[str, Any]]:
    return [e.data for e in events if e.name == "step" and e.data["phase"] == phase]


def drafting(answers: list[str], script: list[Judgement], **parts: Any) -> Services:
    """One passage, a chat endpoint that says these answers and a critic that judges them so."""
    return fakes.services(
        parts.get("retriever", fakes.FakeRetriever([TOWER])),
        chat=parts.get("chat", fakes.ScriptedChat(answers=answers)),
        critic=fakes.FakeCritic(script=script, words=["Say how tall."]),
    )


@BOTH
def test_the_answer_has_the_fields_of_the_contract(
    service: Serving, workflow: str, question: str
) -> None:
    answer = service.ask(question, workflow=workflow)

    assert_typed(answer, ANSWER)
    assert answer["retrieval"]["decision"] is True
    assert 0 <= answer["retrieval"]["probability"] <= 1
    assert answer["action"] == ("correct" if workflow == "self_crag" else None)
    for candidate in answer["candidates"]:
        assert_typed(candidate, CANDIDATE)
    assert [c["n"] for c in answer["candidates"]] == list(range(1, len(answer["candidates"]) + 1))
    assert [c["chosen"] for c in answer["candidates"]].count(True) == 1
    assert {c["origin"] for c in answer["candidates"]} == {"internal"}
    known = {document["id"] for document in answer["documents"]}
    assert all(set(c["document_ids"]) <= known for c in answer["candidates"])
    for entry in answer["critique"]:
        assert_typed(entry, CRITIQUE)
        assert entry["accepted"] == (not entry["criticism"])
        assert 0 <= entry["support"] <= 1
        assert -1 <= entry["utility"] <= 1
    assert [entry["round"] for entry in answer["critique"]] == list(range(len(answer["critique"])))
    assert 1 <= len(answer["critique"]) <= 4
    assert answer["stopped_by"] in ENDS
    assert ("87" if question == ENGLISH else "八十七米") in answer["answer"]
    assert answer["degraded"] == []
    assert_cited(answer)


@BOTH
def test_the_stream_shows_the_answer_and_every_step(
    service: Serving, workflow: str, question: str
) -> None:
    events = service.stream(question, workflow=workflow)
    answer = events[-2].data
    started, ended = steps(events, "start"), steps(events, "end")

    assert shown(events) == answer["answer"]
    paths = [step["path"] for step in started]
    assert sorted(paths) == sorted(step["path"] for step in ended), "what begins ends"
    assert paths.count(["reflect"]) == 1
    assert [path for path in paths if path[-1] == "critique"] == (
        [["reflect", "critique"]] * len(answer["critique"])
    )
    order = [(step["step"], step["phase"]) for step in [e.data for e in events if e.name == "step"]]
    assert order.index(("reflect", "start")) < order.index(("critique", "start"))
    assert order[-1] == ("reflect", "end")
    assert {step["step"] for step in ended} == set(answer["timings_ms"])


@pytest.mark.parametrize("workflow", ["crag", "self_rag", "self_crag"])
def test_a_rejected_draft_is_retracted(serve: Serve, workflow: str) -> None:
    serving = serve(drafting([FIRST, SECOND], [fakes.POOR, fakes.GOOD]))
    options = {"reflect": True} if workflow == "crag" else {}
    events = serving.stream(ENGLISH, workflow=workflow, options=options)
    answer = events[-2].data

    assert [e.data for e in events if e.name == "retract"] == [
        {"round": 0, "reason": "Say how tall."}
    ]
    cut = names(events).index("retract")
    before, after = events[:cut], events[cut:]
    assert {e.data["round"] for e in before if e.name == "token"} == {0}
    assert "".join(e.data["text"] for e in before if e.name == "token") == FIRST
    assert {e.data["round"] for e in after if e.name == "token"} == {1}
    assert shown(events) == answer["answer"] == SECOND
    assert answer["stopped_by"] == "accepted"
    inner = [step["path"] for step in steps(events, "end") if len(step["path"]) > 1]
    assert inner[1:] == [
        ["reflect", name] for name in ("critique", "criticise", "revise", "critique")
    ]
    assert_cited(answer)


def test_every_critique_tells_its_judgement(serve: Serve) -> None:
    serving = serve(drafting([FIRST, SECOND], [fakes.POOR, fakes.GOOD]))
    events = serving.stream(ENGLISH)
    answer = events[-2].data
    ended = steps(events, "end")

    rounds = [step["detail"]["critique"] for step in ended if step["step"] == "critique"]
    assert [entry["round"] for entry in rounds] == [0, 1]
    assert all(set(entry) == set(CRITIQUE) for entry in rounds)
    assert rounds[1] == answer["critique"][1]
    [criticism] = [step["detail"]["critique"] for step in ended if step["step"] == "criticise"]
    assert criticism == answer["critique"][0]
    assert criticism["criticism"] == "Say how tall."
    details = {step["step"]: step["detail"] for step in ended}
    assert details["decide_retrieval"]["retrieval"] == answer["retrieval"]
    assert details["select_candidate"]["candidates"] == answer["candidates"]
    assert details["reflect"]["stopped_by"] == "accepted"


def test_where_an_earlier_draft_was_better_the_stream_ends_with_it(serve: Serve) -> None:
    better = replace(fakes.POOR, support=0.6)
    serving = serve(drafting([FIRST, SECOND, "Tall it is [1]."], [better, fakes.POOR, fakes.POOR]))
    events = serving.stream(ENGLISH, options={"max_critic": 2})

    assert shown(events) == events[-2].data["answer"] == FIRST
    assert [e.data["round"] for e in events if e.name == "retract"] == [0, 1, 2]
    assert events[-2].data["stopped_by"] == "max_critic"


def test_a_revision_that_breaks_off_leaves_the_draft(serve: Serve) -> None:
    chat = fakes.ScriptedChat(answers=[FIRST, SECOND], fails_on="Say how tall.")
    events = serve(drafting([], [fakes.POOR], chat=chat)).stream(ENGLISH)
    answer = events[-2].data

    assert shown(events) == answer["answer"] == FIRST
    assert [entry["component"] for entry in answer["degraded"]] == ["generator"]
    assert_cited(answer)


class StuckChat(fakes.ScriptedChat):
    """Never ends an answer to a prompt that holds `stuck_on`."""

    stuck_on: str = "Say how tall."

    async def _astream(
        self, messages: list[BaseMessage], *args: Any, **named: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        is_stuck = any(self.stuck_on in str(message.text) for message in messages)
        async for chunk in super()._astream(messages, *args, **named):
            yield chunk
            if is_stuck:
                await asyncio.sleep(60)


@pytest.mark.parametrize(("question", "why"), [(ENGLISH, "deadline"), (CHINESE, "cancelled")])
def test_a_run_stopped_at_its_revision_answers_with_its_draft(
    serve: Serve, question: str, why: str
) -> None:
    """And tells what failed before: its critic was at a loss for words."""
    chat = StuckChat(answers=[FIRST, SECOND], stuck_on="It is tall")
    critic = fakes.FakeCritic(script=[fakes.POOR], fails_to_criticise=True)
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER, TURM]), chat=chat, critic=critic))
    options = {"deadline_ms": 1500 if why == "deadline" else 60_000}
    with serving.following(question, options=options) as live:
        events = [next(live)]
        if why == "cancelled":
            wait_until(lambda: chat.given > 1, 20)
            serving.client.post(f"/runs/{events[0].data['run_id']}/cancel")
        events += live
    answer = events[-2].data

    assert (answer["answer"], answer["stopped_by"]) == (FIRST, why)
    assert shown(events) == FIRST
    assert [entry["round"] for entry in answer["critique"]] == [0]
    assert len(answer["candidates"]) == 1
    failed = {"component": "critic", "reason": "the critic is at a loss"}
    revising = "The deadline came while the answer was revised."
    awaited = {"component": "generator", "reason": revising}
    assert answer["degraded"] == ([failed, awaited] if why == "deadline" else [failed])
    if why == "deadline":
        assert answer["usage"]["llm_calls"] == 1
    assert_cited(answer)


def test_at_the_deadline_a_finished_draft_beside_a_stuck_one_is_the_answer(serve: Serve) -> None:
    other = fakes.passage("The red tower of Umbra is slow.", 2)
    chat = StuckChat(answers=[FIRST], stuck_on="is slow")
    parts = drafting([], [], chat=chat, retriever=fakes.FakeRetriever([TOWER, other]))
    events = serve(parts).stream(ENGLISH, workflow="self_rag", options={"deadline_ms": 1500})
    answer = events[-2].data

    assert (answer["answer"], answer["stopped_by"]) == (FIRST, "deadline")
    assert shown(events) == FIRST
    assert answer["models"]["generator"] == "fake-chat"
    assert answer["usage"]["llm_calls"] == 1, "what is finished is counted"
    assert_cited(answer)
