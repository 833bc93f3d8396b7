"""`selfcrag runs resume`: runs that their process has left behind, ended without a service."""

import asyncio
import logging

import typer
from rich.console import Console

from app.cli.terminal import RunPrinter, fail
from app.composition.services import open_services
from app.errors import ServiceError
from app.main import DaemonThreads
from app.observability.tracing import set_tracing
from app.runs.manager import Runs
from app.settings import Settings, load_settings
from app.storage.database import open_engine
from app.storage.lifecycle import open_store
from graphs.workflows.registry import WORKFLOWS


def resume(run: str | None) -> None:
    logging.basicConfig(level=logging.ERROR)
    try:
        resumed = asyncio.run(_resume(load_settings(Settings), run))
    except ServiceError as error:
        fail(str(error))
    if run is not None and not resumed:
        fail(f"run {run} waits for nobody: it has ended, or a process is at work on it")
    typer.echo(f"{resumed} runs resumed", err=True)


async def _resume(settings: Settings, prefix: str | None) -> int:
    """How many: this run, or one after the other until none is left behind."""
    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    set_tracing(settings.langsmith)
    many = 0
    async with (
        open_services(settings) as services,
        open_engine(settings) as engine,
        open_store(settings, engine) as store,
    ):
        run_id = None if prefix is None else await store.runs.find(prefix)
        graphs = {name: workflow.build(services) for name, workflow in WORKFLOWS.items()}
        runs = Runs(graphs, services, 1, store, preset=settings.preset)
        try:
            while resumed := await runs.take_over(1, run_id):
                many += 1
                for each in resumed:
                    printer = RunPrinter(Console(), each.question["question"])
                    async for _, event in each.follow():
                        printer.tell(event)
        finally:
            await runs.aclose()
    return many
