"""Client side of an OpenAI-compatible endpoint: concurrency, deadlines, retries, plain errors."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar
from urllib.parse import urlsplit

import openai
from langchain_core.outputs import ChatGenerationChunk

from app.observability import model_calls
from app.observability.model_calls import ModelCall, PromptMessage
from app.resilience.circuit_breaker import Attempt, CircuitBreaker
from app.resilience.deadline import NO_TIME, CallLimit, call_limit, elsewhere, is_outage
from app.resilience.retry import Retries, RetryBudget, seconds_of
from graphs.errors import AnswerInterrupted, GeneratorFailed, RequestRefused
from graphs.generation.replies import given_up
from graphs.text.repetition import REPETITION
from graphs.types import Usage

# What the client raises on replies that are no completions.
MALFORMED = (ValueError, TypeError, KeyError, AttributeError, IndexError)
FAILURES = (openai.OpenAIError, TimeoutError, *MALFORMED)
"""All that a call can raise and `failure` puts into words."""
CONNECT_TIMEOUT_S = 5.0
# Servers without keys still want the header to be there.
NO_KEY = "none"
TRANSIENT = {429, 500, 502, 503, 504}
"""Statuses of what may succeed in a moment."""
SHARE_TO_BEGIN = 0.5
"""Of a call's time, for a reply to begin where another model stands in for one that is silent."""

A = TypeVar("A")


