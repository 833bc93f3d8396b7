"""Proxies of the environment, which clients of search engines and of language models take."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from app.errors import StartFailed


@contextmanager
def through_proxies() -> Iterator[None]:
    """Where a client is made. Raises StartFailed where no client can use a proxy that is set."""
    try:
        yield
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        # SOCKS needs a package that is not installed; other schemes are known to nobody.
        told = " ".join(str(error).split())
        raise StartFailed(
            "a proxy of the environment (ALL_PROXY, HTTPS_PROXY or HTTP_PROXY) cannot be used:"
            f" {told.rstrip('.')}. Set HTTP_PROXY and HTTPS_PROXY to an address with http:// and"
            " unset ALL_PROXY."
        ) from None
