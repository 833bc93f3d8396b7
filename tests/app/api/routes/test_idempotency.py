"""`Idempotency-Key`: a request that comes again is told the run that it began."""

import asyncio
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import update

from app.settings import Settings
from app.storage.database import now
from app.storage.runs import KEY_KEPT_S
from app.storage.tables import IDEMPOTENCY_KEYS
from graphs.ports import Services
from tests import fakes
from tests.app.keys import key_of
from tests.app.serving import Serve, Serving, app_of, events_of, wait_until
from tests.app.slow import SlowEvaluator, Waiting
from tests.app.test_lasting import opened
from tests.umbra import CHINESE, ENGLISH, TOWER, TURM

AT_ONCE = 8


def parts(seconds: float = 0.0) -> Services:
    evaluator = SlowEvaluator(waiting=Waiting(seconds))
    return fakes.services(fakes.FakeRetriever([TOWER, TURM]), evaluator=evaluator)


def ask(client: httpx.Client, key: str, question: str = ENGLISH, **fields: Any) -> httpx.Response:
    body = {"question": question, "workflow": "crag", **fields}
    return client.post("/ask", json=body, headers={"Idempotency-Key": key})


def runs_of(client: httpx.Client) -> list[str]:
    return [run["run_id"] for run in client.get("/runs").json()["runs"]]


@pytest.fixture
def kept(tmp_path: Path) -> Settings:
    return Settings(_env_file=None, data_dir=tmp_path, max_runs=2 * AT_ONCE)


def test_the_same_request_is_told_the_same_run(serve: Serve) -> None:
    client = serve(parts()).client
    first = ask(client, "k")
    again = ask(client, "k")
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json() == first.json()
    assert first.headers["X-Run-Id"] == again.headers["X-Run-Id"] == first.json()["run_id"]

    streamed = ask(client, "k", stream=True)
    assert streamed.headers["X-Run-Id"] == first.headers["X-Run-Id"]
    events = list(events_of(streamed))
    assert (events[0].name, events[-2].data, events[-1].name) == ("run", first.json(), "done")

    assert ask(client, "other").json()["run_id"] != first.json()["run_id"]
    assert len(runs_of(client)) == 2


def test_a_stream_names_its_run_before_its_first_event(serve: Serve) -> None:
    body = {"question": ENGLISH, "stream": True}
    with serve(parts(30)).client.stream("POST", "/ask", json=body) as response:
        assert next(events_of(response)).data["run_id"] == response.headers["X-Run-Id"]


def test_a_key_is_short_and_goes_with_one_body(serve: Serve) -> None:
    client, longest = serve(parts()).client, "x" * 200
    assert ask(client, longest).status_code == 200
    other: list[dict[str, Any]] = [{"question": CHINESE}, {"options": {"retrieve_k": 3}}]
    for refused in (
        *(ask(client, longest, **fields) for fields in other),
        *(ask(client, key) for key in ("x" * 201, "")),
    ):
        assert refused.status_code == 422
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["errors"][0]["pointer"] == "#/idempotency-key"
    assert len(runs_of(client)) == 1