class Endpoint:
    """Bounds the calls to one endpoint: `max_concurrent` at once, `timeout_s` of silence each.

    Silence is the wait for the first piece of a reply, that for a turn included, and the wait
    between two pieces; the run's deadline bounds all of it. `kind` names it in messages, "chat" or
    other. What fails for the moment is tried again as `Retries` allow; the `breaker` keeps calls
    from an endpoint that is down, and counts a call once with its retries. `has_fallback`: another
    model answers in time where this one is silent.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        timeout_s: float,
        max_concurrent: int,
        kind: str,
        breaker: CircuitBreaker | None = None,
        operation: str = "chat",
        has_fallback: bool = False,
    ) -> None:
        self._base_url, self._model, self._kind = base_url, model, kind
        self._timeout_s, self._max_concurrent = timeout_s, max_concurrent
        self._operation = operation
        self._slots = asyncio.Semaphore(max_concurrent)
        self.share_to_begin = SHARE_TO_BEGIN if has_fallback else 1.0
        self.retry_budget = RetryBudget()
        self.breaker = breaker or CircuitBreaker(kind)

    @asynccontextmanager
    async def turn(self, prompt: Sequence[PromptMessage] = ()) -> AsyncIterator["Turn"]:
        """One of the calls at once, within its time; `prompt` is told to the run's listeners.

        Raises GeneratorFailed where none is free in time, or the breaker is open.
        """
        limit = self.limit()
        if limit.is_over:
            raise self._unsent(NO_TIME)
        with self.breaker.attempt(self._unsent) as attempt:
            try:
                async with asyncio.timeout_at(limit.at):
                    await self._slots.acquire()
            except TimeoutError:
                raise self._unsent(
                    f"is busy: {self._max_concurrent} calls were under way for"
                    f" {limit}; try again or allow more at a time"
                ) from None
            address = urlsplit(self._base_url)
            call = ModelCall(
                self._operation, self._model, address.hostname or "", address.port, prompt
            )
            turn = Turn(self, limit, attempt, call)
            try:
                with elsewhere():
                    yield turn
            except BaseException as error:
                call.error = call.error or type(error).__name__
                if isinstance(error, GeneratorFailed):
                    error.usage = Usage(1, call.input_tokens or 0, turn.output_tokens)
                raise
            finally:
                self._slots.release()
                call.took_ns = time.time_ns() - call.began_ns
                model_calls.tell(call)

    def limit(self) -> CallLimit:
        """How long the endpoint may be silent from now on."""
        return call_limit(self._timeout_s)

    def failure(self, error: Exception, limit: CallLimit | None = None) -> GeneratorFailed:
        """What one of FAILURES means.

        Raise it `from None`, for some endpoints repeat the key in what they answer.
        """
        match error:
            case openai.APITimeoutError() | TimeoutError():
                within = limit or f"{self._timeout_s:g} s"
                reason = f"did not finish within {within}; try again or allow more time"
                is_cut = limit is not None and limit.by_run
                return self.failed(reason, AnswerInterrupted if is_cut else GeneratorFailed)
            case openai.APIConnectionError():
                return self.failed(
                    "could not be reached or broke off; check that it runs and its address"
                )
            case openai.APIStatusError() if error.status_code in {400, 413, 422}:
                return self.failed(_refusal(error.status_code, self._model), RequestRefused)
            case openai.APIStatusError():
                where = _where_to_look(self._base_url) if error.status_code == 404 else ""
                return self.failed(_refusal(error.status_code, self._model) + where)
            case openai.APIError():
                return self.failed("reported an error while answering; try again")
            case _:
                return self.failed(
                    f"sent a reply that is no {self._kind} completion; check its address"
                    f"{_where_to_look(self._base_url)}"
                )

    def failed(self, what: str, error: type[GeneratorFailed] = GeneratorFailed) -> GeneratorFailed:
        return error(f"The {self._kind} endpoint at {_host(self._base_url)} {what}.")

    def _unsent(self, what: str) -> GeneratorFailed:
        """The failure of a call that the endpoint never saw."""
        failure = self.failed(what)
        failure.usage = Usage()
        return failure


class Turn:
    """A call under way, in steps such as the chunks of a stream."""

    def __init__(
        self, endpoint: Endpoint, limit: CallLimit, attempt: Attempt, call: ModelCall
    ) -> None:
        self._endpoint, self._limit, self._attempt, self._call = endpoint, limit, attempt, call
        self._began = asyncio.get_running_loop().time()
        self._has_replied, self._pieces = False, 0

    @property
    def output_tokens(self) -> int:
        """As the endpoint has told; before that the pieces that came, one a token at most."""
        return max(self._call.output_tokens or 0, self._pieces)

    def received(self, piece: str) -> None:
        """A piece of the reply has come."""
        self._pieces += bool(piece)

    def end_of_loop(self) -> ChatGenerationChunk:
        """The end of a reply that is given up, for it repeats itself."""
        message = given_up(REPETITION, self.output_tokens - (self._call.output_tokens or 0))
        self.used(self._call.input_tokens or 0, self.output_tokens)
        return ChatGenerationChunk(message=message)

    async def begin(self, ask: Callable[[], Awaitable[A]]) -> A:
        """The first step, which may be retried: nothing was streamed yet.

        Raises GeneratorFailed for all of FAILURES.
        """
        limit = self._limit.share(self._endpoint.share_to_begin)
        retries = Retries(self._endpoint.retry_budget, limit)
        async with self.step(limit):
            return await self._attempt.through(self._tried(ask, retries))

    async def _tried(self, ask: Callable[[], Awaitable[A]], retries: Retries) -> A:
        while True:
            try:
                return await ask()
            except openai.APIError as error:
                after_s = _retry_after_s(error) or 0.0
                if not (_is_transient(error) and await retries.wait(after_s)):
                    raise
                self._call.retries += 1

    @asynccontextmanager
    async def step(self, limit: CallLimit | None = None) -> AsyncIterator[None]:
        """Within a new time limit or a nearer one. Raises GeneratorFailed for all of FAILURES."""
        if limit is None:
            limit = self._endpoint.limit()
            if limit.by_run and limit.at is not None:  # told is what the call has had in all
                limit = replace(limit, seconds=limit.at - self._began)
        await asyncio.sleep(0)  # a reply that has come whole would hold up everybody else
        try:
            async with asyncio.timeout_at(limit.at):
                yield
        except FAILURES as error:
            self._attempt.has_failed = self._is_outage(error, limit)
            self._call.error = _kind_of(error)
            raise self._endpoint.failure(error, limit) from None
        self._has_replied = True

    def used(self, input_tokens: int, output_tokens: int) -> None:
        """What the endpoint says that the call has used."""
        self._call.input_tokens, self._call.output_tokens = input_tokens, output_tokens

    def broke_off(self) -> GeneratorFailed:
        """The failure of a stream that stops without its end."""
        self._attempt.has_failed = True
        return self._endpoint.failed("broke its answer off; try again")

    def _is_outage(self, error: Exception, limit: CallLimit) -> bool:
        match error:
            case TimeoutError():
                waited_s = asyncio.get_running_loop().time() - self._began
                # One that is writing is slow for this run alone.
                is_writing = limit.by_run and self._has_replied
                return is_outage(limit, waited_s) and not is_writing
            case openai.APIStatusError() if error.status_code == 429:
                # One that says when to come back is not down.
                return _retry_after_s(error) is None
            case openai.APIStatusError():
                return error.status_code >= 500
            case _:
                return isinstance(error, openai.APIConnectionError)


def _is_transient(error: openai.APIError) -> bool:
    match error:
        case openai.APIStatusError():
            return error.status_code in TRANSIENT
        case openai.APITimeoutError():
            return False  # it has had its time
        case _:
            return isinstance(error, openai.APIConnectionError)


def _retry_after_s(error: openai.APIError) -> float | None:
    if not isinstance(error, openai.APIStatusError):
        return None
    return seconds_of(error.response.headers.get("Retry-After"))


def _kind_of(error: Exception) -> str:
    """The status of a refusal, else the name of the error: what `error.type` says of a span."""
    if isinstance(error, openai.APIStatusError):
        return str(error.status_code)
    return type(error).__name__


def _refusal(status: int, model: str) -> str:
    if status in {401, 403}:
        return f"refused the key (HTTP {status}); check the API key in the settings"
    if status == 404:
        return f"does not know the model {model!r} or the path (HTTP 404); check both"
    if status == 429:
        return "is limiting requests or the quota is used up (HTTP 429); wait and try again"
    if status in {400, 413, 422}:
        return f"did not accept the request (HTTP {status}); it may be too long for {model!r}"
    return f"is failing on its side (HTTP {status}); try again later"


def _where_to_look(base_url: str) -> str:
    """What most addresses without a path lack."""
    if urlsplit(base_url).path.strip("/"):
        return ""
    return ": it has no path, and most servers are asked below /v1"


def _host(base_url: str) -> str:
    """Host and port alone: an address may carry a password."""
    parts = urlsplit(base_url)
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or "its address"
