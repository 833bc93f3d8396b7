"""Asking a chat model for a judgement: JSON of a schema, and how sure the model was of it.

`response_format: json_schema` is the form that OpenAI, vLLM, Ollama and llama.cpp all take; tool
calls need switches of the server or are not forced. Where an endpoint refuses it, or refuses
log-probabilities, it is asked without: the prompts spell the JSON out.
"""

import json
import math
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import BaseModel, Field, ValidationError
from pydantic.fields import FieldInfo

from graphs.errors import CriticFailed, GeneratorFailed, RequestRefused
from graphs.generation.prompts import text_of, usage_of
from graphs.generation.replies import TOO_LONG, whole_reply
from graphs.text.repetition import REPETITION
from graphs.types import Language, Usage
from prompts import prompt

Verdict = TypeVar("Verdict", bound=BaseModel)
Form = Mapping[str, Any]

LOG_PROBABILITIES: Form = {"logprobs": True, "top_logprobs": 20, "temperature": 0}
PLAIN: Form = {}


CUT_OFF: Mapping[str, str] = {
    "length": "The language model's judgement was cut off at its limit of tokens; raise"
    " SELFCRAG_MAX_OUTPUT_TOKENS or try a model that keeps to JSON.",
    TOO_LONG: "The language model's judgement had no end; try a model that keeps to JSON.",
    REPETITION: "The language model repeated itself instead of judging;"
    " try a model that keeps to JSON.",
}
"""By finish reasons: what was cut would be no better the second time."""
NO_OBJECT = "there is no JSON object in it"

REFUSED_FOR_S = 600.0
"""A refusal may have been of one prompt, or the endpoint be another by then: it is tried again."""


def at_most(count: int) -> FieldInfo:
    """A list's bound, for the endpoint's grammar alone: small models fill lists without an end."""
    bound: FieldInfo = Field(json_schema_extra={"maxItems": count})
    return bound


class FallbackChat:
    """A chat model asked in the first of these forms that its endpoint takes."""

    def __init__(self, chat: BaseChatModel, *forms: Form) -> None:
        self._chat, self._forms = chat, forms
        self._taken, self._refused_at = 0, -math.inf

    async def reply(self, messages: Sequence[BaseMessage]) -> tuple[AIMessage, Usage]:
        """The reply, and what all forms cost that were asked. Raises GeneratorFailed."""
        last, refused = len(self._forms) - 1, Usage()
        begin = self._taken if time.monotonic() < self._refused_at + REFUSED_FOR_S else 0
        for place in range(begin, last + 1):
            try:
                form = self._forms[place]
                reply = await whole_reply(self._chat, messages, **form)
            except GeneratorFailed as error:
                error.usage += refused
                if place == last or not isinstance(error, RequestRefused):
                    raise
                refused = error.usage
            else:
                if place != begin:
                    self._taken, self._refused_at = place, time.monotonic()
                return reply, refused + usage_of(reply)
        raise AssertionError("the last form is taken or raises")


class StructuredChat(Generic[Verdict]):
    """A chat model that answers with one JSON object of the schema."""

    def __init__(self, chat: BaseChatModel, schema: type[Verdict]) -> None:
        json_schema = {"name": schema.__name__.lower(), "strict": True, "schema": _strict(schema)}
        form = {"response_format": {"type": "json_schema", "json_schema": json_schema}}
        self._chat = FallbackChat(chat, {**form, **LOG_PROBABILITIES}, LOG_PROBABILITIES, PLAIN)
        self._schema = schema

    async def ask(
        self, messages: Sequence[BaseMessage], language: Language
    ) -> tuple[Verdict, AIMessage, Usage]:
        """The verdict and the reply it stands in; a reply that is none may be mended once.

        Raises GeneratorFailed, and CriticFailed where the reply stays unreadable or was cut off:
        whole it would be no shorter the second time.
        """
        reply, usage = await self._chat.reply(messages)
        verdict = self._read(reply, usage)
        if isinstance(verdict, str):
            wrong = HumanMessage(prompt("repair", language).render(error=verdict))
            try:
                reply, more = await self._chat.reply([*messages, AIMessage(text_of(reply)), wrong])
            except GeneratorFailed as error:
                error.usage += usage
                raise
            usage += more
            verdict = self._read(reply, usage)
        if isinstance(verdict, str):
            raise CriticFailed(
                f"The language model's judgement could not be read ({verdict});"
                " try a model that follows instructions about JSON.",
                usage,
            )
        return verdict, reply, usage

    def _read(self, reply: AIMessage, usage: Usage) -> Verdict | str:
        """The verdict, or what is wrong with the reply. Raises CriticFailed where it was cut."""
        verdict = first_object(text_of(reply))
        if verdict is None and (
            why := CUT_OFF.get(str(reply.response_metadata.get("finish_reason")))
        ):
            raise CriticFailed(why, usage)
        if verdict is None:
            return NO_OBJECT
        try:
            return self._schema.model_validate(verdict)
        except ValidationError as error:
            return _first(error)


def first_object(text: str) -> dict[str, Any] | None:
    """The first whole JSON object of a text, whatever stands around it."""
    decoder, start = json.JSONDecoder(), text.find("{")
    while start >= 0:
        try:
            decoded: dict[str, Any] = decoder.raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
        else:
            return decoded
    return None


def token_probabilities(reply: AIMessage, pattern: re.Pattern[bytes]) -> dict[str, float]:
    """Probabilities of the alternative tokens where the last match's group 1 begins.

    Tokens come in lower case without blanks and marks. Empty where the endpoint tells none.
    """
    logprobs = reply.response_metadata.get("logprobs")
    tokens = _mappings(logprobs.get("content")) if isinstance(logprobs, Mapping) else []
    # In bytes, for a token may be a part of a character.
    pieces = [_bytes(token) for token in tokens]
    matches = list(pattern.finditer(b"".join(pieces)))
    if not matches:
        return {}
    place, left = 0, matches[-1].start(1)
    while left >= len(pieces[place]):
        left -= len(pieces[place])
        place += 1
    p: dict[str, float] = defaultdict(float)
    for other in _mappings(tokens[place].get("top_logprobs")) or [tokens[place]]:
        value = other.get("logprob")
        if isinstance(value, int | float) and not math.isnan(value):
            p[_bare(str(other.get("token")))] += math.exp(min(value, 0.0))
    return dict(p)


def _bare(token: str) -> str:
    return token.strip(" \t\n\"':：,.。{}[]*").casefold()


def _mappings(value: object) -> list[Mapping[str, Any]]:
    """The mappings of a list; empty where the value is not a list."""
    items = value if isinstance(value, list) else []
    return [each for each in items if isinstance(each, Mapping)]


def _bytes(token: Mapping[str, Any]) -> bytes:
    octets = token.get("bytes")
    if isinstance(octets, list) and all(isinstance(n, int) and 0 <= n < 256 for n in octets):
        return bytes(octets)
    return str(token.get("token")).encode(errors="replace")


def _strict(schema: type[BaseModel]) -> dict[str, Any]:
    """As strict modes want it: every key required, no other allowed."""
    full = schema.model_json_schema()
    return {**full, "required": list(full["properties"]), "additionalProperties": False}


def _first(error: ValidationError) -> str:
    details = error.errors(include_url=False, include_input=False)[0]
    return ": ".join([*map(str, details["loc"][:1]), details["msg"]])
