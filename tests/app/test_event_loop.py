"""Names that nobody answers for hold up nothing but those who asked for them."""

import asyncio
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from app.event_loop import MOST_LOOK_UPS, EventLoop, run
from app.websearch.engines import WikipediaSearch
from app.websearch.page import PageReader
from app.websearch.ssrf_guard import PageFailed
from graphs.errors import SearchFailed
from tests.app.processes import BIN, environment

# More than the threads that asyncio keeps for all that blocks, on any machine.
LOST = 40


def test_silence_holds_up_neither_other_work_nor_the_end() -> None:
    answered = threading.Event()

    def silent(*_: Any, **__: Any) -> list[Any]:
        answered.wait()
        return []

    async def work() -> str:
        lost = [asyncio.create_task(loop.getaddrinfo("nowhere", 80)) for _ in range(LOST)]
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            done = await asyncio.to_thread(str, "done")
        for task in lost:
            task.cancel()
        await asyncio.wait(lost)
        return done

    loop = EventLoop(silent)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert runner.run(work()) == "done"
    answered.set()


def test_those_beyond_the_bound_wait_and_are_answered() -> None:
    under_way: list[int] = []
    most = 0

    def slow(*_: Any, **__: Any) -> list[Any]:
        nonlocal most
        under_way.append(1)
        most = max(most, len(under_way))
        threading.Event().wait(0.01)
        under_way.pop()
        return ["found"]

    async def ask() -> list[Any]:
        asked = (loop.getaddrinfo("name", 80) for _ in range(2 * MOST_LOOK_UPS))
        return await asyncio.gather(*asked)

    loop = EventLoop(slow)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        assert runner.run(ask()) == [["found"]] * 2 * MOST_LOOK_UPS
    assert most <= MOST_LOOK_UPS


def test_addresses_and_errors_are_those_of_the_system() -> None:
    async def look_up(host: str) -> list[Any]:
        return await asyncio.get_running_loop().getaddrinfo(host, 80, type=socket.SOCK_STREAM)

    assert run(look_up("127.0.0.1")) == socket.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)
    with pytest.raises(UnicodeError):
        run(look_up("a" * 64 + ".example"))


def test_without_a_thread_left_searches_and_pages_fail_as_they_do_without_a_network() -> None:
    async def work() -> None:
        search, reader = WikipediaSearch(api_url="https://wiki.example/api"), PageReader()
        with pytest.raises(SearchFailed, match="could not be reached"):
            await search.search("灯塔", 3)
        with pytest.raises(PageFailed, match="no known address"):
            await reader.read("https://page.example/灯塔")
        await search.aclose()
        await reader.aclose()

    before = threading.stack_size(1 << 46)  # more than any system gives a thread
    try:
        run(work())
    finally:
        threading.stack_size(before)


def test_a_question_ends_though_the_search_engine_has_no_address(
    tmp_path: Path, data_dir: Path
) -> None:
    """A program that waited for the look-up's thread would never end."""
    (tmp_path / "sitecustomize.py").write_text(
        "import socket, time\n"
        "known = socket.getaddrinfo\n"
        "def silent(host, *more, **named):\n"
        "    if 'wikipedia' in str(host): time.sleep(3600)\n"
        "    return known(host, *more, **named)\n"
        "socket.getaddrinfo = silent\n"
    )
    asked = subprocess.run(
        [
            str(BIN / "selfcrag"),
            "ask",
            "Who painted the ceiling of the old opera in Ulm?",
            "--json",
        ],
        env=environment(data_dir=data_dir) | {"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    assert "did not answer in time" in asked.stdout
