import json
import socket

import httpx
import pytest

from evaluator.client import (
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


async def test_overload_says_when_to_return() -> None:
    busy = httpx.Response(429, headers={"retry-after": "3"}, json={"detail": "busy"})
    with pytest.raises(WorkerOverloaded, match="busy") as raised:
        await answering(busy).score("relevance", [PAIR])
    assert raised.value.retry_after_s == 3


async def test_a_refusal_keeps_the_workers_words(client: EvaluatorClient) -> None:
    with pytest.raises(WorkerRefused, match="not trained") as raised:
        await client.score("support", [PAIR])
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
    ],
)  # fmt: skip
async def test_a_broken_answer_is_the_workers_failure(response: httpx.Response) -> None:
    with pytest.raises(WorkerFailed):
        await answering(response).score("relevance", [PAIR])
