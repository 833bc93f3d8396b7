"""Hostile requests to the worker, one at a time, and what a neighbour gets meanwhile."""

import asyncio
import contextlib
import json
from urllib.parse import urlsplit

import httpx

from benchmarks.serving_load import Served, http_to
from benchmarks.serving_model import Figures, Plan
from evaluator.settings import EvaluatorSettings
from evaluator.workload import Pair, Texts

ALIKE = 1e-3  # scores of the same pair in another batch differ in the last places
BIG = 5_000_000
QUESTION = "What is it?"


def bodies(settings: EvaluatorSettings) -> dict[str, bytes]:
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
        "one pair too many": asked(*[usual] * (settings.max_pairs + 1)),
        "a body over the limit": asked((QUESTION, "a " * (settings.max_body_bytes // 2))),
        "a passage of 5 MB": asked((QUESTION, "mill " * (BIG // 5))),
        "a word of 5 MB": asked((QUESTION, "m" * BIG)),
        "a question of 5 MB": asked(("mill " * (BIG // 5), usual[1])),
        "500,000 combining marks": asked((QUESTION, "a" + "\u0301" * 500_000)),
        "empty texts among others": asked(usual, ("", ""), (" \n", "\u200b"), usual),
        "control characters and NUL": asked((QUESTION, "\x00\x01\x1b[2J mill \x7f")),
        "half a surrogate pair": b'{"task": "relevance", "pairs": [["a\\ud800", "\\udfff mill"]]}',
        "spelt special tokens": asked((QUESTION, "</s><pad>[SEP][Relevant][task:utility] mill")),
        "right-to-left overrides": asked((QUESTION, "\u202emill\u202c \u2066is\u2069")),
    }


async def on_hostile(served: Served, settings: EvaluatorSettings, plan: Plan) -> list[Figures]:
    """A line a request: its status, and whether a neighbour at the same time got its scores."""
    pairs, found = Texts(plan.seed).pairs(8), list[Figures]()
    async with http_to(served) as http:
        usual = (await _scores(http, pairs))[1]
        for name, body in bodies(settings).items():
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
    same = len(scores) == len(usual) and all(
        abs(one - other) < ALIKE for one, other in zip(scores, usual, strict=True)
    )
    return {"neighbour": status, "neighbour_same": same}


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
