"""A chat server whose model grades as it is told: `grades` by key, `yes` for relevance.

Its log-probabilities come token by token, Chinese characters in two tokens of bytes.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from tests.loopback.openai import OpenAIServer, refusal, text_of

GRADES: Mapping[str, Mapping[str, float]] = {
    "retrieval": {"1": 0.6, "0": 0.2},
    "relevance": {"1": 0.8, "0": 0.2},
    "support": {"2": 0.5, "1": 0.3, "0": 0.2},
    "utility": {"4": 0.6, "5": 0.3, "1": 0.1},
}
CRITICISM = {"en": "The second sentence lacks support.", "zh": "第二句缺乏依据。"}
_TOKEN = re.compile(r"[a-z]+|\d|[^\sa-z\d]|\s+", re.IGNORECASE)
_SPEAKS_CHINESE = re.compile(r"[\u4e00-\u9fff]{2}")


class CriticServer(OpenAIServer):
    """`replies` are said before anything else. `around` is written around every JSON reply.

    `takes_schema`, `takes_logprobs` False: a request with them is refused. `tells_logprobs`
    False: they are left out of the reply though asked for.
    """

    def reset(self) -> None:
        super().reset()
        self.grades = {key: dict(weights) for key, weights in GRADES.items()}
        self.yes = 0.9
        self.weak: list[int] = []
        self.uncovered: list[str] = []
        self.criticism = ""
        self.replies: list[str] = []
        self.around = "{}"
        self.takes_schema = self.takes_logprobs = self.tells_logprobs = True

    def refused(self, body: dict[str, Any]) -> Response | None:
        if "response_format" in body and not self.takes_schema:
            return refusal(400, "response_format is not supported")
        if body.get("logprobs") and not self.takes_logprobs:
            return refusal(400, "logprobs are not supported")
        if (body.get("top_logprobs") or 0) > 20:
            return refusal(400, "top_logprobs must be at most 20")
        return None

    def reply(self, messages: Sequence[dict[str, Any]]) -> str:
        if self.replies:
            return self.replies.pop(0)
        asked = "\n".join(text_of(message) for message in messages if message["role"] == "user")
        language = "zh" if _SPEAKS_CHINESE.search(text_of(messages[0])) else "en"
        if "<findings-" in asked:
            return CRITICISM[language]
        if "<passage-" in asked:
            return self._said_yes_or_no(asked, language)
        keys = ("relevance", "support", "utility") if "<answer-" in asked else ("retrieval",)
        told: dict[str, Any] = {key: int(_likeliest(self.grades[key])) for key in keys}
        if "support" in told:
            told = {
                "relevance": told["relevance"],
                "weak": self.weak,
                "support": told["support"],
                "uncovered": self.uncovered,
                **({"criticism": self.criticism} if self.criticism else {}),
                "utility": told["utility"],
            }
        return self.around.replace("{}", json.dumps(told, ensure_ascii=False))

    def _said_yes_or_no(self, asked: str, language: str) -> str:
        yes, no = ("是", "否") if language == "zh" else ("yes", "no")
        word = yes if self.yes >= 0.5 else no
        if "step by step" in asked:
            return f"No is possible. Let us see.\nAnswer: {word}"
        if "一步一步" in asked:
            return f"先看问题，再看文字。\n回答：{word}"
        return word

    def logprobs(self, body: dict[str, Any], text: str) -> dict[str, Any] | None:
        if not body.get("logprobs") or not self.tells_logprobs:
            return None
        content, key = list[dict[str, Any]](), ""
        for found in _TOKEN.finditer(text):
            token = found[0]
            key = token if token in self.grades else key
            weighed = self._weighed(token, key, is_last=found.end() == len(text))
            content += _tokens(token, weighed)
            if token in weighed and token.isdigit():
                key = ""
        return {"content": content, "refusal": None}

    def _weighed(self, token: str, key: str, *, is_last: bool) -> Mapping[str, float]:
        if token.isdigit() and key:
            return self.grades[key]
        if is_last and token in ("yes", "no"):
            return {"yes": self.yes, "no": 1 - self.yes}
        if is_last and token in ("是", "否"):
            return {"是": self.yes, "否": 1 - self.yes}
        return {token: 1.0}


def _likeliest(weights: Mapping[str, float]) -> str:
    return max(weights, key=lambda grade: weights[grade])


def _tokens(token: str, weighed: Mapping[str, float]) -> list[dict[str, Any]]:
    said = token.encode()
    if token not in weighed or (len(weighed) == 1 and len(said) > 1 and not token.isascii()):
        halves = (said[:1], said[1:])
        return [_told("".join(f"\\x{b:02x}" for b in half), half, {}) for half in halves]
    return [_told(token, said, weighed)]


def _told(token: str, said: bytes, weighed: Mapping[str, float]) -> dict[str, Any]:
    tops = [
        {"token": other, "bytes": list(other.encode()), "logprob": math.log(p)}
        for other, p in weighed.items()
        if p > 0
    ]
    own = {"token": token, "bytes": list(said), "logprob": math.log(weighed.get(token, 1.0))}
    return {**own, "top_logprobs": tops}
