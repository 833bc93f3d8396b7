"""Several workers behind one client: real worker apps, each behind a wire that can be cut."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from signal import SIGKILL

import httpx
import pytest

from evaluator.client import worker_pool as pool
from evaluator.client.client import (
    EvaluatorClient,
    WorkerFailed,
    WorkerOverloaded,
    WorkerRefused,
    WorkersDisagree,
    WorkerUnreachable,
)
from evaluator.inference.scorer import Row, RowScore
from evaluator.schema import Task
from evaluator.serving.app import create_app
from evaluator.settings import EvaluatorSettings
from tests.app.processes import BIN, Process, environment
from tests.evaluator.load import answered_throughout
from tests.evaluator.tiny import tiny_folder
from tests.loopback.server import free_port

PAIR = ("How long?", "As long as it is.")


class Lengths:
    """A scorer whose score is the length of the second text."""

    digest = ""
    tasks: tuple[Task, ...] = ("relevance",)

    def __init__(self, name: str = "same") -> None:
        self.name = name

    def encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        return [Row((1,) * len(passage)) for _, passage in pairs]

    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        return [RowScore(float(len(row.ids)), "[Relevant]", {}) for row in rows]


class Wire(httpx.AsyncBaseTransport):
    """To a real worker, until `says` holds what happens to requests instead."""

    def __init__(self, name: str, scorer: Lengths) -> None:
        self.says: httpx.Response | httpx.RequestError | None = None
        self.open = asyncio.Event()
        self.open.set()
        self.asked: list[str] = []
        self.swap(scorer)
        self.http = httpx.AsyncClient(transport=self, base_url=f"http://{name}")

    def swap(self, scorer: Lengths) -> None:
        self.app = create_app(EvaluatorSettings(_env_file=None), scorer)  # type: ignore[call-arg]
        self._inner = httpx.ASGITransport(self.app)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        await self.open.wait()
        if isinstance(self.says, httpx.RequestError):
            raise self.says
        return self.says or await self._inner.handle_async_request(request)

    @property
    def scored(self) -> int:
        return self.asked.count("/score")


@asynccontextmanager
async def workers(*names: str) -> AsyncIterator[list[Wire]]:
    """A worker at http://a, http://b … of each of these weights."""
    async with AsyncExitStack() as stack:
        wires = [Wire(host, Lengths(name)) for host, name in zip("abc", names, strict=False)]
        for wire in wires:
            await stack.enter_async_context(wire.app.router.lifespan_context(wire.app))
            await stack.enter_async_context(wire.http)
        yield wires


def client_of(wires: Sequence[Wire]) -> EvaluatorClient:
    return EvaluatorClient(*(wire.http for wire in wires))


def busy(retry_after_s: int) -> httpx.Response:
    return httpx.Response(429, headers={"retry-after": str(retry_after_s)}, json={"detail": "busy"})


FAILURES = [
    httpx.ConnectError("refused"),
    httpx.ReadError("cut"),
    httpx.ReadTimeout("slow"),
    httpx.DecodingError("no gzip"),
    httpx.Response(500),
    httpx.Response(503),
    httpx.Response(200, text="no json"),
    busy(9),
]


@pytest.mark.parametrize("failure", FAILURES)
async def test_what_one_fails_to_score_another_scores(
    failure: httpx.Response | httpx.RequestError,
) -> None:
    async with workers("same", "same") as (first, second):
        client = client_of([first, second])
        await client.connect()
        first.says = failure
        for _ in range(8):
            assert (await client.score("relevance", [PAIR])).scores == [len(PAIR[1])]
        assert first.scored <= 1, "it rests after its failure"
        assert second.scored == 8


async def test_a_failed_worker_comes_back_by_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "FIRST_REST_S", 0.01)
    async with workers("same", "same") as (first, second):
        client = client_of([first, second])
        await client.connect()
        first.says = second.says = httpx.ReadError("cut")
        with pytest.raises(WorkerUnreachable):
            await client.score("relevance", [PAIR])
        first.says = second.says = None
        first.asked.clear()
        second.asked.clear()
        await asyncio.sleep(0.05)
        await client.score("relevance", [PAIR])
        assert first.asked[0] == second.asked[0] == "/health/ready"
        assert first.scored + second.scored == 1


