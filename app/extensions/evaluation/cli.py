"""`selfcrag evaluate`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from app.cli.interrupt import interruptible
from app.cli.options import Collection


def evaluate(
    questions: Annotated[
        Path, typer.Argument(help="JSON lines or CSV: question, answers, sources, answerable.")
    ],
    variant: Annotated[
        list[str] | None,
        typer.Option(
            "--variant",
            "-v",
            help="What to compare, as name=workflow:option=value,…; may be repeated. The"
            " others are compared with the first. Left out: rag, crag, self_crag.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for report.html and results.json.", file_okay=False)
    ] = Path("evaluation"),
    judge: Annotated[
        str, typer.Option(help="Judge of the answers: evaluator, model (language model) or none.")
    ] = "evaluator",
    baseline: Annotated[
        Path | None,
        typer.Option(help="An older results.json: exit code 3 where a measure is worse."),
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Propose thresholds for the last variant.")
    ] = False,
    make: Annotated[
        int | None,
        typer.Option(
            min=1, max=1000, help="Write this many questions from the documents to QUESTIONS first."
        ),
    ] = None,
    label: Annotated[
        bool,
        typer.Option(
            "--label",
            help="Ask for questions and which passage answers each; append them to QUESTIONS.",
        ),
    ] = False,
    collection: Collection = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the evaluation; left out: the file's.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Use this many questions only.")] = None,
    parallel: Annotated[int, typer.Option(min=1, max=64, help="Answers at a time.")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the intervals' resampling.")] = 0,
    language: Annotated[
        Literal["en", "zh"] | None,
        typer.Option(help="Language of the report; left out: that of most questions."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before calls to models.")] = False,
) -> None:
    """Measure answers on your own questions and documents, variants side by side."""
    from app.extensions.evaluation import command as command

    with interruptible("answers so far are kept, and the same command goes on from there"):
        if make is not None:
            command.make_questions(questions, make, collection)
            return
        if label:
            command.label_by_hand(questions, collection)
            return
        request = command.request_of(
            questions,
            limit,
            variant or (),
            name=name or questions.stem,
            judge=judge,
            collection=collection,
            seed=seed,
        )
        report = command.evaluated(request, baseline, parallel, calibrates=calibrate, confirmed=yes)
        command.write(report, out, language)
