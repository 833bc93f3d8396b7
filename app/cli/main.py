"""`selfcrag`: serve, ask, ingest, runs, keys."""

import asyncio
import json
import logging
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console

from app.api.sse import payload
from app.cli.ingest import ingest_command
from app.cli.keys import keys
from app.cli.runs import runs_cli
from app.cli.terminal import RunPrinter, errors, fail
from app.composition.services import load_settings, open_services
from app.errors import ServiceError, StartFailed, wrong_fields
from app.main import DaemonThreads
from app.main import serve as serve_service
from app.runs.manager import Runs
from app.runs.option_checks import chosen
from app.schemas.ask import AnswerEvent, AskRequest, ErrorEvent
from app.settings import Settings, unknown_settings
from app.storage.database import open_engine
from app.storage.lifecycle import open_store
from graphs.state import Question
from graphs.workflows.registry import DEFAULT_WORKFLOW, WORKFLOWS

cli = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Answers questions and corrects itself."
)
cli.command("ingest")(ingest_command)
cli.add_typer(keys, name="keys")
cli.add_typer(runs_cli, name="runs")


@cli.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Instead of SELFCRAG_HOST.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Instead of SELFCRAG_PORT; 0: any free.")
    ] = None,
) -> None:
    """Answer over HTTP until stopped."""
    settings = _settings()
    changed = {"host": host, "port": port}
    settings = settings.model_copy(update={k: v for k, v in changed.items() if v is not None})
    try:
        asyncio.run(serve_service(settings, lambda line: errors.print(line, style="bold green")))
    except StartFailed as error:
        fail(str(error))


@cli.command()
def ask(
    question: Annotated[str, typer.Argument(help="The question, in English or Chinese.")],
    workflow: Annotated[str, typer.Option(help=f"One of {', '.join(WORKFLOWS)}.")] = (
        DEFAULT_WORKFLOW
    ),
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="A tunable as name=value; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
) -> None:
    """Ask one question here, without a running service, and watch the steps."""
    logging.basicConfig(level=logging.ERROR)
    try:
        request = AskRequest.model_validate(
            {"question": question, "workflow": workflow, "options": _options(option or [])}
        )
    except ValidationError as error:
        fail(wrong_fields(error))
    if workflow not in WORKFLOWS:
        fail(f"unknown workflow {workflow!r}; there are: {', '.join(WORKFLOWS)}")
    try:
        answered = asyncio.run(_ask(_settings(), request, as_json))
    except ServiceError as error:
        fail(str(error))
    if not answered:
        raise typer.Exit(1)


async def _ask(settings: Settings, request: AskRequest, as_json: bool) -> bool:
    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    printer = RunPrinter(Console(), request.question)
    name = request.workflow or DEFAULT_WORKFLOW
    async with (
        open_services(settings) as services,
        open_engine(settings) as engine,
        open_store(settings, engine) as store,
    ):
        options = chosen(request.options, settings.preset, services)
        runs = Runs({name: WORKFLOWS[name].build(services)}, services, 1, store)
        try:
            run = await runs.start(name, Question(question=request.question), options)
            async for _, event in run.follow():
                if not as_json:
                    printer.tell(event)
                elif isinstance(event, AnswerEvent | ErrorEvent):
                    typer.echo(json.dumps(payload(event), ensure_ascii=False, indent=2))
        finally:
            await runs.aclose()
    return run.response is not None


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


def _settings() -> Settings:
    try:
        settings = load_settings()
    except StartFailed as error:
        fail(str(error))
    for line in unknown_settings():
        errors.print(f"selfcrag: {line}", style="yellow", highlight=False, soft_wrap=True)
    return settings


def main() -> None:
    cli()
