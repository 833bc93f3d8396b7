"""SSRF guard: only http(s) pages at public addresses, and named exceptions, may be fetched."""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Collection, Sequence

import httpx

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

_DEFAULT_PORTS = {"http": 80, "https": 443}
# Translators map all of IPv4 into this range, private addresses included.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
# Of IANA's registries of special addresses, what older versions of Python take for public: the
# first holds the metadata service of a cloud, the second relays to IPv6.
_SPECIAL = tuple(
    map(
        ipaddress.ip_network,
        ("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "3fff::/20", "5f00::/16"),
    )
)


class PageFailed(Exception):
    """A page that was not read; the message goes on after the name of its host.

    `status`: of the server's answer, 0 without one. `is_outage`: other pages of the host would
    fare no better now.
    """

    def __init__(self, reason: str, status: int = 0, *, is_outage: bool = False) -> None:
        super().__init__(reason)
        self.status, self.is_outage = status, is_outage


async def resolve_addresses(host: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for *_, sockaddr in infos]


def is_public(address: str) -> bool:
    """Whether `address` belongs to the public internet, whatever notation hides it."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None or ip.is_site_local:
            return False
        inner = ip.sixtofour
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(ip.packed[-4:])
        if inner is not None and not is_public(str(inner)):
            return False
    if any(ip in network for network in _SPECIAL):
        return False
    return ip.is_global and not (
        ip.is_multicast or (ip.is_reserved and ip not in _NAT64) or ip.is_unspecified
    )


class GuardedTransport(httpx.AsyncBaseTransport):
    """Connects to the very address that was checked, so that a second look-up cannot differ.

    `allowed_private_hosts` names hosts whose address may be private, as `host` (at the
    ports of the web) or as `host:port`. Every request is checked, thus every redirect. Raises
    PageFailed.
    """

    def __init__(
        self,
        *,
        allowed_private_hosts: Collection[str] = (),
        resolve: Resolve = resolve_addresses,
    ) -> None:
        self._allowed = frozenset(host.casefold() for host in allowed_private_hosts)
        self._resolve = resolve
        # Kept connections are found by address alone: two hosts at one address would share the
        # certificate check of the first. So none is kept. Proxies would resolve by themselves.
        self._inner = httpx.AsyncHTTPTransport(
            trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        scheme, host = request.url.scheme, request.url.raw_host.decode("ascii").casefold()
        if scheme not in _DEFAULT_PORTS or not host:
            raise PageFailed("is not an http or https address")
        port = _DEFAULT_PORTS[scheme] if request.url.port is None else request.url.port
        address = await self._checked_address(host.strip("[]"), port)
        pinned = httpx.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": host},
        )
        return await self._inner.handle_async_request(pinned)

    async def _checked_address(self, host: str, port: int) -> str:
        named = f"{host}:{port}" in self._allowed
        if port not in _DEFAULT_PORTS.values() and not named:
            raise PageFailed(f"asks for port {port}, which may not be used")
        try:
            addresses = await self._resolve(host, port)
        except (OSError, UnicodeError):
            addresses = []
        if not addresses:
            raise PageFailed("has no known address")
        if not (named or host in self._allowed or all(map(is_public, addresses))):
            raise PageFailed("leads to a private address, which may not be fetched")
        return addresses[0]

    async def aclose(self) -> None:
        await self._inner.aclose()
