"""A chat endpoint on loopback that answers every call after the same delay and keeps count."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from tests.loopback.server import LoopbackServer

MODEL = "delayed"
_KEYWORDS = re.compile(r"(?:Keywords|关键词)[:：]\s*$")
_PIECE = re.compile(r"^\[1\] (?:\(.*?\) )?(.+)$", re.MULTILINE)

Span = tuple[float, float]


class DelayedEndpoint(LoopbackServer):
    """`spans` are the times (s) of its calls, from request to reply, `delay_s` apart."""

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[Span] = []
        self._calls = 0

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def routes(self) -> Sequence[BaseRoute]:
        return [Route("/v1/chat/completions", self.completions, methods=["POST"])]

    def reply_to(self, body: dict[str, Any]) -> str:
        """JSON or keywords where they are asked for, else the first piece of knowledge.

        No reply is given twice, so that a revision is never equal to the draft before it.
        """
        self._calls += 1
        if schema := body.get("response_format", {}).get("json_schema", {}).get("schema"):
            return json.dumps(least(schema, schema.get("$defs", {})))
        prompt = "\n".join(str(said["content"]) for said in body["messages"])
        if _KEYWORDS.search(prompt):
            return "upper threshold, action, evaluator"
        piece = _PIECE.search(prompt)
        return f"{piece[1]} ({self._calls}) [1]" if piece else f"That is so ({self._calls})."

    async def completions(self, request: Request) -> Response:
        began, body = time.perf_counter(), await request.json()
        await asyncio.sleep(self.delay_s)
        self.spans.append((began, time.perf_counter()))
        text = self.reply_to(body)
        if body.get("stream"):
            return StreamingResponse(_events(text), media_type="text/event-stream")
        choice = {"index": 0, "message": {"role": "assistant", "content": text},
                  "finish_reason": "stop"}  # fmt: skip
        return JSONResponse(
            {**_head("chat.completion"), "choices": [choice], "usage": _usage(text)}
        )


def least(schema: dict[str, Any], named: dict[str, Any]) -> Any:
    """The lowest value that fits a JSON schema: a judgement in it is the worst there is."""
    if "$ref" in schema:
        return least(named[schema["$ref"].rpartition("/")[2]], named)
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return least(schema["anyOf"][0], named)
    match schema.get("type"):
        case "object":
            return {key: least(value, named) for key, value in schema["properties"].items()}
        case "array":
            return []
        case "string":
            return "It says too little."
        case "boolean":
            return False
    return schema.get("minimum", 0)


async def _events(text: str) -> AsyncIterator[str]:
    head = _head("chat.completion.chunk")
    for delta, reason in (({"role": "assistant", "content": text}, None), ({}, "stop")):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        yield f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"
    yield f"data: {json.dumps({**head, 'choices': [], 'usage': _usage(text)})}\n\n"
    yield "data: [DONE]\n\n"


def _head(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": MODEL}


def _usage(text: str) -> dict[str, int]:
    return {"prompt_tokens": 1, "completion_tokens": len(text), "total_tokens": len(text) + 1}


def union_s(spans: list[Span]) -> float:
    """The time in which at least one of them was under way."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
