"""Parsers led astray, as processes of the sandbox run them; light to import."""

import os
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from app.ingest import sandbox
from app.ingest.sandbox import ParserProcess, ParseTask, Row, answer_tasks


def spins(connection: Connection, _: Path) -> None:
    def read(_: ParseTask) -> Iterator[list[Row]]:
        while True:
            pass
        yield []

    sandbox.CPU_S = 1
    sandbox.limit_process()
    answer_tasks(connection, read)


def bloats(connection: Connection, _: Path) -> None:
    def read(_: ParseTask) -> Iterator[list[Row]]:
        yield [{"": bytes(1_000_000)} for _ in range(10_000)]

    sandbox.MEMORY_BYTES = 600_000_000
    sandbox.limit_process()
    answer_tasks(connection, read)


def waits(_: Connection, __: Path) -> None:
    sandbox.limit_process()
    time.sleep(600)


def orphan() -> None:
    """Starts a parser process, tells its id and dies."""
    parser = ParserProcess(Path(), waits)
    os.write(1, str(parser.process.pid).encode())
    time.sleep(0.5)  # it is at work
    os.kill(os.getpid(), 9)
