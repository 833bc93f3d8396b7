"""The commands of `selfcrag`: what each takes and says of itself.

What a command does is imported when it is called, so that help and mistakes are told at once.
"""

from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli.interrupt import interruptible
from app.cli.options import Collection

cli = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Answers questions and corrects itself."
)
keys_cli = typer.Typer(no_args_is_help=True, help="API keys of the service.")
runs_cli = typer.Typer(no_args_is_help=True, help="Show, rate and export stored runs.")
cli.add_typer(keys_cli, name="keys")
cli.add_typer(runs_cli, name="runs")

AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]
Owner = Annotated[str, typer.Argument(help="Owner of the key: letters, digits and . _ @ + -")]


RunId = Annotated[str, typer.Argument(help="Id of a run, or its beginning.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Most runs to list.")]


@cli.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Instead of SELFCRAG_HOST.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Instead of SELFCRAG_PORT; 0: any free.")
    ] = None,
    ingest: Annotated[
        list[str] | None,
        typer.Option(help="Files or folders to ingest first."),
    ] = None,
    collection: Collection = None,
) -> None:
    """Start the service in the foreground."""
    from app.cli.serve import serve_until_stopped

    summary = "runs under way have ended; documents, runs and conversations are kept"
    with interruptible(summary):
        serve_until_stopped(host, port, ingest or [], collection)
    typer.echo(f"selfcrag: stopped; {summary}", err=True)


@cli.command()
def ask(
    question: Annotated[str, typer.Argument(help="The question, in English or Chinese.")],
    workflow: Annotated[
        str, typer.Option(help="One of rag, crag, self_rag, self_crag.")
    ] = "self_crag",
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="Option of the run as name=value; may be repeated."),
    ] = None,
    collection: Collection = None,
    as_json: AsJson = False,
) -> None:
    """Answer one question without a running service, and show the steps."""
    from app.cli.serve import ask_once

    with interruptible("the question was not answered"):
        ask_once(question, workflow, option or [], collection, as_json)


@cli.command()
def ingest(
    paths: Annotated[
        list[str] | None,
        typer.Argument(help="Files, folders, patterns such as `docs/**/*.md`, and URLs."),
    ] = None,
    prune: Annotated[
        bool, typer.Option(help="Remove documents of these paths whose file is gone or refused.")
    ] = False,
    renew: Annotated[
        bool, typer.Option("--reindex", help="Rebuild the index of the stored documents first.")
    ] = False,
    ray: Annotated[bool, typer.Option("--ray", help="Read files on a Ray cluster.")] = False,
    collection: Collection = None,
    data_dir: Annotated[Path | None, typer.Option(help="Instead of SELFCRAG_DATA_DIR.")] = None,
) -> None:
    """Add documents to the knowledge base; unchanged ones are skipped."""
    if not paths and not renew:
        raise typer.BadParameter("name a file, a folder or a URL to read, or --reindex")
    from app.cli.ingest import ingest_paths

    with interruptible("documents read so far are kept, and a repeat goes on from there"):
        ingest_paths(paths or [], data_dir, collection, prune=prune, renew=renew, on_cluster=ray)


@cli.command("prompts")
def word_rows(
    file: Annotated[Path, typer.Argument(help="Rows of question, passages and answer.")],
    out: Annotated[Path, typer.Argument(help="A new file of JSON lines.", dir_okay=False)],
) -> None:
    """Write rows for tuning a generator as the chat messages of the service."""
    from app.cli.generator_rows import write_prompts

    with interruptible("the file may not be whole"):
        write_prompts(file, out)


@keys_cli.command("add")
def add_key(
    owner: Owner,
    name: Annotated[str, typer.Option(help="What the key is for.")] = "",
    scope: Annotated[
        list[str] | None,
        typer.Option(help="ask, documents or metrics; may be repeated; left out: all."),
    ] = None,
    collection: Annotated[
        list[str] | None,
        typer.Option(
            help="Limit the key to this collection; may be repeated, the first is the default."
        ),
    ] = None,
) -> None:
    """Make a key and print it once."""
    from app.cli import keys

    with interruptible("`selfcrag keys list` shows whether the key was made"):
        keys.add(owner, name, scope, collection)


@keys_cli.command("list")
def list_keys() -> None:
    """List the keys by id, owner and scope; the secrets are not stored."""
    from app.cli import keys

    with interruptible("nothing was changed"):
        keys.list_all()


@keys_cli.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(help="Id from `selfcrag keys list`.")],
) -> None:
    """Revoke a key; every process refuses it within a second."""
    from app.cli import keys

    with interruptible("`selfcrag keys list` shows whether the key was revoked"):
        keys.revoke(key_id)


@keys_cli.command("ensure")
def ensure_key(owner: Owner) -> None:
    """Make and print a first key, unless there is a key already."""
    from app.cli import keys

    with interruptible("`selfcrag keys list` shows whether the key was made"):
        keys.ensure(owner)


@runs_cli.command("list")
def list_runs(limit: Limit = 20) -> None:
    """List the latest runs of all owners, newest first."""
    from app.cli import runs

    with interruptible("nothing was changed"):
        runs.list_latest(limit)


@runs_cli.command("show")
def show_run(run: RunId, as_json: AsJson = False) -> None:
    """Show a stored run step by step."""
    from app.cli import runs

    with interruptible("nothing was changed"):
        runs.show(run, as_json)


@runs_cli.command("diff")
def compare_runs(first: RunId, second: RunId, as_json: AsJson = False) -> None:
    """Compare two runs."""
    from app.cli import runs

    with interruptible("nothing was changed"):
        runs.compare(first, second, as_json)


@runs_cli.command("resume")
def resume(
    run: Annotated[
        str | None, typer.Argument(help="Id of a run, or its beginning; left out: all.")
    ] = None,
) -> None:
    """Continue runs whose process was killed from their last checkpoint, without a service."""
    from app.cli.serve import resume_runs

    with interruptible("runs that have not ended go on at the next start of the service"):
        resume_runs(run)


@runs_cli.command("feedback")
def judge_run(
    run: RunId,
    score: Annotated[
        float, typer.Argument(help="From -1, wrong or useless, to 1, right and useful.")
    ],
    comment: Annotated[str | None, typer.Option(help="Reason, in words.")] = None,
    corrected_answer: Annotated[str | None, typer.Option(help="The right answer.")] = None,
) -> None:
    """Rate the answer of a run. A score below 0 goes behind `--`."""
    from app.cli import runs

    with interruptible("`selfcrag runs show` tells whether the feedback was kept"):
        runs.judge(run, score, comment, corrected_answer)


@runs_cli.command("export")
def export_feedback(
    file: Annotated[Path, typer.Argument(help="A new file of JSON lines.", dir_okay=False)],
    reader: Annotated[
        Literal["evaluator", "generator"], typer.Option("--for", help="What the rows are for.")
    ] = "evaluator",
) -> None:
    """Write all feedback as rows for `selfcrag-evaluator train`, `calibrate` or `tune`."""
    from app.cli import runs

    with interruptible("the file may not be whole"):
        runs.export(file, reader)


for command in sorted(entry_points(group="selfcrag.commands"), key=lambda entry: entry.name):
    cli.command(command.name)(command.load())