async def test_rests_grow_while_a_worker_stays_away() -> None:
    worker = pool.Worker(httpx.AsyncClient(base_url="http://a"))
    rests = []
    for _ in range(9):
        worker.rest(WorkerFailed("broken"))
        rests.append(worker.rests_until - time.monotonic())
    assert rests[:3] == pytest.approx([0.5, 1, 2], abs=0.1)
    assert rests[-1] == pytest.approx(pool.LONGEST_REST_S, abs=0.1)
    worker.recover()
    worker.rest(WorkerFailed("broken"))
    assert worker.rests_until - time.monotonic() == pytest.approx(0.5, abs=0.1)


async def test_where_none_is_left_the_most_telling_error_comes() -> None:
    async with workers("same", "same") as (first, second):
        client = client_of([first, second])
        first.says, second.says = httpx.ReadTimeout("slow"), busy(9)
        with pytest.raises(WorkerOverloaded) as raised:
            await client.score("relevance", [PAIR])
        assert raised.value.retry_after_s == 9
        second.says = httpx.ReadTimeout("slow")
        with pytest.raises(WorkerUnreachable, match=r"http://[ab]/score"):
            await client.score("relevance", [PAIR])
        assert not await client.ready()


async def test_all_away_and_back_within_one_request() -> None:
    async with workers("same", "same") as (first, second):
        client = client_of([first, second])
        first.says = second.says = httpx.ConnectError("refused")
        asking = asyncio.create_task(client.score("relevance", [PAIR]))
        while first.scored + second.scored < 2:  # noqa: ASYNC110 - the wires count, nothing more
            await asyncio.sleep(0.001)
        first.says = second.says = None
        assert (await asking).scores == [len(PAIR[1])]


async def test_a_refusal_is_asked_of_nobody_else() -> None:
    async with workers("same", "same") as wires:
        client = client_of(wires)
        with pytest.raises(WorkerRefused, match="not trained"):
            await client.score("support", [PAIR])
        assert sum(wire.scored for wire in wires) == 1


async def test_the_least_busy_worker_is_asked() -> None:
    async with workers("same", "same") as wires:
        client = client_of(wires)
        await client.connect()
        for wire in wires:
            wire.open.clear()
        asking = []
        for pairs in (3, 1, 1, 1):  # the second and both after it go where the first is not
            asking.append(asyncio.create_task(client.score("relevance", [PAIR] * pairs)))
            await asyncio.sleep(0.01)
        assert sorted(wire.scored for wire in wires) == [1, 3]
        for wire in wires:
            wire.open.set()
        assert [len(part.scores) for part in await asyncio.gather(*asking)] == [3, 1, 1, 1]


async def test_many_pairs_are_spread_side_by_side_and_keep_their_order() -> None:
    async with workers("same", "same") as wires:
        client = client_of(wires)
        await client.connect()
        for wire in wires:
            wire.open.clear()
        pairs = [("q", "x" * (1 + number % 50)) for number in range(600)]
        asking = asyncio.create_task(client.score("relevance", pairs))
        await asyncio.sleep(0.02)
        assert [wire.scored for wire in wires] == [1, 1], "one request of it at each"
        for wire in wires:
            wire.open.set()
        whole = await asking
        assert whole.scores == [len(passage) for _, passage in pairs]
        assert sum(wire.scored for wire in wires) == 3, "at most 256 pairs a request"


async def test_few_pairs_stay_together() -> None:
    async with workers("same", "same") as wires:
        await client_of(wires).score("relevance", [PAIR] * 40)
        assert sum(wire.scored for wire in wires) == 1


async def test_a_chunk_that_no_worker_scores_fails_the_whole() -> None:
    async with workers("same", "same") as (first, second):
        client = client_of([first, second])
        await client.connect()
        first.says = second.says = busy(9)
        before = asyncio.all_tasks()
        with pytest.raises(WorkerOverloaded):
            await client.score("relevance", [PAIR] * 600)
        assert asyncio.all_tasks() == before


async def test_who_leaves_takes_all_requests_along() -> None:
    async with workers("same", "same") as wires:
        client = client_of(wires)
        await client.connect()
        for wire in wires:
            wire.open.clear()
        before = asyncio.all_tasks()
        asking = asyncio.create_task(client.score("relevance", [PAIR] * 600))
        await asyncio.sleep(0.02)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert asyncio.all_tasks() == before
        for wire in wires:
            wire.open.set()
        assert (await client.score("relevance", [PAIR])).scores == [len(PAIR[1])]


