"""Client side of an OpenAI-compatible endpoint: concurrency, deadlines, errors in plain words."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import openai

from graphs.errors import GeneratorFailed, RequestRefused

# What the client raises on replies that are no completions.
MALFORMED = (ValueError, TypeError, KeyError, AttributeError, IndexError)
FAILURES = (openai.OpenAIError, TimeoutError, *MALFORMED)
"""All that a call can raise and `failure` puts into words."""
CONNECT_TIMEOUT_S = 5.0
# Servers without keys still want the header to be there.
NO_KEY = "none"


class Endpoint:
    """Bounds the calls to one endpoint: at most `max_concurrent` at once, `timeout_s` each.

    Waiting for a turn counts. `kind` names it in messages, "chat" or other.
    """

    def __init__(
        self, base_url: str, model: str, *, timeout_s: float, max_concurrent: int, kind: str
    ) -> None:
        self._base_url, self._model, self._kind = base_url, model, kind
        self._timeout_s, self._max_concurrent = timeout_s, max_concurrent
        self._slots = asyncio.Semaphore(max_concurrent)

    def deadline(self) -> float:
        """When a call that begins now must have ended, on the clock of the event loop."""
        return asyncio.get_running_loop().time() + self._timeout_s

    @asynccontextmanager
    async def turn(self, deadline: float) -> AsyncIterator[None]:
        """Raises GeneratorFailed where none is free until the deadline."""
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
        except TimeoutError:
            raise self.failed(
                f"is busy: {self._max_concurrent} calls were under way for"
                f" {self._timeout_s:g} s; try again or allow more at a time"
            ) from None
        try:
            yield
        finally:
            self._slots.release()

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """A turn and the time of one call. Raises GeneratorFailed for all of FAILURES."""
        deadline = self.deadline()
        async with self.turn(deadline):
            try:
                async with asyncio.timeout_at(deadline):
                    yield
            except FAILURES as error:
                raise self.failure(error) from None

    def failure(self, error: Exception) -> GeneratorFailed:
        """What one of FAILURES means.

        Raise it `from None`, for some endpoints repeat the key in what they answer.
        """
        match error:
            case openai.APITimeoutError() | TimeoutError():
                return self.failed(
                    f"did not finish within {self._timeout_s:g} s; try again or allow more time"
                )
            case openai.APIConnectionError():
                return self.failed(
                    "could not be reached or broke off; check that it runs and its address"
                )
            case openai.APIStatusError() if error.status_code in {400, 413, 422}:
                return self.failed(_refusal(error.status_code, self._model), RequestRefused)
            case openai.APIStatusError():
                return self.failed(_refusal(error.status_code, self._model))
            case openai.APIError():
                return self.failed("reported an error while answering; try again")
            case _:
                return self.failed(
                    f"sent a reply that is no {self._kind} completion; check its address"
                )

    def failed(self, what: str, error: type[GeneratorFailed] = GeneratorFailed) -> GeneratorFailed:
        return error(f"The {self._kind} endpoint at {_host(self._base_url)} {what}.")


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


def _host(base_url: str) -> str:
    """Host and port alone: an address may carry a password."""
    parts = urlsplit(base_url)
    return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or "its address"
