"""Image models behind OpenAI-compatible endpoints: one makes images, one says what they show."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

import openai

from app.llm.endpoint import CONNECT_TIMEOUT_S, NO_KEY, Endpoint
from graphs.errors import GeneratorFailed, InvalidImage, RequestRefused
from graphs.generation.prompts import describing_messages
from graphs.types import Image, Language, Usage

if TYPE_CHECKING:
    from app.llm.chat import EndpointChat
    from app.llm.provider_chat import ProviderChat

TIMEOUT_S = 60.0
MAX_CONCURRENT = 4
MAX_PROMPT_CHARS = 1000
"""What the most widespread models take."""
MAX_CAPTION_CHARS = 2000


class Pixels(Protocol):
    """An image that was read within bounds, and encoded anew."""

    @property
    def content(self) -> bytes: ...

    @property
    def width(self) -> int: ...

    @property
    def height(self) -> int: ...


Read = Callable[[str], Awaitable[Pixels]]
"""Reads an image, a data URL; raises InvalidImage."""


class EndpointImageMaker:
    """`ports.ImageMaker` at `/images/generations`; what comes is read like anybody's image."""

    def __init__(self, base_url: str, key: str, model: str, read: Read) -> None:
        self.name, self._read = model, read
        timeout = openai.Timeout(TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        key = key.strip() or NO_KEY
        self._client = openai.AsyncOpenAI(
            base_url=base_url, api_key=key, timeout=timeout, max_retries=0
        )
        self.endpoint = Endpoint(
            base_url, model, timeout_s=TIMEOUT_S, max_concurrent=MAX_CONCURRENT, kind="image",
            operation="image_generation",
        )  # fmt: skip

    async def make(self, prompt: str) -> Image:
        payload: dict[str, Any] = {"model": self.name, "prompt": prompt[:MAX_PROMPT_CHARS], "n": 1}
        try:
            encoded = await self._encoded({**payload, "response_format": "b64_json"})
        except RequestRefused:  # some models know no other form, nor the word for it
            encoded = await self._encoded(payload)
        try:
            plain = await self._read(f"data:image/png;base64,{encoded}")
        except InvalidImage as error:
            raise self.endpoint.failed(f"sent what is no image ({error})") from None
        url = f"data:image/webp;base64,{base64.b64encode(plain.content).decode()}"
        return Image(
            id="",
            url=url,
            caption="",
            title=self.name,
            source="",
            origin="generated",
            width=plain.width,
            height=plain.height,
        )

    async def _encoded(self, payload: dict[str, Any]) -> str:
        """The image in base64; no address is followed. Raises GeneratorFailed."""
        async with self.endpoint.turn() as turn:
            reply = await turn.begin(lambda: self._client.images.generate(**payload))
        first = next(iter(reply.data or ()), None)
        if first is None or not first.b64_json:
            raise self.endpoint.failed("sent no image in its reply (b64_json is read, no address)")
        return str(first.b64_json)

    async def aclose(self) -> None:
        await self._client.close()


class EndpointCaptioner:
    """`ports.Captioner`: a chat model that takes images."""

    def __init__(self, chat: EndpointChat | ProviderChat) -> None:
        self._chat, self.name = chat, chat.model_name

    async def describe(self, image: str, question: str, language: Language) -> tuple[str, Usage]:
        messages = describing_messages(image, question, language)
        reply = await self._chat.ainvoke(messages, stream=False)
        caption = " ".join(reply.text.split())[:MAX_CAPTION_CHARS]
        if not caption:
            raise GeneratorFailed("The chat endpoint gave an empty description.")
        used = reply.usage_metadata or {"input_tokens": 0, "output_tokens": 0}
        return caption, Usage(1, used["input_tokens"], used["output_tokens"])
