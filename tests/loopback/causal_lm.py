"""A causal language model behind `/v1`, as vLLM or as llama.cpp's server speaks: what is answered
comes from the folder's weights through transformers.

What differs: vLLM gives log-probabilities of a completion as OpenAI did (`tokens`,
`token_logprobs`, `top_logprobs`), llama.cpp in the form of chat (`content`), and beside its usage
`timings`. vLLM leaves special tokens out unless told not to; llama.cpp always does.
"""

import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from tests.loopback.server import LoopbackServer

ServerForm = Literal["vllm", "llama.cpp"]
MAX_TOKENS = 64
_OPENING: dict[str, dict[str, Any]] = {
    "vllm": {"role": "assistant", "content": ""},
    "llama.cpp": {"role": "assistant", "content": None},
}


@dataclass(frozen=True)
class WrittenToken:
    """A token's text, its log-probability and the likeliest of its place."""

    id: int
    text: str
    logprob: float
    top: dict[str, float]


class CausalLMServer(LoopbackServer):
    """Serves the folder under its name, at temperature 0."""

    def __init__(self, folder: Path, form: ServerForm) -> None:
        super().__init__()
        auto: Any = transformers.AutoModelForCausalLM
        self._network = auto.from_pretrained(folder).eval()
        tokenizers: Any = transformers.AutoTokenizer
        self._tokenizer = tokenizers.from_pretrained(folder)
        self.model, self.form = folder.name, form

    def routes(self) -> Sequence[BaseRoute]:
        return [
            Route("/v1/completions", self.completions, methods=["POST"]),
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
        ]

    async def completions(self, request: Request) -> Response:
        body = await self._body(request)
        prompt = self._tokenizer(body["prompt"])["input_ids"]
        tokens, ending = self._write(prompt, body)
        special = self.form == "vllm" and not body.get("skip_special_tokens", True)
        text = self._text(tokens, special=special)
        for stop in body.get("stop") or ():
            text = text.split(stop)[0]
        logprobs = self._logprobs(tokens) if body.get("logprobs") else None
        choice = {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": ending}
        return JSONResponse(self._about("text_completion", [choice], prompt, tokens))

    async def chat(self, request: Request) -> Response:
        """As a stream, as the service asks for it."""
        body = await self._body(request)
        prompt = self._tokenizer.apply_chat_template(
            body["messages"], add_generation_prompt=True, return_dict=True
        )["input_ids"]
        tokens, ending = self._write(prompt, body)
        events = self._stream(body, prompt, tokens, ending)
        return StreamingResponse(events, media_type="text/event-stream")

    async def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(await request.body())
        self.record(request, body)
        return body

    async def _stream(
        self, body: dict[str, Any], prompt: list[int], tokens: list[WrittenToken], ending: str
    ) -> AsyncIterator[str]:
        kind = "chat.completion.chunk"
        deltas: list[dict[str, Any]] = [_OPENING[self.form]]
        said = ""
        for count in range(1, len(tokens) + 1):
            whole = self._text(tokens[:count])
            deltas.append({"content": whole[len(said) :]})
            said = whole
        for delta in deltas:
            yield _event({**self._head(kind), "choices": [_choice(delta, None)]})
        yield _event({**self._head(kind), "choices": [_choice({}, ending)]})
        if (body.get("stream_options") or {}).get("include_usage"):
            yield _event(self._about(kind, [], prompt, tokens))
        yield "data: [DONE]\n\n"

    @torch.inference_mode()
    def _write(self, prompt: list[int], body: dict[str, Any]) -> tuple[list[WrittenToken], str]:
        asked = body.get("max_tokens") or body.get("max_completion_tokens") or MAX_TOKENS
        ids, tokens = list(prompt), list[WrittenToken]()
        stops = set(body.get("stop") or ())
        for _ in range(min(int(asked), MAX_TOKENS)):
            logits = self._network(input_ids=torch.tensor([ids])).logits[0, -1]
            found = logits.log_softmax(0).topk(min(20, len(logits)))
            likely = list(zip(found.indices.tolist(), found.values.tolist(), strict=True))
            number, logprob = likely[0]
            top = {self._tokenizer.decode([n]): value for n, value in likely}
            tokens.append(WrittenToken(number, self._tokenizer.decode([number]), logprob, top))
            ids.append(number)
            if number == self._tokenizer.eos_token_id or tokens[-1].text in stops:
                return tokens, "stop"
        return tokens, "length"

    def _text(self, tokens: Sequence[WrittenToken], *, special: bool = False) -> str:
        ids = [token.id for token in tokens if token.id != self._tokenizer.eos_token_id]
        text: str = self._tokenizer.decode(ids, skip_special_tokens=not special)
        return text

    def _logprobs(self, tokens: Sequence[WrittenToken]) -> dict[str, Any]:
        if self.form == "llama.cpp":
            return {"content": [_place(token) for token in tokens]}
        return {
            "text_offset": [0] * len(tokens),
            "token_logprobs": [token.logprob for token in tokens],
            "tokens": [token.text for token in tokens],
            "top_logprobs": [token.top for token in tokens],
        }

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": "cmpl-1", "object": kind, "created": int(time.time()), "model": self.model}

    def _about(
        self, kind: str, choices: list[Any], prompt: list[int], tokens: Sequence[WrittenToken]
    ) -> dict[str, Any]:
        counts = {"prompt_tokens": len(prompt), "completion_tokens": len(tokens)}
        usage = {**counts, "total_tokens": sum(counts.values())}
        told = {**self._head(kind), "choices": choices, "usage": usage}
        if self.form == "llama.cpp":
            told["timings"] = {"prompt_n": len(prompt), "predicted_n": len(tokens)}
            told["system_fingerprint"] = "b1-loopback"
        return told


def _choice(delta: dict[str, Any], ending: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": ending}


def _place(token: WrittenToken) -> dict[str, Any]:
    tops = [{"token": text, "logprob": value} for text, value in token.top.items()]
    place = {"id": token.id, "token": token.text, "bytes": list(token.text.encode())}
    return {**place, "logprob": token.logprob, "top_logprobs": tops}


def _event(told: dict[str, Any]) -> str:
    return f"data: {json.dumps(told)}\n\n"
