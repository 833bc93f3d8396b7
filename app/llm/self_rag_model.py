"""Self-RAG model behind `/v1/completions` of an OpenAI-compatible server, such as vLLM."""

import asyncio
import re
from collections import OrderedDict
from dataclasses import replace
from typing import Any

import openai
from openai.types import Completion
from openai.types.completion_choice import Logprobs

from app.llm.endpoint import CONNECT_TIMEOUT_S, NO_KEY, Endpoint
from app.observability.model_calls import PromptMessage
from graphs.ports import Reflected
from graphs.reflection import tokens
from graphs.reflection.scores import RELEVANT, RETRIEVE
from graphs.reflection.tokens import PARAGRAPH, Token, without_tokens
from graphs.text.citations import without_markers
from graphs.text.model_output import whole_characters
from graphs.text.prompt_injection import as_data, without_control_tokens
from graphs.types import Judgement, Strip, Usage

TIMEOUT_S = 60.0
MAX_CONCURRENT = 8
MAX_OUTPUT_TOKENS = 300
"""As in the paper: what the model was trained on has no more."""
LOGPROBS = 20
"""Serving engines refuse more; the groups have at most five tokens."""
GRADE_TOKENS = 4
"""Enough for the IsSup and the IsUse token after a given answer."""
MAX_CACHED_REPLIES = 64
"""Answers that came with the word on retrieval and wait for `write`."""
SPECIAL_TOKENS_ARE_KEPT = {"skip_special_tokens": False, "spaces_between_special_tokens": False}
_RETRIEVAL, _NO_RETRIEVAL = RETRIEVE
# Neither a question nor a passage may close the instruction and begin the response by itself.
_HEADING = re.compile(r"^[^\S\n]*#+\s*(?=(?:instruction|response)\b)", re.IGNORECASE | re.MULTILINE)


