"""The client against real worker apps, each behind a wire that can be cut, and against answers
that no worker gives.
"""

import asyncio
import json
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from signal import SIGKILL

import httpx
import pytest

from evaluator import client as module
from evaluator.calibration.thresholds import store
from evaluator.client import EvaluatorClient
from evaluator.errors import (
    WorkerFailed,
    WorkerOverloaded,
    WorkerRefused,
    WorkersDisagree,
    WorkerUnreachable,
)
from evaluator.schema import CalibratedThresholds, Row, RowScore, Task
from evaluator.serving.app import create_app
from evaluator.settings import EvaluatorSettings
from evaluator.training.onnx_export import export
from tests.app.processes import BIN, Process, environment
from tests.evaluator.in_process import asking
from tests.evaluator.load import answered_throughout
from tests.loopback.server import free_port

PAIR = ("How long?", "As long as it is.")
SCORED = {"scores": [0.5], "labels": ["[Relevant]"], "probabilities": [{}], "model": "m",
          "tokens": 1, "queue_ms": 0, "inference_ms": 0}  # fmt: skip


class Lengths:
    """A scorer whose score is the length of the second text."""

    digest = ""
    tasks: tuple[Task, ...] = ("relevance",)

    def __init__(self, name: str = "same") -> None:
        self.name = name

    def encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        return [Row((1,) * len(text)) if query and text else "empty" for query, text in pairs]

    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        return [RowScore(float(len(row.ids)), "[Relevant]", {}) for row in rows]


class Wire(httpx.AsyncBaseTransport):
    """To a real worker, until `failure` holds what happens to requests instead."""

    def __init__(self, name: str, scorer: Lengths) -> None:
        self.failure: httpx.Response | httpx.RequestError | None = None
        self.open = asyncio.Event()
        self.open.set()
        self.paths: list[str] = []
        self.swap(scorer)
        self.http = httpx.AsyncClient(transport=self, base_url=f"http://{name}")

    def swap(self, scorer: Lengths) -> None:
        self.app = create_app(EvaluatorSettings(_env_file=None), scorer)  # type: ignore[call-arg]
        self._inner = httpx.ASGITransport(self.app)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.paths.append(request.url.path)
        await self.open.wait()
        if isinstance(self.failure, httpx.RequestError):
            raise self.failure
        return self.failure or await self._inner.handle_async_request(request)

    @property
    def scored(self) -> int:
        return self.paths.count("/score")


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


def answering(*answers: httpx.Response | httpx.TransportError) -> tuple[EvaluatorClient, list[str]]:
    """A client whose worker gives these answers, the last one for good; the paths asked."""
    paths: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        given = answers[min(len(paths), len(answers)) - 1]
        if isinstance(given, httpx.TransportError):
            raise given
        return given

    http = httpx.AsyncClient(transport=httpx.MockTransport(answer), base_url="http://evaluator")
    return EvaluatorClient(http), paths


def busy(retry_after_s: int) -> httpx.Response:
    return httpx.Response(429, headers={"retry-after": str(retry_after_s)}, json={"detail": "busy"})


async def test_many_pairs_go_in_several_requests_and_keep_their_order() -> None:
    async with workers("same", "same") as wires:
        pairs = [("q", "x" * (1 + number % 50)) for number in range(600)]
        whole = await client_of(wires).score("relevance", pairs)
        assert whole.scores == [len(passage) for _, passage in pairs]
        assert sorted(wire.scored for wire in wires) == [1, 2], "at most 256 pairs a request"


async def test_errors_keep_their_places() -> None:
    async with workers("same") as (only,):
        client = EvaluatorClient(only.http, pairs_per_request=3)
        whole = await client.score("relevance", [PAIR, ("q", ""), *[PAIR] * 5, ("", "p")])
    score = len(PAIR[1])
    assert whole.scores == [score, None, *[score] * 5, None]
    assert [error.index for error in whole.errors] == [1, 7]


