import asyncio
import socket
import sys
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from app.websearch.page import PageReader
from app.websearch.ssrf_guard import GuardedTransport, PageFailed, is_public
from tests.app.websearch.private_urls import ADDRESSES, PRIVATE_URLS
from tests.loopback.pages import PageServer


async def get(url: str, transport: GuardedTransport) -> httpx.Response:
    async with httpx.AsyncClient(transport=transport, trust_env=False) as client:
        return await client.get(url)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07::1", "64:ff9b::808:808"])
def test_public_addresses_pass(address: str) -> None:
    assert is_public(address)


OTHERS = """
    127.0.0.1 10.1.2.3 172.16.0.9 192.168.1.1 169.254.169.254 100.100.100.200 100.64.0.1 0.0.0.0
    224.0.0.1 240.0.0.1 255.255.255.255 192.0.2.1 198.18.0.1 :: ::1 fe80::1 fec0::1 fe80::1%eth0
    fc00::1 fd00:ec2::254 ff02::1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::127.0.0.1 64:ff9b::7f00:1
    64:ff9b:1::1 2002:7f00:1:: 2001:db8::1 nonsense
"""


@pytest.mark.parametrize("address", OTHERS.split())
def test_other_addresses_do_not(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://example.org/", "not an http"),
        ("http://example.org:22/", "port 22"),
        ("http://127.0.0.1/", "private address"),
        ("http://localhost/", "private address"),
    ],
)
async def test_it_refuses(url: str, reason: str) -> None:
    with pytest.raises(PageFailed, match=reason):
        await get(url, GuardedTransport())


@pytest.mark.parametrize(
    ("host", "reason"),
    [("mixed.example", "private address"), ("nobody.example", "no known address")],
)
async def test_a_name_is_judged_by_every_address_it_has(host: str, reason: str) -> None:
    with pytest.raises(PageFailed, match=reason):
        await get(f"http://{host}/", GuardedTransport(resolve=leading_inside))


async def test_it_connects_to_the_address_that_was_checked(pages: PageServer) -> None:
    """A name that changes its address between check and connection gains nothing."""
    answers = [["127.0.0.1"]]

    async def resolve_once(host: str, port: int) -> Sequence[str]:
        return answers.pop()

    transport = GuardedTransport(
        allowed_private_hosts={f"rebinding.example:{pages.port}"}, resolve=resolve_once
    )
    response = await get(f"http://rebinding.example:{pages.port}/pages/bees", transport)
    assert response.status_code == 200
    assert pages.requests[0].headers["host"] == f"rebinding.example:{pages.port}"
    assert answers == []


async def test_a_private_host_is_allowed_by_name_and_port_only(pages: PageServer) -> None:
    allowed = GuardedTransport(allowed_private_hosts={pages.address})
    assert (await get(pages.page_url("bees"), allowed)).status_code == 200
    other_port = GuardedTransport(allowed_private_hosts={"127.0.0.1:9", "127.0.0.1"})
    with pytest.raises(PageFailed, match="port"):
        await get(pages.page_url("bees"), other_port)
    by_host = GuardedTransport(allowed_private_hosts={"127.0.0.1"})
    with pytest.raises(httpx.ConnectError):  # it may be asked, but nothing listens there
        await get("http://127.0.0.1/pages/bees", by_host)


async def test_resolving_does_not_hold_up_the_loop() -> None:
    async def slowly(host: str, port: int) -> Sequence[str]:
        await asyncio.sleep(30)
        return []

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await get("http://slow.example/", GuardedTransport(resolve=slowly))


class Connections:
    """Where this process connects to from now on, by the interpreter's own audit events."""

    def __init__(self) -> None:
        self.places: list[str] = []
        sys.addaudithook(self._hook)  # for good: the interpreter takes none back

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "socket.connect" and isinstance(args[1], tuple):
            self.places.append(f"{args[1][0]}:{args[1][1]}")


@pytest.fixture(scope="module")
def connections() -> Connections:
    return Connections()


async def leading_inside(host: str, port: int) -> Sequence[str]:
    """The system's reading of numbers; every name that is not in the list is loopback."""
    try:
        found = socket.getaddrinfo(host, port, flags=socket.AI_NUMERICHOST)
    except (socket.gaierror, UnicodeError):
        return ADDRESSES.get(host.rstrip("."), ["127.0.0.1"])
    return [str(place[0]) for *_, place in found]


async def passed(reader: PageReader, urls: Sequence[str]) -> list[tuple[str, object]]:
    """The URLs that are not refused, with what came instead."""
    found = list[tuple[str, object]]()
    for url in urls:
        try:
            found.append((url, await reader.download(url)))
        except PageFailed:
            continue
        except Exception as error:  # noqa: BLE001 -- whatever else it is, it is no refusal
            found.append((url, error))
    await reader.aclose()
    return found


async def test_no_form_of_a_private_url_is_connected_to(connections: Connections) -> None:
    assert len(PRIVATE_URLS) >= 92
    connections.places.clear()
    assert await passed(PageReader(resolve=leading_inside), PRIVATE_URLS) == []
    assert connections.places == []


async def test_no_redirect_to_one_is_followed(pages: PageServer, connections: Connections) -> None:
    reader = PageReader(allowed_private_hosts={pages.address}, resolve=leading_inside)
    urls = [f"{pages.url}/redirect?to={quote(url)}" for url in PRIVATE_URLS]
    connections.places.clear()
    assert await passed(reader, urls) == []
    assert len(connections.places) >= len(urls), "each redirect was fetched, and counted"
    assert set(connections.places) == {pages.address}
