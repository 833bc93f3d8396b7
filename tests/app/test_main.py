"""The service's process: what blocks in its threads."""

import asyncio
import socket
import threading

import pytest

from app.main import DaemonThreads

# More than the threads that asyncio keeps for all that blocks, on any machine.
LOST = 40


def test_names_that_nobody_resolves_hold_up_neither_other_work_nor_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait())

    async def work() -> str:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(DaemonThreads())
        lost = [asyncio.create_task(loop.getaddrinfo("nowhere", 80)) for _ in range(LOST)]
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            done = await asyncio.to_thread(str, "done")
        for task in lost:
            task.cancel()
        await asyncio.wait(lost)
        return done

    before = set(threading.enumerate())
    assert asyncio.run(work()) == "done"
    hanging = set(threading.enumerate()) - before
    assert len(hanging) == LOST
    assert all(thread.daemon for thread in hanging), "the interpreter does not wait for them"
    answered.set()
