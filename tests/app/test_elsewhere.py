"""Several services at one database: what one of them begins or keeps, the others know."""

import asyncio
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from app.errors import NotFound
from app.runs.manager import Runs
from app.runs.run import Run
from app.settings import Settings
from app.storage.lifecycle import Store
from tests import fakes
from tests.app.crag_runs import begun, runs_of
from tests.app.serving import Serve
from tests.app.slow import SlowChat, SlowEvaluator, Waiting
from tests.app.test_lasting import opened
from tests.umbra import CHINESE, ENGLISH, TOWER, TURM

NOBODYS = "0" * 32


def assert_run_is_known_at_another_service(serve: Serve, settings: Settings) -> None:
    """With its thread, from its first event on; the chat endpoint never ends its answer."""
    chat = SlowChat(chunks=["Tall ", "[1]."], waiting=Waiting())
    parts = fakes.services(fakes.FakeRetriever([TOWER, TURM]), chat=chat)
    first, second = serve(parts, settings), serve(parts, settings)
    with first.following(CHINESE, workflow="crag") as live:
        events = f"/runs/{next(live).data['run_id']}/events"
        with second.client.stream("GET", events) as there:
            assert there.status_code == 200
    with first.following(CHINESE, workflow="crag") as live:
        begun = next(live).data
        body = {"question": CHINESE, "thread_id": begun["thread_id"]}
        for refused in (
            second.client.post("/ask", json=body),
            second.client.delete(f"/threads/{begun['thread_id']}"),
        ):
            assert refused.status_code == 409, "the thread is busy"
        assert second.client.post(f"/runs/{begun['run_id']}/cancel").status_code == 202
        assert list(live)[-2].data["stopped_by"] == "cancelled"
    events = f"/runs/{begun['run_id']}/events"
    assert second.client.get(events).text == first.client.get(events).text


def test_a_run_just_begun_is_known_at_another_service(serve: Serve, tmp_path: Path) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path)
    assert_run_is_known_at_another_service(serve, settings)


async def taken_for_gone(store: Store, other: Store, runs: Runs, engine: AsyncEngine) -> Run:
    """A run of ann's on the thread `t` that has ended after another process gave it up."""
    run = await begun(runs, ENGLISH, "t", "ann")
    await asyncio.sleep(0.1)
    await store.writer.flush()
    lost = await other.runs.lose([store.process])
    assert lost == [run.id], "it was still under way"
    await other.threads.free(lost)
    assert [event.name async for _, event in run.follow()][-1] == "done"
    await store.writer.flush()
    return run


async def test_a_conversation_given_up_wrongly_stays_its_owners(tmp_path: Path) -> None:
    """Also where its next question is left without an answer."""
    services = fakes.services(
        fakes.FakeRetriever([TOWER, TURM]), evaluator=SlowEvaluator(waiting=Waiting(0.5))
    )
    async with opened(tmp_path) as (other, engine), opened(tmp_path) as (store, _):
        runs = runs_of(services, store, 2)
        run = await taken_for_gone(store, other, runs, engine)
        later = await begun(runs, ENGLISH, "t", "ann")
        await runs.cancel(later)
        await runs.aclose()
        await store.writer.flush()

        _, turns = await other.threads.get("t", "ann")
        assert [turn["run_id"] for turn in turns] == [run.id]
        with pytest.raises(NotFound):
            await other.threads.take("t", "bob", NOBODYS)
