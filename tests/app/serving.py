"""The service under real HTTP: uvicorn on a free port of loopback, in a thread of its own."""

import json
import socket
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx
import uvicorn
from fastapi import FastAPI

from app.composition.parts import Source
from app.main import Server, create_app
from app.runs.manager import Runs
from app.settings import Settings
from graphs.ports import Services

WAIT_S = 10.0
# Opening index and evaluator takes seconds on a busy machine.
START_S = 60.0
# A damaged database may hold its closing up for as long as a lock is waited for.
END_S = 30.0
RUNS_END_WITHIN_S = 0.2
BEGINNING = ("prepare", "decide_retrieval", "retrieve", "search")
"""Steps that every crag run begins with."""


@dataclass(frozen=True)
class Sent:
    """One server-sent event, and when it was read."""

    name: str
    number: int
    data: dict[str, Any]
    at_s: float


class Serving:
    """A context manager around an app; `client` speaks to it, `runs_under_way` looks inside.

    `options` are those of uvicorn.
    """

    def __init__(self, app: FastAPI, **options: Any) -> None:
        self.app, self._options = app, options

    def __enter__(self) -> Self:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        options = {"log_level": "critical", "timeout_graceful_shutdown": 4, **self._options}
        config = uvicorn.Config(self.app, **options)
        self.server = Server(config, self.app, runs_end_within_s=RUNS_END_WITHIN_S)
        self._thread = threading.Thread(
            target=self.server.run, kwargs={"sockets": [self._socket]}, daemon=True
        )
        self._thread.start()
        wait_until(lambda: self.server.started or not self._thread.is_alive(), START_S)
        assert self.server.started, "the service did not start"
        self.client = httpx.Client(base_url=self.url, timeout=WAIT_S, trust_env=False, verify=False)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.stop()
        self._socket.close()

    def stop(self) -> float:
        """Ends the server; the seconds it took."""
        started = time.perf_counter()
        self.server.should_exit = True
        self._thread.join(END_S)
        assert not self._thread.is_alive(), "the service did not end"
        return time.perf_counter() - started

    def ask(self, question: str, **fields: Any) -> dict[str, Any]:
        """The JSON answer, which must be one."""
        response = self.client.post("/ask", json={"question": question, **fields})
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def stream(self, question: str, **fields: Any) -> list[Sent]:
        """All events of a run."""
        with self.following(question, **fields) as live:
            return list(live)

    @contextmanager
    def following(self, question: str, **fields: Any) -> Iterator[Iterator[Sent]]:
        """The events of a run as they come; the client leaves with the block."""
        body = {"question": question, "stream": True, **fields}
        with self.client.stream("POST", "/ask", json=body) as response:
            assert response.status_code == 200, response.read()
            yield events_of(response)

    def runs_under_way(self) -> int:
        runs: Runs = self.app.state.runs
        return len(runs._tasks)


def has_cancelled(serving: Serving) -> bool:
    """Whether every run was cancelled, of which there are some."""
    runs = serving.client.get("/runs").json()["runs"]
    return {run["status"] for run in runs} == {"cancelled"}


Serve = Callable[..., Serving]
"""The fixture `serve`: takes parts and settings."""


def events_of(response: httpx.Response) -> Iterator[Sent]:
    """The events of a response as they arrive, comments left out."""
    block: dict[str, str] = {}
    for line in response.iter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            block[name] = value
        elif block:
            data = json.loads(block["data"])
            yield Sent(block["event"], int(block["id"]), data, time.perf_counter())
            block = {}


def shown(events: list[Sent]) -> str:
    """Each round's text, without what was retracted of it."""
    rounds: dict[int, str] = {}
    for event in events:
        if event.name == "token":
            assert event.data["text"]
            rounds[event.data["round"]] = rounds.get(event.data["round"], "") + event.data["text"]
        elif event.name == "retract":
            assert rounds.pop(event.data["round"]), "what nobody heard is not retracted"
    return "".join(rounds.values())


GONE_WITHIN_S = 10.0
"""A part of `tests.app.slow` waits for 30 s: what is gone sooner was ended, on a busy machine too.

The contract promises 100 ms; how long it takes is measured in benchmarks/overhead.md.
"""


def wait_until(holds: Callable[[], bool], timeout_s: float) -> float:
    """The seconds until `holds()`; fails the test after `timeout_s`."""
    started = time.perf_counter()
    while not holds():
        assert time.perf_counter() - started < timeout_s, "waited in vain"
        time.sleep(0.002)
    return time.perf_counter() - started


def app_of(services: Services, settings: Settings | None = None) -> FastAPI:
    """The service around these parts; its state goes with it unless the settings place it."""
    chosen = settings or Settings(_env_file=None)
    if "data_dir" in chosen.model_fields_set:
        return create_app(chosen, _only(services))
    state = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    return create_app(
        chosen.model_copy(update={"data_dir": Path(state.name)}), _only(services, state)
    )


def _only(services: Services, state: AbstractContextManager[object] | None = None) -> Source:
    @asynccontextmanager
    async def source(_: Settings) -> AsyncIterator[Services]:
        with state or nullcontext():
            yield services
            for model in (services.chat, services.fallback):
                if close := getattr(model, "aclose", None):
                    await close()

    return source
