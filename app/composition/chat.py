"""The chat model that the settings choose: an endpoint's, or that of any provider."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx

from app.errors import StartFailed
from app.settings import Settings

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


@through_proxies()
def chosen_chat(settings: Settings) -> EndpointChat | ProviderChat:
    """A provider's where the settings name one; close it. Raises StartFailed.

    The clients take two seconds to load.
    """
    if settings.chat_model:
        from app.llm.provider_chat import provider_chat  # noqa: PLC0415

        return provider_chat(
            settings.chat_model,
            api_key=settings.chat_api_key.get_secret_value(),
            base_url=settings.chat_base_url,
            temperature=settings.openai_temperature,
            max_tokens=settings.max_output_tokens,
            timeout_s=settings.openai_timeout_s,
            max_concurrent=settings.openai_max_concurrent,
            has_fallback=bool(settings.fallback_model),
        )
    from app.llm.chat import chat_model  # noqa: PLC0415

    return chat_model(
        settings.openai_base_url,
        settings.openai_api_key.get_secret_value(),
        settings.openai_model,
        temperature=settings.openai_temperature,
        max_tokens=settings.max_output_tokens,
        timeout_s=settings.openai_timeout_s,
        max_concurrent=settings.openai_max_concurrent,
        has_fallback=bool(settings.fallback_model),
    )
