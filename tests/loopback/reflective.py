"""Speaks `/v1/completions` as vLLM does: a stand-in for a model taught Self-RAG's tokens.

After a passage it calls relevant what shares a longer word with the instruction, repeats the
passage's first sentence and judges it; without one it asks for retrieval where the instruction
speaks of facts ("who", "when", "where"), else answers at once. Probabilities are those of `P`.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from tests.loopback.openai import OPENAI_KEY, refusal
from tests.loopback.server import LoopbackServer, pause

NATIVE_MODEL = "stand-in-selfrag"
MOST_LOGPROBS = 20
WORD_P = 0.5
"""The probability of every plain word."""
P: Mapping[str, Mapping[str, float]] = {
    "retrieve": {"[Retrieval]": 0.6, "[No Retrieval]": 0.2},
    "answer": {"[No Retrieval]": 0.9, "[Retrieval]": 0.1},
    "relevant": {"[Relevant]": 0.8, "[Irrelevant]": 0.2},
    "irrelevant": {"[Irrelevant]": 0.9, "[Relevant]": 0.1},
    "supported": {
        "[Fully supported]": 0.6,
        "[Partially supported]": 0.3,
        "[No support / Contradictory]": 0.1,
    },
    "unsupported": {"[No support / Contradictory]": 0.8, "[Fully supported]": 0.2},
    "useful": {"[Utility:5]": 0.75, "[Utility:4]": 0.2, "[Utility:1]": 0.05},
}
Failure = Literal["", "hang", "garbage", "no_logprobs", "short_logprobs", "not_json"]

_PROMPT = re.compile(r"### Instruction:\n(.*?)\n\n### Response:\n(.*)\Z", re.DOTALL)
_PASSAGE = re.compile(r"\[Retrieval\]<paragraph>(.*?)\n(.*?)</paragraph>(.*)\Z", re.DOTALL)
_FACTS = re.compile(r"\b(?:who|when|where)\b|谁|何时", re.IGNORECASE)
_PIECE = re.compile(r"[\u4e00-\u9fff。，]|\s?[^\s\u4e00-\u9fff]+|\s")


@dataclass(frozen=True)
class Said:
    """A token and what else was weighed at its place."""

    text: str
    weighed: Mapping[str, float]


def reply_to(prompt: str) -> list[Said]:
    found = _PROMPT.search(prompt)
    if not found:
        return _words("No instruction was given.")
    instruction, begun = found.groups()
    passage = _PASSAGE.search(begun)
    if passage:
        return _from_passage(instruction, passage[2], passage[3])
    if begun.startswith("[No Retrieval]"):
        answer = begun.removeprefix("[No Retrieval]")
        return [*([] if answer else _words("From memory.")), *_judged("useful")]
    if _FACTS.search(instruction):
        return [*_judged("retrieve"), Said("<paragraph>", {"<paragraph>": 1.0})]
    return [*_judged("answer"), *_words("From memory."), *_judged("useful")]


def _from_passage(instruction: str, text: str, begun: str) -> list[Said]:
    if begun:
        answer = begun.removeprefix("[Relevant]").strip()
        return _judged("supported" if answer.rstrip(".") in text else "unsupported", "useful")
    words = {word.casefold() for word in re.findall(r"[a-zA-Z]{4,}|[\u4e00-\u9fff]", instruction)}
    relates = any(word in text.casefold() for word in words)
    sentence = re.match(r".+?[.。]", text, re.DOTALL)
    said = _words(sentence[0] if sentence else text)
    return [
        *_judged("relevant" if relates else "irrelevant"),
        *said,
        *_judged("supported", "useful"),
    ]


def _words(text: str) -> list[Said]:
    return [Said(piece, {piece: WORD_P, " the": 0.1}) for piece in _PIECE.findall(text)]


def _judged(*places: str) -> list[Said]:
    return [Said(next(iter(P[place])), P[place]) for place in places]


class ReflectiveServer(LoopbackServer):
    """`speaks_tokens` False makes it a model that was never taught them."""

    def reset(self) -> None:
        super().reset()
        self.failure: Failure = ""
        self.speaks_tokens = True
        self.is_llama_cpp = False
        """Gives log-probabilities as llama.cpp's server does: in the form of chat."""

    @property
    def prompts(self) -> list[str]:
        return [request.body["prompt"] for request in self.requests if request.body]

    def routes(self) -> Sequence[BaseRoute]:
        return [Route("/v1/completions", self.completions, methods=["POST"])]

    async def completions(self, request: Request) -> Response:
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        body = json.loads(await request.body())
        self.record(request, body)
        if key != OPENAI_KEY:
            return refusal(401, f"Unauthorized: {key}")
        if self.refuses():
            answer = refusal(self.status, f"Told to fail; you sent {request.headers}")
            answer.headers.update(self.refusal_headers)
            return answer
        if problem := _problem(body):
            return problem
        await pause(request, 60 if self.failure == "hang" else self.delay_s)
        if self.failure == "garbage":
            return Response("<html>no API here</html>", media_type="text/html")
        if self.failure == "not_json":
            return Response("{", media_type="application/json")
        said = reply_to(body["prompt"]) if self.speaks_tokens else _words("Just words, no tokens.")
        return JSONResponse(self._completion(body, said))

    def _completion(self, body: dict[str, Any], reply: list[Said]) -> dict[str, Any]:
        said = reply[: body["max_tokens"]]
        stops = [n for n, each in enumerate(said) if each.text in body.get("stop", ())]
        text = "".join(each.text for each in said[: min([*stops, len(said)])])
        if body.get("skip_special_tokens", True):  # the server's default
            text = re.sub(r"\[[A-Z][^\]]*\]|</?paragraph>", "", text)
        logprobs = None if self.failure == "no_logprobs" else _logprobs(said, body["logprobs"])
        if logprobs and self.failure == "short_logprobs":
            logprobs["token_logprobs"].pop()
        if logprobs and self.is_llama_cpp:
            logprobs = {"content": _places(logprobs)}
        ending = "stop" if stops or said == reply else "length"
        choice = {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": ending}
        usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": len(said)}
        usage["total_tokens"] = sum(usage.values())
        return {
            **{"id": "cmpl-1", "object": "text_completion", "created": 1, "model": body["model"]},
            **{"choices": [choice], "usage": usage},
        }


def _problem(body: dict[str, Any]) -> Response | None:
    if body["model"] != NATIVE_MODEL:
        return refusal(404, f"The model `{body['model']}` does not exist.")
    if body.get("logprobs", 0) > MOST_LOGPROBS:
        asked = body["logprobs"]
        return refusal(400, f"Requested sample logprobs of {asked}, which is greater than 20.")
    return None


def _logprobs(said: list[Said], most: int) -> dict[str, Any]:
    offsets, at = list[int](), 0
    for each in said:
        offsets.append(at)
        at += len(each.text)
    return {
        "tokens": [each.text for each in said],
        "token_logprobs": [math.log(each.weighed[each.text]) for each in said],
        "top_logprobs": [_top(each, most) for each in said],
        "text_offset": offsets,
    }


def _places(logprobs: dict[str, Any]) -> list[dict[str, Any]]:
    named = ("tokens", "token_logprobs", "top_logprobs")
    return [
        {
            "token": text,
            "logprob": value,
            "top_logprobs": [{"token": name, "logprob": p} for name, p in top.items()],
        }
        for text, value, top in zip(*(logprobs[name] for name in named), strict=True)
    ]


def _top(said: Said, most: int) -> dict[str, float]:
    """As many as were asked for, filled up with words that nobody would say."""
    best = sorted(said.weighed.items(), key=lambda item: -item[1])[:most]
    rest = {f"word{n}": -20.0 - n for n in range(most - len(best))}
    return {**{text: math.log(p) for text, p in best}, **rest}
