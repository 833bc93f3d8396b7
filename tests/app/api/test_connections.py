"""Slow clients and too many of them: heads and bodies have their time, connections a number.

Bodies that are refused are read to their end.
"""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse

from app.api.connections import REFUSED_AT_ONCE, TimedHttp, connection_options
from app.api.middleware import BodyTimeout
from tests import fakes
from tests.app.serving import Serving, app_of, wait_until

HEAD_S = 0.4
ASK = b"POST /ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
LIVE = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
Connect = Callable[[], socket.socket]


class Hasty(TimedHttp):
    head_within_s = HEAD_S


@pytest.fixture(scope="module")
def hasty() -> Iterator[Serving]:
    """Waits for heads and bodies for a moment only."""
    app = app_of(fakes.services(fakes.FakeRetriever([fakes.passage("The tower is tall.")])))
    (body_timeout,) = (it for it in app.user_middleware if it.cls is BodyTimeout)
    body_timeout.kwargs["within_s"] = HEAD_S
    with Serving(app, http=Hasty) as serving:
        yield serving


@pytest.fixture
def connect(hasty: Serving) -> Iterator[Connect]:
    with ExitStack() as stack:

        def begin() -> socket.socket:
            address = ("127.0.0.1", hasty.port)
            return stack.enter_context(socket.create_connection(address, timeout=10))

        yield begin


def all_of(connection: socket.socket) -> bytes:
    """What comes until the server closes."""
    received = b""
    while chunk := connection.recv(65_536):
        received += chunk
    return received


def response_of(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received or not received.rstrip().endswith(b"}"):
        received += connection.recv(65_536)
    return received


def trickle(connection: socket.socket, what: bytes) -> bytes:
    """Sends a byte now and then until the server closes; what it said."""
    received = b""
    connection.settimeout(0.05)
    give_up_at = time.monotonic() + 10
    while time.monotonic() < give_up_at:
        try:
            connection.sendall(what)
            chunk = connection.recv(65_536)
        except TimeoutError:
            continue
        except OSError:
            return received
        if not chunk:
            return received
        received += chunk
    raise AssertionError("the server waits for ever")


def test_a_connection_that_says_nothing_is_closed(connect: Connect) -> None:
    began = time.monotonic()
    assert all_of(connect()) == b""
    assert time.monotonic() - began >= HEAD_S * 0.9


def test_a_head_that_trickles_is_given_up(connect: Connect) -> None:
    connection = connect()
    connection.sendall(b"GET /health/live HTTP/1.1\r\nX-Slow: ")
    assert trickle(connection, b"a") == b""


def test_so_is_the_next_head_of_a_kept_connection(connect: Connect) -> None:
    connection = connect()
    connection.sendall(LIVE)
    assert response_of(connection).startswith(b"HTTP/1.1 200")
    connection.sendall(b"GET /")
    assert trickle(connection, b"a") == b""


def test_a_body_that_does_not_come_is_408(connect: Connect) -> None:
    connection = connect()
    connection.sendall(ASK + b"Content-Length: 20\r\n\r\n{")
    response = all_of(connection)
    assert response.startswith(b"HTTP/1.1 408")
    assert b"connection: close" in response.lower()
    assert b"application/problem+json" in response
    assert b"did not arrive" in response


def test_a_body_that_trickles_is_408(connect: Connect) -> None:
    connection = connect()
    connection.sendall(ASK + b"Content-Length: 9000\r\n\r\n{")
    assert trickle(connection, b" ").startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    ("path", "more", "status"),
    [
        (b"/ask", b"", b"413"),
        (b"/nowhere", b"Transfer-Encoding: chunked\r\n", b"404"),
        (b"/ask", b"Origin: http://evil.example\r\n", b"403"),
    ],
)
def test_a_large_body_is_read_to_its_end_before_its_refusal_closes(
    connect: Connect, path: bytes, more: bytes, status: bytes
) -> None:
    size = 20_000_000
    is_chunked = b"chunked" in more
    connection = connect()
    connection.sendall(ASK.replace(b"/ask", path) + more + b"Connection: close\r\n")
    connection.sendall(b"\r\n%x\r\n" % size if is_chunked else b"Content-Length: %d\r\n\r\n" % size)
    connection.sendall(b"a" * size + b"\r\n0\r\n\r\n" * is_chunked)

    response = all_of(connection)
    assert response.startswith(b"HTTP/1.1 " + status)
    assert b"application/problem+json" in response
    assert response.endswith(b"}")


def test_what_trickles_on_after_a_refusal_is_given_up(connect: Connect) -> None:
    connection = connect()
    connection.sendall(ASK.replace(b"/ask", b"/nowhere") + b"Content-Length: 9000\r\n\r\n{")
    assert trickle(connection, b" ").startswith(b"HTTP/1.1 404")


def test_an_answer_may_take_longer_than_a_head(hasty: Serving, connect: Connect) -> None:
    async def slow(_: Request) -> JSONResponse:
        await asyncio.sleep(2 * HEAD_S)
        return JSONResponse({})

    hasty.app.add_route("/slow", slow)
    connection = connect()
    connection.sendall(LIVE.replace(b"/health/live", b"/slow"))
    assert response_of(connection).startswith(b"HTTP/1.1 200")


def test_beyond_the_connections_allowed_requests_are_turned_away() -> None:
    with ExitStack() as stack:
        serving = stack.enter_context(Serving(app_of(fakes.services()), **connection_options(3)))
        address = ("127.0.0.1", serving.port)
        held = [stack.enter_context(socket.create_connection(address)) for _ in range(3)]
        wait_until(lambda: len(serving.server.server_state.connections) == 3, 10)
        assert serving.client.get("/health/live").status_code == 503
        serving.client.close()

        crowd = [socket.create_connection(address) for _ in range(REFUSED_AT_ONCE + 10)]
        wait_until(lambda: len(serving.server.server_state.connections) > REFUSED_AT_ONCE, 10)
        time.sleep(0.2)
        assert len(serving.server.server_state.connections) <= 3 + REFUSED_AT_ONCE
        for connection in [*crowd, *held]:
            connection.close()
        wait_until(lambda: not serving.server.server_state.connections, 10)
