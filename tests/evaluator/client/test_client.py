import json
import socket

import httpx
import pytest

from evaluator.client.client import (
    EvaluatorClient,
    WorkerFailed,
    WorkerOverloaded,
    WorkerRefused,
    WorkerUnreachable,
)

PAIR = ("How long is the river?", "The river is 212 kilometres long.")


def answering(response: httpx.Response) -> EvaluatorClient:
    transport = httpx.MockTransport(lambda _: response)
    return EvaluatorClient(httpx.AsyncClient(transport=transport, base_url="http://evaluator"))


async def test_many_pairs_go_in_several_requests(http: httpx.AsyncClient) -> None:
    client = EvaluatorClient(http, pairs_per_request=3)
    pairs = [PAIR, ("q", ""), *[PAIR] * 5, ("", "p")]
    whole = await client.score("relevance", pairs)
    assert len(whole.scores) == 8
    assert whole.scores[0] == pytest.approx(whole.scores[6], abs=1e-5)
    assert [error.index for error in whole.errors] == [1, 7]


async def test_no_pairs_ask_nothing() -> None:
    response = await answering(httpx.Response(500)).score("relevance", [])
    assert response.scores == []


async def test_thresholds_and_readiness(client: EvaluatorClient) -> None:
    thresholds = await client.thresholds()
    assert thresholds.lower < thresholds.upper
    assert await client.ready()


async def test_nobody_listening_is_unreachable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
        with pytest.raises(WorkerUnreachable, match=str(port)):
            await EvaluatorClient(http).score("relevance", [PAIR])
        assert not await EvaluatorClient(http).ready()


async def test_an_unreachable_address_is_shown_as_it_is() -> None:
    for base in ("http://127.0.0.1:9", "http://127.0.0.1:9/"):
        async with httpx.AsyncClient(base_url=base, trust_env=False) as http:
            with pytest.raises(WorkerUnreachable, match=r"http://127\.0\.0\.1:9/score \(Conn"):
                await EvaluatorClient(http).score("relevance", [PAIR])


def answering_in_turn(
    *answers: httpx.Response | httpx.TransportError,
) -> tuple[EvaluatorClient, list[str]]:
    """A client whose worker gives these answers, and the paths it was asked."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        found = answers[len(asked) - 1]
        if isinstance(found, httpx.TransportError):
            raise found
        return found

    transport = httpx.MockTransport(answer)
    http = httpx.AsyncClient(transport=transport, base_url="http://evaluator")
    return EvaluatorClient(http), asked


def busy(retry_after_s: int) -> httpx.Response:
    return httpx.Response(429, headers={"retry-after": str(retry_after_s)}, json={"detail": "busy"})


SCORED = {"scores": [0.5], "labels": ["[Relevant]"], "probabilities": [{}], "model": "m",
          "tokens": 1, "queue_ms": 0, "inference_ms": 0}  # fmt: skip


@pytest.mark.parametrize(
    "first",
    [busy(0), httpx.ConnectError("refused"), httpx.ReadError("lost"), httpx.Response(500)],
)
async def test_what_was_not_scored_is_asked_once_more(
    first: httpx.Response | httpx.TransportError,
) -> None:
    client, asked = answering_in_turn(first, httpx.Response(200, json=SCORED))
    assert (await client.score("relevance", [PAIR])).scores == [0.5]
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("answers", "error", "times"),
    [
        ([busy(0), busy(0)], WorkerOverloaded, 2),
        ([busy(3)], WorkerOverloaded, 1),
        ([httpx.ConnectError("refused")] * 2, WorkerUnreachable, 2),
        ([httpx.ReadTimeout("slow")], WorkerUnreachable, 1),
        ([httpx.ReadError("lost")] * 2, WorkerUnreachable, 2),
        ([httpx.Response(500)] * 2, WorkerFailed, 2),
        ([httpx.Response(422)], WorkerRefused, 1),
    ],
)
async def test_no_more_than_once_and_nothing_else(
    answers: list[httpx.Response | httpx.TransportError], error: type[Exception], times: int
) -> None:
    client, asked = answering_in_turn(*answers)
    with pytest.raises(error):
        await client.score("relevance", [PAIR])
    assert len(asked) == times


async def test_readiness_does_not_wait_for_a_second_answer() -> None:
    client, asked = answering_in_turn(httpx.Response(503, headers={"retry-after": "1"}))
    assert not await client.ready()
    assert asked == ["/health/ready"]


async def test_overload_says_when_to_return() -> None:
    with pytest.raises(WorkerOverloaded, match="busy") as raised:
        await answering(busy(3)).score("relevance", [PAIR])
    assert raised.value.retry_after_s == 3


async def test_a_refusal_keeps_the_workers_words(relevance_alone: httpx.AsyncClient) -> None:
    with pytest.raises(WorkerRefused, match="not trained") as raised:
        await EvaluatorClient(relevance_alone).score("support", [PAIR])
    assert raised.value.status == 422


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(500, text="<html>"),
        httpx.Response(200, text="no json"),
        httpx.Response(
            200,
            text=json.dumps(
                {"scores": [], "labels": [], "probabilities": [], "model": "m", "tokens": 0,
                 "queue_ms": 0, "inference_ms": 0}
            ),
        ),
        httpx.Response(200, text=json.dumps({**SCORED, "scores": [float("nan")]})),
        httpx.Response(200, text=json.dumps({**SCORED, "probabilities": [{"a": float("inf")}]})),
    ],
)  # fmt: skip
async def test_a_broken_answer_is_the_workers_failure(response: httpx.Response) -> None:
    with pytest.raises(WorkerFailed):
        await answering(response).score("relevance", [PAIR])
