"""Runs and threads in PostgreSQL, shared by several services."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from sqlalchemy import text

from app.errors import StartFailed
from app.settings import Settings
from app.storage.database import open_engine
from app.storage.lifecycle import open_store
from app.storage.tables import RUNS
from tests import fakes
from tests.app.api.routes.test_idempotency import assert_requests_at_once_are_one_run
from tests.app.api.routes.test_threads import assert_thread_outlives_the_service
from tests.app.postgres import postgres
from tests.app.serving import Serve
from tests.app.storage.test_retention import assert_idle_conversations_go
from tests.app.test_durable_runs import assert_run_goes_on
from tests.app.test_elsewhere import assert_run_is_known_at_another_service
from tests.app.test_lasting import asked, assert_forgotten_process_comes_back, opened
from tests.umbra import CHINESE, ENGLISH, TOWER, TURM

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with postgres() as found:
        yield found


@pytest.fixture
async def settings(address: str) -> AsyncIterator[Settings]:
    """An empty database for each test."""
    chosen = Settings(_env_file=None, database_url=address)
    yield chosen
    async with open_engine(chosen) as engine, engine.begin() as connection:
        await connection.execute(text("DROP SCHEMA public CASCADE"))
        await connection.execute(text("CREATE SCHEMA public"))


async def test_services_that_start_at_once_make_the_tables_once(settings: Settings) -> None:
    async def opened() -> None:
        async with open_engine(settings) as engine, open_store(settings, engine) as store:
            assert await store.runs.page("", 10, 0) == ([], 0)

    await asyncio.gather(*(opened() for _ in range(4)))


@pytest.mark.parametrize(("ahead_s", "told"), [(-40, "-40 s"), (40, r"\+40 s")])
async def test_a_clock_that_differs_from_the_database_is_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, ahead_s: float, told: str
) -> None:
    with monkeypatch.context() as wrong:
        wrong.setattr("app.storage.database.now", lambda: time.time() + ahead_s)
        with pytest.raises(StartFailed, match=f"is {told} from that of the database"):
            async with open_engine(settings):
                pass


async def test_services_that_start_at_once_end_lost_runs_once(
    settings: Settings, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        address = settings.database_url.get_secret_value()
        stores = [
            await stack.enter_async_context(opened(tmp_path, database_url=address))
            for _ in range(4)
        ]
        store, engine = stores[0]
        ids = await asked(store, 12)
        async with engine.begin() as connection:
            await connection.execute(RUNS.update().values(status="running", process="gone"))
        lost = await asyncio.gather(*(each.runs.lose(["gone"]) for each, _ in stores))

        assert sorted(run_id for found in lost for run_id in found) == sorted(ids)
        for run_id in ids:
            assert (await store.runs.get(run_id, ""))["status"] == "lost"
            names = [event.name for event in await store.runs.events(run_id)]
            assert names[-2:] == ["error", "done"]
            assert names.count("error") == 1


def test_a_thread_outlives_the_service(serve: Serve, settings: Settings) -> None:
    assert_thread_outlives_the_service(serve, settings)


def test_a_run_just_begun_is_known_at_another_service(serve: Serve, settings: Settings) -> None:
    assert_run_is_known_at_another_service(serve, settings)


def test_a_trace_is_kept_as_it_was_sent(serve: Serve, settings: Settings) -> None:
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER, TURM])), settings)
    for question in (ENGLISH, CHINESE):
        body = {"question": question, "stream": True}
        sent = serving.client.post("/ask", json=body)
        run_id = sent.text.split('"run_id":"')[1][:32]
        assert serving.client.get(f"/runs/{run_id}/events").content == sent.content
        judged = {"score": -1, "comment": "错了。"}
        assert serving.client.post(f"/runs/{run_id}/feedback", json=judged).status_code == 201
        assert serving.client.get(f"/runs/{run_id}").json()["feedback"][0]["comment"] == "错了。"


async def test_a_forgotten_process_comes_back_and_its_run_ends(
    settings: Settings, tmp_path: Path
) -> None:
    address = settings.database_url.get_secret_value()
    await assert_forgotten_process_comes_back(CHINESE, tmp_path, address)


async def test_a_run_goes_on_where_its_process_was_killed(
    settings: Settings, tmp_path: Path
) -> None:
    await assert_run_goes_on(ENGLISH, tmp_path, settings.database_url.get_secret_value())


def test_requests_at_once_are_one_run(serve: Serve, settings: Settings) -> None:
    roomy = settings.model_copy(update={"max_runs": 16})
    assert_requests_at_once_are_one_run(serve, roomy)


async def test_idle_conversations_go(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.storage.threads.FORGOTTEN_AT_ONCE", 1)
    await assert_idle_conversations_go(tmp_path, settings.database_url.get_secret_value())
