"""Fault injection: a TCP proxy on loopback before a server of HTTP/1.1, in a thread of its own."""

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Literal, Self

Fault = Literal[
    "none", "hangs", "refuses", "resets", "status 500", "status 429", "garbage", "slow drip"
]
"""hangs: takes the request and never answers. refuses: nobody listens. resets: RST amid the answer.
garbage: by turns no JSON and JSON of another schema. slow drip: the answer's body, a byte a second.
"""
RETRY_AFTER_S = 20
"""Of the answers with status 429: longer than a run that asks has."""
DRIP_S = 1.0
START_S = 10.0
GARBAGE = (b'{"choices": [{"mess', b'{"answer": {"to": "everything", "is": 42}}')
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class FaultProxy:
    """A context manager; `requests` counts those that arrived, whatever became of them.

    Every answer closes its connection, so that a fault meets each request from then on.
    """

    def __init__(self, upstream_port: int = 0) -> None:
        """`upstream_port` may be told later, before the first request."""
        self.upstream_port, self.requests = upstream_port, 0
        self._fault: Fault = "none"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.address}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_S)
        self._loop.close()

    def inject(self, fault: Fault) -> None:
        """From now on, with the count at 0."""
        self._fault, self.requests = fault, 0
        self._call(self._close() if fault == "refuses" else self._listen())

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(START_S)

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._answer, "127.0.0.1", self.port)

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            await asyncio.sleep(0)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            request = await _message(reader)
            self.requests += 1
            left = asyncio.ensure_future(reader.read())
            work = asyncio.ensure_future(self._reply(request, writer))
            await asyncio.wait({left, work}, return_when=asyncio.FIRST_COMPLETED)
            for task in (left, work):
                task.cancel()
            await asyncio.gather(left, work, return_exceptions=True)
        with suppress(OSError):
            writer.close()

    async def _reply(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        match self._fault:
            case "hangs":
                await asyncio.Event().wait()
            case "status 500":
                writer.write(_plain("500 Internal Server Error", b'{"error": "out of order"}'))
            case "status 429":
                refusal = b'{"error": "too many requests"}'
                retry_after = f"Retry-After: {RETRY_AFTER_S}\r\n"
                writer.write(_plain("429 Too Many Requests", refusal, retry_after))
            case "garbage":
                writer.write(_plain("200 OK", GARBAGE[self.requests % len(GARBAGE)]))
            case "resets":
                head, _, body = (await self._upstream(request)).partition(b"\r\n\r\n")
                writer.write(head + b"\r\n\r\n" + body[: len(body) // 2])
                await writer.drain()
                connection = writer.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                writer.transport.abort()
            case "slow drip":
                head, _, body = (await self._upstream(request)).partition(b"\r\n\r\n")
                writer.write(head + b"\r\n\r\n")
                for place in range(len(body)):
                    writer.write(body[place : place + 1])
                    await writer.drain()
                    await asyncio.sleep(DRIP_S)
            case _:
                writer.write(await self._upstream(request))
        await writer.drain()

    async def _upstream(self, request: bytes) -> bytes:
        """The whole answer of the server behind."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.upstream_port)
        try:
            writer.write(request)
            await writer.drain()
            return await reader.read()
        finally:
            writer.close()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """A request with its body, made to close its connection."""
    lines = (await reader.readuntil(b"\r\n\r\n")).rstrip().split(b"\r\n")
    fields = [line for line in lines if not line.lower().startswith(b"connection:")]
    lengths = [line for line in fields if line.lower().startswith(b"content-length:")]
    length = int(lengths[0].partition(b":")[2]) if lengths else 0
    body = await reader.readexactly(length)
    return b"\r\n".join([*fields, b"Connection: close", b"", body])


def _plain(status: str, body: bytes, fields: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n{fields}\r\n"
    )
    return head.encode() + body
