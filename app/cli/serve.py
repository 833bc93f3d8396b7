"""`selfcrag serve`, `ask` and `runs resume`: the service, and runs without it."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import typer
from pydantic import ValidationError
from rich.console import Console

from app.cli.ingest import ingest
from app.cli.terminal import RunPrinter, ends_at_failure, errors, fail
from app.composition.parts import Parts, open_parts
from app.errors import wrong_fields
from app.extension import load_extensions, settings_of
from app.main import DaemonThreads, serve
from app.runs.request import RunRequest
from app.schemas.ask import AnswerEvent, AskRequest, ErrorEvent
from app.settings import Settings, load_settings, unknown_settings
from app.storage.api_keys import Caller
from app.storage.database import open_engine
from app.storage.lifecycle import open_store
from graphs.options import DEFAULT_COLLECTION
from graphs.state import Question
from graphs.workflows.registry import WORKFLOWS


@asynccontextmanager
async def open_runs(settings: Settings, at_once: int = 1) -> AsyncIterator[Parts]:
    """What a command asks questions with, without the service. Raises ServiceError."""
    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    async with open_parts(settings, at_once) as parts:
        yield parts


def serve_until_stopped(
    host: str | None, port: int | None, paths: list[str], collection: str | None
) -> None:
    """`collection` is where the documents of `paths` go."""
    changed = {"host": host, "port": port}

    async def prepare() -> None:
        # What is wrong with the database is told before anything else is opened.
        async with open_engine(settings) as engine, open_store(settings, engine):
            pass
        if paths:
            await ingest(paths, settings, collection=collection or DEFAULT_COLLECTION)

    with ends_at_failure():
        chosen = {name: value for name, value in changed.items() if value is not None}
        settings = settings_told().model_copy(update=chosen)
        asyncio.run(serve(settings, lambda line: errors.print(line, style="bold green"), prepare))


def ask_once(
    question: str, workflow: str, pairs: list[str], collection: str | None, as_json: bool
) -> None:
    logging.basicConfig(level=logging.ERROR)
    try:
        request = AskRequest.model_validate(
            {
                "question": question,
                "workflow": workflow,
                "options": _options(pairs),
                "collection": collection,
            }
        )
    except ValidationError as error:
        fail(wrong_fields(error))
    if workflow not in WORKFLOWS:
        fail(f"unknown workflow {workflow!r}; there are: {', '.join(WORKFLOWS)}")
    with ends_at_failure():
        answered = asyncio.run(_ask(settings_told(), request, workflow, as_json))
    if not answered:
        raise typer.Exit(1)


async def _ask(settings: Settings, request: AskRequest, name: str, as_json: bool) -> bool:
    printer = RunPrinter(Console(), request.question)
    async with open_runs(settings) as opened:
        scope = await opened.collections.scope(Caller(), request.collection)
        question = Question(question=request.question)
        run = await opened.runs.start(RunRequest(name, question, request.options, scope))
        async for _, event in run.follow():
            if not as_json:
                printer.tell(event)
            elif isinstance(event, AnswerEvent | ErrorEvent):
                typer.echo(json.dumps(json.loads(event.data), ensure_ascii=False, indent=2))
    return run.response is not None


def resume_runs(run: str | None) -> None:
    logging.basicConfig(level=logging.ERROR)
    with ends_at_failure():
        resumed = asyncio.run(_resume(settings_told(), run))
    if run is not None and not resumed:
        fail(f"run {run} waits for nobody: it has ended, or a process is at work on it")
    typer.echo(f"{resumed} runs resumed", err=True)


async def _resume(settings: Settings, prefix: str | None) -> int:
    """How many: this run, or one after the other until none is left behind."""
    many = 0
    async with open_runs(settings) as opened:
        run_id = None if prefix is None else await opened.store.runs.find(prefix)
        while resumed := await opened.runs.take_over(1, run_id):
            many += 1
            for each in resumed:
                printer = RunPrinter(Console(), each.question["question"])
                async for _, event in each.follow():
                    printer.tell(event)
    return many


def _options(pairs: list[str]) -> dict[str, Any]:
    """`upper=0.5` as a number, `web=never` as text."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            fail(f"--option takes name=value, not {pair!r}")
        try:
            options[name.strip()] = json.loads(value)
        except json.JSONDecodeError:
            options[name.strip()] = value
    return options


def settings_told() -> Settings:
    """Those of the environment, with a line for each unknown one."""
    settings = load_settings(Settings)
    extensions = load_extensions(settings.extensions_off)
    for line in unknown_settings(settings_of(extensions)):
        errors.print(f"selfcrag: {line}", style="yellow", highlight=False, soft_wrap=True)
    return settings