async def test_no_pairs_ask_nothing() -> None:
    client, paths = answering(httpx.Response(500))
    assert (await client.score("relevance", [])).scores == []
    assert paths == []


async def test_thresholds_abilities_and_readiness(folder: Path) -> None:
    stored = CalibratedThresholds(upper=0.5, lower=-0.5, strip_floor=-0.8, evaluator="")
    store(stored, folder)
    async with asking(create_app(EvaluatorSettings(weights=folder, backend="torch"))) as http:
        client = EvaluatorClient(http)
        assert (await client.thresholds()).thresholds.upper == 0.5
        assert (await client.abilities()).tasks[0] == "relevance"
        assert await client.ready()


async def test_nobody_listening_is_unreachable_at_the_address_as_it_is() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}/", trust_env=False) as http:
        with pytest.raises(WorkerUnreachable, match=rf"http://127\.0\.0\.1:{port}/score \(Conn"):
            await EvaluatorClient(http).score("relevance", [PAIR])
        assert not await EvaluatorClient(http).ready()


@pytest.mark.parametrize(
    "first",
    [busy(0), httpx.ConnectError("refused"), httpx.ReadError("lost"), httpx.Response(500)],
)
async def test_what_was_not_scored_is_asked_once_more(
    first: httpx.Response | httpx.TransportError,
) -> None:
    client, paths = answering(first, httpx.Response(200, json=SCORED))
    assert (await client.score("relevance", [PAIR])).scores == [0.5]
    assert len(paths) == 2


@pytest.mark.parametrize(
    ("answer", "error", "times"),
    [
        (busy(0), WorkerOverloaded, 2),
        (busy(3), WorkerOverloaded, 1),
        (httpx.ConnectError("refused"), WorkerUnreachable, 2),
        (httpx.ReadTimeout("slow"), WorkerUnreachable, 1),
        (httpx.Response(500, text="<html>"), WorkerFailed, 2),
        (httpx.Response(422), WorkerRefused, 1),
        (httpx.Response(200, text="no json"), WorkerFailed, 2),
        (httpx.Response(200, json={**SCORED, "scores": []}), WorkerFailed, 2),
        (httpx.Response(200, text=json.dumps({**SCORED, "scores": [float("nan")]})), WorkerFailed,
         2),
        (httpx.Response(200, text=json.dumps({**SCORED, "probabilities": [{"a": float("inf")}]})),
         WorkerFailed, 2),
    ],
)  # fmt: skip
async def test_a_failure_is_typed_and_asked_no_more_than_once_again(
    answer: httpx.Response | httpx.TransportError, error: type[Exception], times: int
) -> None:
    client, paths = answering(answer)
    with pytest.raises(error):
        await client.score("relevance", [PAIR])
    assert len(paths) == times


async def test_what_a_worker_sent_is_not_repeated_where_it_cannot_be_read() -> None:
    reply = {**SCORED, "scores": ["a secret"]}
    client, _ = answering(httpx.Response(200, json=reply))
    with pytest.raises(WorkerFailed, match=r"cannot be read: scores\.0: .+ number") as failed:
        await client.score("relevance", [PAIR])
    assert "secret" not in str(failed.value)


async def test_overload_says_when_to_return() -> None:
    client, _ = answering(busy(3))
    with pytest.raises(WorkerOverloaded, match="busy") as raised:
        await client.score("relevance", [PAIR])
    assert raised.value.retry_after_s == 3


async def test_a_refusal_keeps_the_workers_words_and_is_asked_of_nobody_else() -> None:
    async with workers("same", "same") as wires:
        with pytest.raises(WorkerRefused, match="not trained") as raised:
            await client_of(wires).score("support", [PAIR])
        assert raised.value.status == 422
        assert sum(wire.scored for wire in wires) == 1


