"""Speaks the OpenAI chat API; a stand-in for a model that answers by the prompt it was sent.

Two prompts are known by their last lines. `Question: …` and then `Keywords:` (`问题：`, `关键词：`)
asks for a rewriting: words of the question come back, joined by commas. Lines `[1] (title — source)
text` before `Question: …` ask for an answer: it repeats the first sentence and the source of each
line with its number, so that whatever the prompt lacks is missing from the answer.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from tests.loopback.server import LoopbackServer, json_error

OPENAI_KEY = "sk-loopback-51d2e8"
MODEL = "stand-in"

Failure = Literal["", "drop", "end", "hang", "hang_midway", "garbage", "empty", "error_event"]
"""drop: the connection breaks mid-stream. end: the stream stops without its end mark."""

_ROLES = frozenset({"developer", "system", "user", "assistant", "tool"})
_QUESTION = re.compile(r"^(?:Question:|问题[:：])[ \t]*(.*)$", re.MULTILINE)
_KEYWORDS_LAST = re.compile(r"(?:Keywords:|关键词[:：])\s*$")
_NUMBERED = re.compile(r"^\[(\d+)\][ \t]*(?:\((.*?)\)\s+)?(.+)$", re.MULTILINE)
_SENTENCE = re.compile(r".+?(?:[。！？]|[.!?](?=\s|$)|$)")
_ENGLISH = re.compile(r"[A-Za-z][A-Za-z-]{2,}")
_STOP = frozenset(
    _ENGLISH.findall(
        "the and for what who why how does did are was were can which when where with that this "
        "about from you tell have has its into between"
    )
)
_CHINESE_STOP = re.compile(
    r"为什么|是什么|什么|怎么样|怎样|怎么|如何|多少|哪里|哪些|哪个|吗|呢|了|的|是|和|与|在|有|谁|请问"
    r"|[\W_a-zA-Z0-9]+"
)


def keywords(question: str) -> str:
    if re.search(r"[\u4e00-\u9fff]", question):
        found = [part for part in _CHINESE_STOP.split(question) if len(part) > 1]
    else:
        found = [w for w in _ENGLISH.findall(question) if w.casefold() not in _STOP]
    longest = sorted(dict.fromkeys(found), key=len, reverse=True)[:3]
    return ", ".join(word for word in dict.fromkeys(found) if word in longest)


def reply_to(messages: Sequence[dict[str, Any]]) -> str:
    """The whole text of the answer."""
    last = text_of(messages[-1])
    prompt = "\n".join(text_of(message) for message in messages)
    asked = _QUESTION.findall(prompt)
    question = asked[-1].strip() if asked else last.strip()
    if _KEYWORDS_LAST.search(last):
        return keywords(question)
    numbered = _NUMBERED.findall(last) or _NUMBERED.findall(prompt)
    if not numbered:
        return f"Nothing numbered was given for: {question}"
    return " ".join(_cited(number, about, text) for number, about, text in numbered)


def _cited(number: str, about: str, text: str) -> str:
    found = _SENTENCE.match(text.strip())
    sentence = found.group(0) if found else text
    source = about.rsplit(" — ", 1)[-1]
    body, end = (sentence[:-1], sentence[-1]) if sentence[-1] in "。！？.!?" else (sentence, ".")
    return f"{body} ({source}) [{number}]{end}" if source else f"{body} [{number}]{end}"


def text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or ())


def refusal(status: int, message: str, code: str | None = None) -> Response:
    kind = "invalid_request_error" if status < 500 else "server_error"
    return json_error(
        status, {"error": {"message": message, "type": kind, "param": None, "code": code}}
    )


class OpenAIServer(LoopbackServer):
    """`failure` says how to go wrong, `token_delay_s` how slowly to speak, `finish_reason` why the
    reply ends; `says` is every reply where it is not empty. Tokens are words, or have so many
    characters as `token_chars`. `abandoned` counts the streams whose reader left."""

    def reset(self) -> None:
        super().reset()
        self.failure: Failure = ""
        self.finish_reason = "stop"
        self.says = ""
        self.token_chars = 0
        self.token_delay_s = 0.0
        self.abandoned = 0

    @property
    def prompts(self) -> list[str]:
        """The text of all messages of each completion asked for."""
        return [
            "\n".join(text_of(message) for message in request.body["messages"])
            for request in self.requests
            if request.body
        ]

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/v1/models", self.models),
            Route("/v1/chat/completions", self.completions, methods=["POST"]),
        ]

    def _unauthorized(self, request: Request) -> Response | None:
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        if key != OPENAI_KEY:
            # Some endpoints do repeat the whole key.
            return refusal(401, f"Incorrect API key provided: {key}.", "invalid_api_key")
        return None

    async def models(self, request: Request) -> Response:
        self.record(request)
        return self._unauthorized(request) or JSONResponse(
            {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "loopback"}]}
        )

    async def completions(self, request: Request) -> Response:
        try:
            body = json.loads(await request.body())
        except ValueError:
            return refusal(400, "We could not parse the JSON body of your request.")
        problem = self._unauthorized(request) or _problem(body) or self.refused(body)
        self.record(request, None if problem else body)
        if problem:
            return problem
        if self.refuses():
            answer = refusal(self.status, f"Told to fail; you sent {request.headers}")
            answer.headers.update(self.refusal_headers)
            return answer
        await self.hold(request, 60 if self.failure == "hang" else None)
        if self.failure == "garbage":
            return Response("<html>no API here</html>", media_type="text/html")
        text = "" if self.failure == "empty" else self.reply(body["messages"])
        if not body.get("stream"):
            whole = _completion(body, text, self.logprobs(body, text), self.finish_reason)
            return JSONResponse(whole)
        stream = self._until_left(self._stream(body, text, self.logprobs(body, text)))
        return StreamingResponse(stream, media_type="text/event-stream")

    def refused(self, body: dict[str, Any]) -> Response | None:
        """The refusal of what a server of this kind does not take."""
        return None

    def reply(self, messages: Sequence[dict[str, Any]]) -> str:
        return self.says or reply_to(messages)

    def logprobs(self, body: dict[str, Any], text: str) -> dict[str, Any] | None:
        """Those of a whole reply; this model tells none."""
        return None

    async def _until_left(self, stream: AsyncIterator[str]) -> AsyncIterator[str]:
        try:
            async for event in stream:
                yield event
        except asyncio.CancelledError:
            self.abandoned += 1
            raise

    async def _stream(
        self, body: dict[str, Any], text: str, logprobs: dict[str, Any] | None
    ) -> AsyncIterator[str]:
        """Log-probabilities come with the first two pieces, half of them each."""
        word = r"[\u4e00-\u9fff]|[^\u4e00-\u9fff]\S*\s*"
        token = rf"(?s:.{{1,{self.token_chars}}})" if self.token_chars else word
        pieces = re.findall(token, text)
        yield _event(body, [_choice({"role": "assistant", "content": ""})])
        for n, piece in enumerate(pieces):
            if n == 2 and self.failure == "drop":
                raise ConnectionResetError
            if n == 2 and self.failure == "end":
                return
            if n == 2 and self.failure == "error_event":
                yield 'data: {"error": {"message": "out of memory", "type": "server_error"}}\n\n'
                return
            if n == 2 and self.failure == "hang_midway":
                await asyncio.sleep(60)
            await asyncio.sleep(self.token_delay_s)
            told = None
            if logprobs and n < 2:
                half = len(logprobs["content"]) // 2
                part = slice(half * n, None if n or len(pieces) == 1 else half)
                told = {**logprobs, "content": logprobs["content"][part]}
            yield _event(body, [{**_choice({"content": piece}), "logprobs": told}])
        yield _event(body, [_choice({}, self.finish_reason)])
        if (body.get("stream_options") or {}).get("include_usage"):
            yield _event(body, [], _usage(body, text))
        yield "data: [DONE]\n\n"


def _problem(body: Any) -> Response | None:
    if not isinstance(body, dict):
        return refusal(400, "The body must be a JSON object.")
    if not isinstance(body.get("model"), str):
        return refusal(400, "you must provide a model parameter")
    if body["model"] != MODEL:
        return refusal(404, f"The model `{body['model']}` does not exist.", "model_not_found")
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return refusal(400, "Missing required parameter: 'messages'.", "missing_required_parameter")
    for n, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            return refusal(400, f"Invalid value for 'messages[{n}].role'.", "invalid_value")
        if not isinstance(message.get("content"), str | list):
            return refusal(400, f"Invalid type for 'messages[{n}].content'.", "invalid_type")
    temperature = body.get("temperature", 1)
    if not isinstance(temperature, int | float) or not 0 <= temperature <= 2:
        return refusal(400, "Invalid 'temperature': between 0 and 2 is expected.")
    if body.get("stream_options") is not None and not body.get("stream"):
        return refusal(400, "'stream_options' is only allowed when 'stream' is enabled.")
    return None


def _choice(delta: dict[str, str], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}


def _event(
    body: dict[str, Any], choices: list[dict[str, Any]], usage: dict[str, int] | None = None
) -> str:
    chunk = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": body["model"],
        "choices": choices,
        "usage": usage,
    }
    return f"data: {json.dumps(chunk)}\n\n"


def _usage(body: dict[str, Any], text: str) -> dict[str, int]:
    """Characters stand for tokens."""
    asked = sum(len(text_of(message)) for message in body["messages"])
    return {
        "prompt_tokens": asked,
        "completion_tokens": len(text),
        "total_tokens": asked + len(text),
    }


def _completion(
    body: dict[str, Any], text: str, logprobs: dict[str, Any] | None, finish_reason: str
) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "logprobs": logprobs,
                "finish_reason": finish_reason,
            }
        ],
        "usage": _usage(body, text),
    }
