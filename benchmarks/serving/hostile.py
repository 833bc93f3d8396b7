"""Hostile requests to the worker, one at a time, and what a neighbour gets meanwhile."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Sequence
from urllib.parse import urlsplit

import httpx

from benchmarks.report import Figures
from benchmarks.serving.load import Served, http_to, worker
from benchmarks.serving.model import Plan, Texts, Workload
from evaluator.bench import Pair
from evaluator.client import EvaluatorClient
from evaluator.errors import EvaluatorError
from evaluator.serving.batching import Limits
from evaluator.settings import EvaluatorSettings

ALIKE = 1e-3  # scores of the same pair in another batch differ in the last places
BIG = 5_000_000
QUESTION = "What is it?"


def bodies(limits: Limits) -> dict[str, bytes]:
    """What is sent to `/score`, by what is wrong with it."""

    def asked(*pairs: object, task: object = "relevance", **more: object) -> bytes:
        return json.dumps({"task": task, "pairs": pairs, **more}).encode()

    usual = (QUESTION, "It is a mill.")
    return {
        "nothing": b"",
        "no JSON": b"{",
        "bytes that are no UTF-8": b'{"task": "\xff\xfe"}',
        "a list nested 100,000 deep": b"[" * 100_000,
        "NaN for a text": b'{"task": "relevance", "pairs": [["a", NaN]]}',
        "an unknown task": asked(usual, task="truth"),
        "an unknown field": asked(usual, weights="/etc"),
        "three texts in a pair": asked([*usual, "and more"]),
        "no pairs": asked(),
        "one pair too many": asked(*[usual] * (limits.max_pairs + 1)),
        "10,000 pairs": asked(*[usual] * 10_000),
        "a body over the limit": asked((QUESTION, "a " * (limits.max_body_bytes // 2))),
        "a passage of 1 MB": asked((QUESTION, "mill " * (BIG // 25))),
        "a passage of 5 MB": asked((QUESTION, "mill " * (BIG // 5))),
        "a word of 5 MB": asked((QUESTION, "m" * BIG)),
        "a question of 5 MB": asked(("mill " * (BIG // 5), usual[1])),
        "500,000 combining marks": asked((QUESTION, "a" + "\u0301" * 500_000)),
        "empty texts among others": asked(usual, ("", ""), (" \n", "\u200b"), usual),
        "control characters and NUL": asked((QUESTION, "\x00\x01\x1b[2J mill \x7f")),
        "half a surrogate pair": b'{"task": "relevance", "pairs": [["a\\ud800", "\\udfff mill"]]}',
        "a passage that is `</s>`": asked(usual, (QUESTION, "</s>"), ("</s>", "</s> mill </s>")),
        "spelt special tokens": asked((QUESTION, "</s><pad>[SEP][Relevant][task:utility] mill")),
        "right-to-left overrides": asked((QUESTION, "\u202emill\u202c \u2066is\u2069")),
    }


async def on_hostile(served: Served, plan: Plan) -> list[Figures]:
    """A line a request: its status, and whether a neighbour at the same time got its scores."""
    pairs, found = Texts(plan.seed).pairs(8), list[Figures]()
    async with http_to(served) as http:
        usual = (await _scores(http, pairs))[1]
        for name, body in bodies(Limits()).items():
            response, neighbour = await asyncio.gather(_post(http, body), _scores(http, pairs))
            found.append({"what": name, "status": response, **_told(usual, neighbour)})
        for name, leaving in (
            ("half a request, then gone", True),
            ("gone before the answer", False),
        ):
            _, neighbour = await asyncio.gather(_gone(served, pairs, leaving), _scores(http, pairs))
            found.append({"what": name, "status": "-", **_told(usual, neighbour)})
    return found


async def _post(http: httpx.AsyncClient, body: bytes) -> str:
    headers = {"content-type": "application/json"}
    try:
        response = await http.post("/score", content=body, headers=headers)
    except httpx.TransportError as error:
        return type(error).__name__
    errors = len(response.json().get("errors", [])) if response.is_success else 0
    return (
        f"{response.status_code}, {errors} pairs refused" if errors else str(response.status_code)
    )


async def _scores(http: httpx.AsyncClient, pairs: list[Pair]) -> tuple[int, list[float]]:
    response = await http.post("/score", json={"task": "relevance", "pairs": pairs})
    return response.status_code, response.json()["scores"] if response.is_success else []


def _told(usual: list[float], neighbour: tuple[int, list[float]]) -> Figures:
    status, scores = neighbour
    return {"neighbour": status, "neighbour_same": _alike(scores, usual)}


def _alike(scores: Sequence[float | None], usual: Sequence[float | None]) -> bool:
    return len(scores) == len(usual) and all(
        one is not None and other is not None and abs(one - other) < ALIKE
        for one, other in zip(scores, usual, strict=True)
    )


async def _gone(served: Served, pairs: list[Pair], half: bool) -> None:
    """Send half of a request, or all of it, and close the connection without reading."""
    address = urlsplit(served.url)
    _, writer = await asyncio.open_connection(address.hostname, address.port)
    body = json.dumps({"task": "relevance", "pairs": pairs}).encode()
    head = f"POST /score HTTP/1.1\r\nHost: worker\r\nContent-Length: {len(body)}\r\n"
    head += "Content-Type: application/json\r\n\r\n"
    writer.write(head.encode() + (body[: len(body) // 2] if half else body))
    await writer.drain()
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def on_killed(settings: EvaluatorSettings, asked: Sequence[Workload]) -> Figures:
    """Questions to two workers behind one client; one of them is killed while it computes."""
    with worker(settings) as stays, worker(settings) as dies:
        async with http_to(stays) as first, http_to(dies) as second:
            alone, both = EvaluatorClient(first), EvaluatorClient(first, second)
            await both.connect()
            requests = [[(one.question, text) for text in one.passages] for one in asked[:16]]
            usual = [(await alone.score("relevance", pairs)).scores for pairs in requests]
            asking = [asyncio.create_task(both.score("relevance", pairs)) for pairs in requests]
            await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            open_then = sum(not one.done() for one in asking)
            os.kill(dies.pid, signal.SIGKILL)
            answers = await asyncio.gather(*asking, return_exceptions=True)
    same = list[bool]()
    for answer, expected in zip(answers, usual, strict=True):
        if isinstance(answer, BaseException):
            if not isinstance(answer, EvaluatorError):
                raise answer
            continue
        same.append(_alike(answer.scores, expected))
    return {
        "requests": len(requests), "open": open_then, "answered": len(same), "same": sum(same)
    }  # fmt: skip