FAILURES = [
    httpx.ConnectError("refused"),
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
        first.failure = failure
        for _ in range(8):
            assert (await client.score("relevance", [PAIR])).scores == [len(PAIR[1])]
        assert first.scored <= 1, "it rests after its failure"
        assert second.scored == 8


async def test_a_failed_worker_is_probed_before_it_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REST_S", 0.01)
    async with workers("same", "same") as (first, second):
        client = client_of([first, second])
        await client.connect()
        first.failure = second.failure = httpx.ReadError("cut")
        with pytest.raises(WorkerUnreachable):
            await client.score("relevance", [PAIR])
        first.failure = second.failure = None
        first.paths.clear()
        second.paths.clear()
        await asyncio.sleep(0.05)
        for _ in range(2):
            await client.score("relevance", [PAIR])
        assert first.paths == second.paths == ["/health/ready", "/score"]


async def test_where_none_is_left_the_error_that_says_most_comes() -> None:
    async with workers("same", "same") as (first, second):
        client = client_of([first, second])
        first.failure, second.failure = httpx.ReadTimeout("slow"), busy(9)
        with pytest.raises(WorkerOverloaded) as raised:
            await client.score("relevance", [PAIR])
        assert raised.value.retry_after_s == 9
        second.failure = httpx.ReadTimeout("slow")
        with pytest.raises(WorkerUnreachable, match=r"http://[ab]/"):
            await client.score("relevance", [PAIR])
        assert not await client.ready()


async def test_who_leaves_takes_all_requests_along() -> None:
    async with workers("same", "same") as wires:
        client = client_of(wires)
        await client.connect()
        for wire in wires:
            wire.open.clear()
        before = asyncio.all_tasks()
        asking = asyncio.create_task(client.score("relevance", [PAIR] * 600))
        await asyncio.sleep(0.02)
        assert [wire.scored for wire in wires] == [1, 1], "one request of it at each"
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert asyncio.all_tasks() == before
        for wire in wires:
            wire.open.set()
        assert (await client.score("relevance", [PAIR])).scores == [len(PAIR[1])]


async def test_a_chunk_that_no_worker_scores_fails_the_whole() -> None:
    async with workers("same", "same") as (first, second):
        client = client_of([first, second])
        first.failure = second.failure = busy(9)
        before = asyncio.all_tasks()
        with pytest.raises(WorkerOverloaded):
            await client.score("relevance", [PAIR] * 600)
        assert asyncio.all_tasks() == before


async def test_different_weights_are_told_at_the_start() -> None:
    async with workers("old", "new") as wires:
        with pytest.raises(WorkersDisagree, match=r"http://[ab] has the weights (old|new), not"):
            await client_of(wires).connect()


async def test_an_absent_worker_does_not_hinder_the_start() -> None:
    async with workers("same", "same") as (first, second):
        first.failure = httpx.ConnectError("refused")
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
        before = asyncio.all_tasks()
        silent.open.clear()
        async with asyncio.timeout(module.PROBE_S / 2):
            assert await client_of([silent, good]).ready()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before, "its probe has ended"
        good.failure = silent.failure = httpx.ConnectError("refused")
        silent.open.set()
        assert not await client_of([silent, good]).ready()


async def test_what_is_no_worker_is_not_ready() -> None:
    async with workers("same") as (only,):
        only.failure = httpx.Response(200, text="<html>")
        assert not await client_of([only]).ready()
        with pytest.raises(WorkerFailed, match="http://a is not an evaluator worker"):
            await client_of([only]).thresholds()


@pytest.mark.slow
async def test_a_killed_process_loses_no_request(folder: Path, tmp_path: Path) -> None:
    """Two workers as processes, on a real checkpoint; one is killed while it scores."""
    export(folder)
    with ExitStack() as stack:
        processes, urls = [], []
        for number in range(2):
            port = free_port()
            process = Process(
                [str(BIN / "selfcrag-evaluator"), "serve"],
                tmp_path / f"{number}.log",
                tmp_path,
                environment(evaluator_weights=folder, evaluator_port=port),
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
