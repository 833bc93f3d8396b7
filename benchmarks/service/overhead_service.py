"""The service in a process of its own, over parts of a set pace; routes beside it look inside.

    python -m benchmarks.service.overhead_service FOLDER

Serves on a free port of loopback, with the event loop and the parser of HTTP that `make run`
installs, and writes the port to FOLDER/port once it listens.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import uvicorn
from fastapi import APIRouter, FastAPI
from pydantic import BaseModel

from app.main import Server, create_app, listen
from app.runs.manager import Runs
from app.runs.request import RunRequest
from app.settings import Settings
from app.storage.lifecycle import Store
from benchmarks.service.overhead_parts import PORT, QUESTION, Pace, paced_services
from graphs.options import Scope
from graphs.ports import Services
from graphs.state import Context, Question
from graphs.workflows.registry import DEFAULT_WORKFLOW, Graph

Way = Literal["ainvoke", "astream", "run", "kept run"]
SETTLED_S = 0.2
"""Longer than the recorder waits for a batch, so that what a block caused counts as its own."""


class Load(BaseModel):
    """How often, and with which options."""

    times: int
    options: dict[str, Any]


class Inside:
    """The graph run without the service, or with less and less of it left out."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app

    async def run(self, way: Way, load: Load) -> float:
        """Seconds of CPU time of this process, all threads, for all of the runs together."""
        ways: dict[Way, Callable[[Context], Awaitable[None]]] = {
            "ainvoke": self._ainvoke,
            "astream": self._astream,
            "run": self._unkept,
            "kept run": self._kept,
        }
        context = Context(**load.options)
        began_s = await self.cpu_s()
        for _ in range(load.times):
            await ways[way](context)
        return await self.cpu_s() - began_s

    async def cpu_s(self) -> float:
        """Of this process until now, when nothing is left to be written."""
        store: Store = self._app.state.store
        await asyncio.sleep(SETTLED_S)
        await store.writer.flush()
        return time.process_time()

    @property
    def _graph(self) -> Graph:
        graph: Graph = self._app.state.graphs[DEFAULT_WORKFLOW]
        return graph

    async def _ainvoke(self, context: Context) -> None:
        await self._graph.ainvoke(Question(question=QUESTION), context=context)

    async def _astream(self, context: Context) -> None:
        stream = self._graph.astream(
            Question(question=QUESTION),
            context=context,
            stream_mode=["tasks", "custom", "values"],
            subgraphs=True,
            version="v2",
        )
        async for _ in stream:
            pass

    async def _unkept(self, context: Context) -> None:
        state = self._app.state
        await self._followed(Runs(state.graphs, state.services, most=1), context)

    async def _kept(self, context: Context) -> None:
        await self._followed(self._app.state.runs, context)

    async def _followed(self, runs: Runs, context: Context) -> None:
        run = await runs.start(
            RunRequest(DEFAULT_WORKFLOW, Question(question=QUESTION), context, Scope())
        )
        async for _ in run.follow():
            pass
        await runs.cancel(run)


def routes(app: FastAPI, pace: Pace) -> APIRouter:
    router, inside = APIRouter(prefix="/inside"), Inside(app)

    @router.get("/cpu")
    async def cpu() -> float:
        return await inside.cpu_s()

    @router.post("/runs/{way}")
    async def run(way: Way, load: Load) -> float:
        return await inside.run(way, load)

    @router.put("/pace")
    async def set_pace(seconds: dict[str, float]) -> None:
        pace.seconds, pace.began_at_s, pace.let_go_at_s = seconds, [], []

    @router.get("/waiting")
    async def waiting() -> int:
        """Calls of parts that go on."""
        return len(pace.began_at_s) - len(pace.let_go_at_s)

    @router.get("/end")
    async def end() -> dict[str, float]:
        """When the last call was let go, and when no run was under way any more."""
        runs: Runs = app.state.runs
        while runs._tasks:  # noqa: ASYNC110 - runs tell nobody that they have gone
            await asyncio.sleep(0.001)
        ended_at_s = time.perf_counter()
        return {"let_go_at_s": max(pace.let_go_at_s), "ended_at_s": ended_at_s}

    return router


async def serve(folder: Path) -> None:
    pace = Pace()

    @asynccontextmanager
    async def parts(_: Settings) -> AsyncIterator[Services]:
        yield paced_services(pace)

    app = create_app(Settings(_env_file=None, data_dir=folder), parts)
    app.include_router(routes(app, pace))
    with listen("127.0.0.1", 0) as bound:
        config = uvicorn.Config(app, log_level="info", loop="asyncio", http="h11")
        port = str(bound.getsockname()[1])
        await asyncio.to_thread((folder / PORT).write_text, port, encoding="utf-8")
        await Server(config, app, runs_end_within_s=3).serve(sockets=[bound])


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