class NativeGenerator:
    """`ports.ReflectiveGenerator`, and what `critics.native` asks of it.

    Special tokens in questions and passages are left out: they would be read as the model's own.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        model: str,
        *,
        max_tokens: int = 0,
        has_fallback: bool = False,
    ) -> None:
        """An empty `api_key` is for servers without keys; `max_tokens` may lower the default."""
        self.name = model
        self._max_tokens = min(max_tokens or MAX_OUTPUT_TOKENS, MAX_OUTPUT_TOKENS)
        self._client = openai.AsyncOpenAI(
            base_url=base_url,
            api_key=api_key.strip() or NO_KEY,
            timeout=openai.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            max_retries=0,
        )
        self.endpoint = Endpoint(
            base_url,
            model,
            timeout_s=TIMEOUT_S,
            max_concurrent=MAX_CONCURRENT,
            kind="native",
            operation="text_completion",
            has_fallback=has_fallback,
        )
        self._cached: OrderedDict[str, _Reply] = OrderedDict()

    async def write(
        self, question: str, passage: Strip | None = None, preceding: str | None = None
    ) -> Reflected:
        """The whole answer, or after `preceding` the next segment alone. Raises GeneratorFailed.

        Without a passage the model may ask for one: it is then made to go on without, in a second
        call, and `retrieval` tells how much it wanted one.
        """
        prompt = _prompt(question) + without_tokens(preceding or "")
        one_segment = preceding is not None
        if passage is not None:
            reply = await self._complete(prompt + _quoted(passage), self._max_tokens)
            return reply.reflected(grounded=True, one_segment=one_segment)
        cached = None if preceding else self._cached.pop(question, None)
        free = cached or await self._complete(prompt, self._max_tokens)
        used = Usage() if cached else free.usage
        reflected = replace(free.reflected(grounded=False, one_segment=one_segment), usage=used)
        if reflected.text:
            return reflected
        forced = await self._complete(prompt + _NO_RETRIEVAL, self._max_tokens)
        made = forced.reflected(grounded=False, one_segment=one_segment)
        return replace(made, usage=used + made.usage, retrieval=reflected.retrieval)

    async def wants_retrieval(self, question: str) -> tuple[float, Usage]:
        """p(Retrieval) normalised. Raises GeneratorFailed.

        Where the model goes on to answer, the answer is kept for a `write` of the same question:
        what needs no retrieval costs one call in all. Where it wants a passage it stops there.
        """
        reply = await self._complete(_prompt(question), self._max_tokens)
        self._cached[question] = reply
        if len(self._cached) > MAX_CACHED_REPLIES:
            self._cached.popitem(last=False)
        return (tokens.retrieval_at(reply.tokens[0]) if reply.tokens else 0.0), reply.usage

    async def judge(
        self, question: str, answer: str, passage: Strip | None
    ) -> tuple[Judgement, Usage]:
        """What the model says of an answer it did not write. Raises GeneratorFailed.

        IsRel is read after the passage, IsSup and IsUse after the answer: two calls side by side.
        """
        prompt, plain = _prompt(question), without_tokens(without_markers(answer))
        if passage is None:
            graded = await self._complete(f"{prompt}{_NO_RETRIEVAL}{plain}", GRADE_TOKENS)
            return Judgement(utility=tokens.judged_after(graded.tokens)[1]), graded.usage
        prompt += _quoted(passage)
        related, graded = await asyncio.gather(
            self._complete(prompt, 1), self._complete(f"{prompt}{RELEVANT[0]}{plain}", GRADE_TOKENS)
        )
        support, utility = tokens.judged_after(graded.tokens)
        relevance = tokens.relevance_at(related.tokens[0]) if related.tokens else 0.0
        return Judgement(relevance, support, utility), related.usage + graded.usage

    async def check(self) -> None:
        """Raises GeneratorFailed, naming the model, where it does not speak reflection tokens."""
        reply = await self._complete(_prompt("What is the capital of France?"), GRADE_TOKENS)
        if not tokens.holds_reflection(reply.tokens):
            raise self.endpoint.failed(
                f"serves the model {self.name!r}, which writes no reflection tokens: serve a"
                " Self-RAG model, such as selfrag/selfrag_llama2_7b, or choose another generator"
            )

    async def aclose(self) -> None:
        await self._client.close()

    async def _complete(self, prompt: str, max_tokens: int) -> "_Reply":
        async def request() -> _Reply:
            completion = await self._client.completions.create(
                model=self.name,
                prompt=prompt,
                max_tokens=max_tokens,
                temperature=0,
                logprobs=LOGPROBS,
                # What comes after would be a passage that nobody retrieved.
                stop=[PARAGRAPH[0]],
                extra_body=SPECIAL_TOKENS_ARE_KEPT,
            )
            return _Reply(completion)

        async with self.endpoint.turn([PromptMessage("prompt", prompt)]) as turn:
            reply = await turn.begin(request)
            turn.used(reply.usage.input_tokens, reply.usage.output_tokens)
            return reply


class _Reply:
    """A completion as it is tokens.read. Raises what FAILURES names where it is none."""

    def __init__(self, completion: Completion) -> None:
        choice = completion.choices[0]
        self.text = whole_characters(str(choice.text))
        self.finish_reason = str(choice.finish_reason)
        self.tokens = _tokens(choice.logprobs)
        counted = completion.usage
        self.usage = Usage(
            llm_calls=1,
            input_tokens=counted.prompt_tokens if counted else 0,
            output_tokens=counted.completion_tokens if counted else len(self.tokens),
        )

    def reflected(self, *, grounded: bool, one_segment: bool) -> Reflected:
        reading = tokens.read(self.tokens, self.text, grounded=grounded, one_segment=one_segment)
        return replace(reading, usage=self.usage, finish_reason=self.finish_reason)


def _tokens(logprobs: Logprobs | None) -> list[Token]:
    """Of a completion as OpenAI and vLLM give them, or as chat does, which is llama.cpp's form."""
    if logprobs is None:
        raise ValueError("no log-probabilities")
    content: Any = (logprobs.model_extra or {}).get("content")
    if content is not None:
        return [
            Token(
                str(place["token"]),
                float(place["logprob"]),
                {str(top["token"]): float(top["logprob"]) for top in place["top_logprobs"]},
            )
            for place in content
        ]
    if logprobs.tokens is None or logprobs.token_logprobs is None:
        raise ValueError("no log-probabilities")
    tops: list[Any] = list(logprobs.top_logprobs or [{}] * len(logprobs.tokens))
    return [
        Token(str(text), float(value), {str(name): float(p) for name, p in (top or {}).items()})
        for text, value, top in zip(logprobs.tokens, logprobs.token_logprobs, tops, strict=True)
    ]


def _prompt(question: str) -> str:
    instruction = _HEADING.sub("", without_control_tokens(without_tokens(question)))
    return f"### Instruction:\n{instruction}\n\n### Response:\n"


def _quoted(passage: Strip) -> str:
    """After which the model says whether it is relevant."""
    title, text = (
        _HEADING.sub("", as_data(without_tokens(it))) for it in (passage.title, passage.text)
    )
    return f"{_RETRIEVAL}{PARAGRAPH[0]}{title}\n{text}{PARAGRAPH[1]}"
