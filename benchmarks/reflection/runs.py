"""Runs of the workflows on the handbook, in this process, from the question to the answer."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.composition.services import open_services
from app.ingest.pipeline import ingest
from app.retrieval.embedder import StaticEmbedder
from app.retrieval.index import open_index
from app.retrieval.tokenizer import Segmenter
from app.runs.manager import Runs
from app.runs.request import RunRequest
from app.schemas.ask import AnswerEvent, AskResponse, ErrorEvent
from app.settings import Settings
from benchmarks.report import DOCS
from graphs.options import Scope
from graphs.ports import Services
from graphs.state import Context, Question
from graphs.types import Passage
from graphs.workflows.registry import WORKFLOWS

PATIENT_MS = 600_000
"""A run that ended at its deadline would tell of a busy machine, not of the workflow."""


class RunFailed(Exception):
    """A run ended without an answer."""


@dataclass(frozen=True)
class Told:
    """An answer, the seconds until it was there, and the passages of the run."""

    response: AskResponse
    elapsed_s: float
    passages: Sequence[Passage] = ()


class Asker:
    """Asks one question after another."""

    def __init__(self, services: Services, most: int) -> None:
        self.services = services
        graphs = {name: workflow.build(services) for name, workflow in WORKFLOWS.items()}
        self._runs = Runs(graphs, services, most)

    async def ask(
        self, workflow: str, question: str, passages: Sequence[Passage] = (), **options: Any
    ) -> Told:
        """From these passages, if any, in place of the knowledge base. Raises RunFailed."""
        started = time.perf_counter()
        context = Context(**{"deadline_ms": PATIENT_MS, **options})
        asked = Question(question=question)
        if passages:
            asked["passages"] = list(passages)
        run = await self._runs.start(RunRequest(workflow, asked, context, Scope()))
        told: AskResponse | None = None
        elapsed_s = 0.0
        async for _, event in run.follow():
            match event:
                case AnswerEvent():
                    told, elapsed_s = event.response, time.perf_counter() - started
                case ErrorEvent():
                    raise RunFailed(f"{workflow}: {question}: {event.problem.detail}")
        if told is None or told.stopped_by == "deadline":
            raise RunFailed(f"{workflow}: {question}: no answer before the deadline")
        return Told(told, elapsed_s, run.passages)


@asynccontextmanager
async def asker(
    data_dir: Path, changed: Callable[[Services], Services] = lambda same: same, **settings: Any
) -> AsyncIterator[Asker]:
    """The service's default parts over `data_dir`, the web off unless `changed` brings one."""
    chosen = Settings(**{"data_dir": data_dir, "search": "off", **settings})
    async with open_services(chosen) as services:
        yield Asker(changed(services), chosen.max_runs)


async def read_handbook(data_dir: Path, pages: Path = DOCS) -> int:
    """Ingests the pages as `selfcrag ingest docs` does; the number of documents."""
    segmenter = Segmenter(data_dir / "cache")
    index = await open_index(data_dir / "index", StaticEmbedder(segmenter))
    return len((await ingest([pages], index, segmenter)).added)
