"""What failed before a run was stopped is told with its answer."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatGenerationChunk

from tests import fakes
from tests.app.serving import Serve, events_of, wait_until
from tests.umbra import CHINESE, ENGLISH, TOWER, TURM


class HangsAtRevision(fakes.ScriptedChat):
    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        if self.given:
            self.given += 1
            await asyncio.sleep(60)
        async for chunk in super()._astream(messages):
            yield chunk


def parts() -> tuple[HangsAtRevision, fakes.Services]:
    """A critic that rejects the draft and is at a loss for words; its revision never comes."""
    chat = HangsAtRevision(answers=["Tall [1]."])
    critic = fakes.FakeCritic(script=[fakes.POOR], fails_to_criticise=True)
    return chat, fakes.services(fakes.FakeRetriever([TOWER, TURM]), chat=chat, critic=critic)


@pytest.mark.parametrize(("question", "why"), [(ENGLISH, "deadline"), (CHINESE, "cancelled")])
def test_what_failed_is_told_where_the_run_is_stopped(
    serve: Serve, question: str, why: str
) -> None:
    chat, services = parts()
    serving = serve(services)
    options = {"deadline_ms": 1500 if why == "deadline" else 60_000}
    body = {"question": question, "stream": True, "workflow": "self_crag", "options": options}
    with serving.client.stream("POST", "/ask", json=body) as response:
        live = events_of(response)
        run_id = next(live).data["run_id"]
        if why == "cancelled":
            wait_until(lambda: chat.given > 1, 20)
            serving.client.post(f"/runs/{run_id}/cancel")
        answer = list(live)[-2].data

    assert (answer["answer"], answer["stopped_by"]) == ("Tall [1].", why)
    failed = {"component": "critic", "reason": "the critic is at a loss"}
    awaited = {
        "component": "generator",
        "reason": "The deadline came while the answer was revised.",
    }
    assert answer["degraded"] == ([failed, awaited] if why == "deadline" else [failed])