async def test_different_weights_are_told_at_the_start() -> None:
    async with workers("old", "new") as wires:
        with pytest.raises(WorkersDisagree, match=r"http://[ab] has the weights (old|new), not"):
            await client_of(wires).connect()


async def test_an_absent_worker_does_not_hinder_the_start() -> None:
    async with workers("same", "same") as (first, second):
        first.says = httpx.ConnectError("refused")
        client = client_of([first, second])
        await client.connect()
        assert await client.ready()


async def test_scores_of_different_weights_are_never_mixed() -> None:
    async with workers("old", "new") as wires:
        client = client_of(wires)  # nobody compared them at the start
        whole = await client.score("relevance", [PAIR] * 600)
        assert len(whole.scores) == 600
        again = [(await client.score("relevance", [PAIR])).model for _ in range(4)]
        assert set(again) == {whole.model}


async def test_a_worker_that_returns_with_other_weights_is_left_out() -> None:
    async with workers("old", "old") as (first, second), AsyncExitStack() as stack:
        client = client_of([first, second])
        await client.connect()
        first.swap(Lengths("new"))
        await stack.enter_async_context(first.app.router.lifespan_context(first.app))
        models = {(await client.score("relevance", [PAIR])).model for _ in range(6)}
        assert models == {"old"}
        second.swap(Lengths("new"))
        await stack.enter_async_context(second.app.router.lifespan_context(second.app))
        with pytest.raises(WorkersDisagree, match="restart the service"):
            await client.score("relevance", [PAIR])
        with pytest.raises(WorkersDisagree):
            await client.thresholds()


async def test_a_silent_worker_does_not_hold_up_readiness() -> None:
    async with workers("same", "same") as (good, silent):
        silent.open.clear()
        async with asyncio.timeout(pool.PROBE_S / 2):
            assert await client_of([silent, good]).ready()
        good.says = httpx.ConnectError("refused")
        silent.says = httpx.ConnectError("refused")
        silent.open.set()
        assert not await client_of([silent, good]).ready()


async def test_a_worker_silent_to_readiness_is_asked_nothing() -> None:
    async with workers("same", "same") as (good, silent):
        client = client_of([silent, good])
        await client.connect()
        silent.open.clear()
        assert await client.ready()
        silent.says = httpx.ReadTimeout("slow")
        silent.open.set()
        await asyncio.sleep(0.02)
        for _ in range(20):
            await client.score("relevance", [PAIR])
        assert (silent.scored, good.scored) == (0, 20)


async def test_readiness_leaves_one_probe_a_worker_and_closing_ends_it() -> None:
    async with workers("same", "same") as (good, silent):
        client = client_of([silent, good])
        before = asyncio.all_tasks()
        silent.open.clear()
        for _ in range(3):
            assert await client.ready()
        assert silent.asked == ["/health/ready"]
        await client.close()
        assert asyncio.all_tasks() == before


async def test_what_is_no_evaluator_is_not_ready() -> None:
    async with workers("same") as (only,):
        only.says = httpx.Response(200, text="<html>")
        assert not await client_of([only]).ready()


@pytest.mark.slow
async def test_a_killed_process_loses_no_request(tmp_path: Path) -> None:
    """Two workers as processes, on a real checkpoint; one is killed while it scores."""
    folder = tiny_folder(tmp_path / "tiny")
    with ExitStack() as stack:
        processes, urls = [], []
        for number in range(2):
            port = free_port()
            process = Process(
                [str(BIN / "selfcrag-evaluator"), "serve"],
                tmp_path / f"{number}.log",
                tmp_path,
                environment(
                    evaluator_weights=folder, evaluator_backend="torch", evaluator_port=port
                ),
            )
            stack.callback(process.end)
            processes.append(process)
            urls.append(f"http://127.0.0.1:{port}")
        for process, url in zip(processes, urls, strict=True):
            process.wait_for(f"{url}/health/ready")
        async with AsyncExitStack() as opened:
            https = [
                await opened.enter_async_context(
                    httpx.AsyncClient(base_url=url, timeout=30, trust_env=False)
                )
                for url in urls
            ]
            client = EvaluatorClient(*https)
            await client.connect()
            await answered_throughout(client, lambda: os.kill(processes[0].popen.pid, SIGKILL))
        assert processes[0].wait() == -SIGKILL
