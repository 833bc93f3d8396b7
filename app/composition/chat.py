"""The chat models that the settings choose, each an endpoint's or that of any provider."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import httpx
from pydantic import SecretStr

from app.errors import StartFailed
from app.settings import EXAMPLE, Settings, model_address

if TYPE_CHECKING:
    from app.llm.chat import EndpointChat
    from app.llm.provider_chat import ProviderChat


@contextmanager
def through_proxies() -> Iterator[None]:
    """Where a client is made. Raises StartFailed where no client can use a proxy that is set."""
    try:
        yield
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        # SOCKS needs a package that is not installed; other schemes are known to nobody.
        reason = " ".join(str(error).split())
        raise StartFailed(
            "a proxy of the environment (ALL_PROXY, HTTPS_PROXY or HTTP_PROXY) cannot be used:"
            f" {reason.rstrip('.')}. Set HTTP_PROXY and HTTPS_PROXY to an address with http:// and"
            " unset ALL_PROXY."
        ) from None


def chosen_chat(settings: Settings) -> EndpointChat | ProviderChat:
    """The chat model; close it. Raises StartFailed where none is chosen or it cannot be made."""
    if not settings.chat_model:
        raise StartFailed(f"no chat model is chosen: set SELFCRAG_CHAT_MODEL, such as {EXAMPLE}")
    has_fallback = bool(settings.fallback_model)
    return chat_at(
        settings, settings.chat_model, settings.chat_key, "chat", has_fallback=has_fallback
    )


@through_proxies()
def chat_at(
    settings: Settings, value: str, key: SecretStr, kind: str, *, has_fallback: bool = False
) -> EndpointChat | ProviderChat:
    """The model of `provider:model@url`; close it. Raises StartFailed.

    The clients take two seconds to load.
    """
    provider, model, url = model_address(value)
    make: Callable[..., EndpointChat | ProviderChat]
    if provider == "openai":
        from app.llm.chat import chat_model  # noqa: PLC0415

        make = partial(chat_model, url, key.get_secret_value(), model)
    else:
        from app.llm.provider_chat import provider_chat  # noqa: PLC0415

        make = partial(
            provider_chat, f"{provider}:{model}", api_key=key.get_secret_value(), base_url=url
        )
    return make(
        temperature=settings.chat_temperature,
        max_tokens=settings.max_output_tokens,
        timeout_s=settings.chat_timeout_s,
        max_concurrent=settings.chat_max_concurrent,
        kind=kind,
        has_fallback=has_fallback,
    )