def assert_requests_at_once_are_one_run(serve: Serve, settings: Settings) -> None:
    services = [serve(parts(0.5), settings), serve(parts(0.5), settings)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = pool.map(lambda n: ask(services[n % 2].client, "k"), range(AT_ONCE))
        answers = [response.json() for response in asked]
    assert {answer["run_id"] for answer in answers} == set(runs_of(services[0].client))
    assert len({answer["run_id"] for answer in answers}) == 1


def test_requests_at_once_are_one_run(serve: Serve, kept: Settings) -> None:
    assert_requests_at_once_are_one_run(serve, kept)


def test_a_run_goes_on_for_whoever_asked_again(serve: Serve) -> None:
    """Though the client that began it leaves."""
    serving = serve(parts(2.0))
    impatient = httpx.Client(base_url=serving.url, timeout=1.5, trust_env=False)
    with ThreadPoolExecutor(1) as pool, impatient:
        first = pool.submit(ask, impatient, "k")
        wait_until(lambda: len(runs_of(serving.client)) == 1, 5)
        again = ask(serving.client, "k")
        assert isinstance(first.exception(), httpx.ReadTimeout)
    assert again.json()["stopped_by"] == "answered"
    assert len(runs_of(serving.client)) == 1


def test_a_run_without_an_answer_frees_its_key(serve: Serve) -> None:
    """A client that left is the usual one: it asks again for what it did not get."""
    waiting = Waiting(30)
    evaluator = SlowEvaluator(waiting=waiting)
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER, TURM]), evaluator=evaluator))
    with pytest.raises(httpx.ReadTimeout), httpx.Client(base_url=serving.url, timeout=0.5) as left:
        ask(left, "k")
    (run_id,) = runs_of(serving.client)
    wait_until(lambda: serving.runs_under_way() == 0, 5)
    assert serving.client.get(f"/runs/{run_id}").json()["status"] == "cancelled"
    waiting.seconds = 0
    assert ask(serving.client, "k").json()["stopped_by"] == "answered"


def test_keys_are_their_owners(serve: Serve, kept: Settings) -> None:
    client = serve(parts(), kept).client
    secrets = [key_of(kept.data_dir, owner) for owner in ("ann", "bob")]
    answers = []
    for secret, question in zip(secrets, (ENGLISH, CHINESE), strict=True):
        client.headers["x-api-key"] = secret
        answers.append(ask(client, "k", question).json())
    assert answers[0]["run_id"] != answers[1]["run_id"]


async def test_a_key_is_kept_for_a_day(serve: Serve, kept: Settings) -> None:
    client = serve(parts(), kept).client
    first = await asyncio.to_thread(ask, client, "k")
    async with opened(kept.data_dir) as (store, engine):
        async with engine.begin() as connection:
            old = now() - KEY_KEPT_S - 1
            await connection.execute(update(IDEMPOTENCY_KEYS).values(created_at=old))
        other = await asyncio.to_thread(ask, client, "k", CHINESE)
        assert other.json()["run_id"] != first.json()["run_id"]
        await store.tidy()
        assert await store.runs.begun_with("", "k") is not None


def serve_slowly(folder: Path, telling: Connection) -> None:
    settings = Settings(_env_file=None, data_dir=folder, max_runs=2 * AT_ONCE)
    with Serving(app_of(parts(600), settings)) as serving:
        telling.send(serving.url)
        telling.recv()


@pytest.fixture
def killed_midway(tmp_path: Path) -> Iterator[Callable[[int], int]]:
    """Asks a service of its own process by so many keys, kills it; how many were answered."""
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    process = spawning.Process(target=serve_slowly, args=(tmp_path, there))
    process.start()
    assert here.poll(60), "the service did not start"
    with httpx.Client(base_url=here.recv(), timeout=30, trust_env=False) as client:

        def answered(times: int) -> int:
            with ThreadPoolExecutor(times) as pool:
                asked = [pool.submit(ask, client, f"k{n}") for n in range(times)]
                wait_until(lambda: len(runs_of(client)) == times, 10)
                process.kill()
                process.join()
                return sum(each.exception() is None for each in asked)

        yield answered
    process.kill()
    process.join()


@pytest.mark.slow
def test_clients_of_a_killed_process_get_the_runs_they_began(
    killed_midway: Callable[[int], int], serve: Serve, kept: Settings
) -> None:
    """kill -9 in the middle of their runs, then a service on the same state."""
    assert killed_midway(AT_ONCE) == 0
    client = serve(parts(), kept).client
    begun = set(runs_of(client))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = pool.map(lambda n: ask(client, f"k{n}"), range(AT_ONCE))
        answers = [response.json() for response in asked]
    assert {answer["run_id"] for answer in answers} == begun
    assert ["87" in answer["answer"] for answer in answers] == [True] * AT_ONCE
    assert len(runs_of(client)) == AT_ONCE
