"""`selfcrag evaluate`: a question set over the user's own documents, measured and reported."""

import asyncio
import json
import logging
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import typer
from pydantic import ValidationError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from app.cli.serve import open_runs, settings_told
from app.cli.terminal import ends_at_failure, errors, fail, text_of
from app.errors import InvalidRequest, wrong_fields
from app.extensions.evaluation.calibration import MIN_QUESTIONS, Proposal
from app.extensions.evaluation.first_questions import first_questions
from app.extensions.evaluation.jobs import EvaluationJobs
from app.extensions.evaluation.labelling import label_questions, what_next
from app.extensions.evaluation.questions import EvaluationQuestion, read_questions
from app.extensions.evaluation.report import EvaluationReport
from app.extensions.evaluation.runner import EvaluationRequest, model_calls
from app.retrieval.index import StoredCollection
from app.retrieval.retriever import HybridRetriever
from app.storage.api_keys import Caller
from graphs.errors import RetrieverFailed
from graphs.options import Scope
from graphs.ports import Services
from graphs.types import Language

_COMMA = re.compile(r",(?![^\[]*\])")
"""Between options, not within a list such as `["hyde","rewrite"]`."""
REGRESSED = 3
"""The exit code where a measure is worse than the baseline beyond chance."""
T = TypeVar("T")


def request_of(
    file: Path, limit: int | None, variants: Sequence[str], **fields: str | int | None
) -> EvaluationRequest:
    """The first `limit` questions of a file, and what the command line says of the evaluation."""
    given: dict[str, Any] = {**fields, "questions": _questions_in(text_of(file), file)[:limit]}
    if variants:
        given["variants"] = [_variant(text) for text in variants]
    try:
        return EvaluationRequest.model_validate(given)
    except ValidationError as error:
        fail(wrong_fields(error))


def evaluated(
    request: EvaluationRequest,
    baseline: Path | None,
    parallel: int,
    *,
    calibrates: bool,
    confirmed: bool,
) -> EvaluationReport:
    """Asks all questions; calls of a language model wait for the user's yes unless `confirmed`."""
    before = None if baseline is None else _results_in(baseline)

    async def reported(jobs: EvaluationJobs, scope: Scope) -> EvaluationReport:
        _confirm(request, jobs.services, confirmed)
        columns = (TextColumn("answers"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=errors, transient=True) as bar:
            task = bar.add_task("answers", total=len(request.cells))

            async def progress(done: int, _total: int) -> None:
                bar.update(task, completed=done)

            evaluation = await jobs.begin(request, scope, progress)
            await jobs.finished(evaluation)
        report = await jobs.report(evaluation, calibrates=calibrates, baseline=before)
        if report is None:
            row = await jobs.store.get(evaluation, "")
            fail(row["problem"] or "the evaluation was stopped; the answers so far are stored")
        return report

    return _with_jobs(reported, request.collection, parallel)


def write(report: EvaluationReport, out: Path, language: Language | None) -> None:
    """Writes report.html and results.json into `out`; exit code 3 behind a baseline."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.html").write_text(report.html(language), "utf-8")
    results = json.dumps(report.results, ensure_ascii=False, indent=1, sort_keys=True)
    (out / "results.json").write_text(f"{results}\n", "utf-8")
    _tell(report, out)
    if report.comparison is not None and report.comparison.regressions:
        raise typer.Exit(REGRESSED)


def make_questions(file: Path, most: int, collection: str | None) -> None:
    """Writes a first question set, which a person has to edit."""
    if file.exists():
        fail(f"{file} is there already: name a new file")

    async def made(jobs: EvaluationJobs, scope: Scope) -> list[EvaluationQuestion]:
        retriever = jobs.services.retriever
        if not isinstance(retriever, HybridRetriever):
            fail("the knowledge base of these settings cannot be listed")
        return await first_questions(retriever.index, scope, most, jobs.services.chat)

    questions = _with_jobs(made, collection)
    if not questions:
        fail("there are no documents to ask about: see `selfcrag ingest`")
    file.write_text("".join(question.line for question in questions), "utf-8")
    typer.echo(
        f"{len(questions)} questions in {file}, written by a machine: edit them, and add `answers`"
        " and questions that the documents do not answer (`answerable`: false)",
        err=True,
    )


def label_by_hand(file: Path, collection: str | None) -> None:
    """Appends the user's own questions to `file`, each with the passage that answers it."""
    known = _known(file)

    async def labelled(jobs: EvaluationJobs, scope: Scope) -> list[EvaluationQuestion]:
        return await label_questions(jobs.services.retriever, scope, file, known)

    typer.echo(what_next(_with_jobs(labelled, collection), file, collection))


def _known(file: Path) -> list[EvaluationQuestion]:
    """What the file holds already; the command ends where no JSON lines can be appended to it."""
    try:
        file.touch()
        with file.open("r+", encoding="utf-8") as lines:
            text = lines.read()
            if text.strip() and not text.startswith("{"):
                fail(f"{file} is not JSON lines, which alone can be appended to: name another file")
            if text and not text.endswith("\n"):
                lines.write("\n")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file} cannot be appended to: {error}")
    return _questions_in(text, file) if text.strip() else []


def _with_jobs(
    work: Callable[[EvaluationJobs, Scope], Awaitable[T]], collection: str | None, parallel: int = 1
) -> T:
    """What `work` returns, with what it needs open; where it fails the command ends."""

    async def done() -> T:
        async with open_runs(settings_told(), parallel) as opened:
            scope = await opened.collections.scope(Caller(), collection)
            _has_documents(scope, await opened.collections.all(Caller()))
            async with aclosing(EvaluationJobs(opened, parallel)) as jobs:
                return await work(jobs, scope)

    logging.basicConfig(level=logging.ERROR)
    with ends_at_failure(RetrieverFailed):
        return asyncio.run(done())


def _has_documents(scope: Scope, known: Sequence[StoredCollection]) -> None:
    """Ends the command where other collections alone hold documents."""
    filled = {each.name: each.documents for each in known if each.documents}
    if filled and filled.keys().isdisjoint(scope.collections):
        others = ", ".join(f"{name} ({many})" for name, many in filled.items())
        fail(f"{scope.collections[0]} is empty; add --collection with one of: {others}")


def _variant(text: str) -> dict[str, Any]:
    """From `name=workflow:option=value,option=value`; name and options may be left out."""
    head, _, tail = text.partition(":")
    name, equals, workflow = head.partition("=")
    options: dict[str, Any] = {}
    for pair in filter(None, _COMMA.split(tail)):
        option, sign, value = pair.partition("=")
        if not sign:
            fail(f"--variant takes name=workflow:option=value,…, not {text!r}")
        place = options
        *outer, last = option.strip().split(".")
        for part in outer:
            place = place.setdefault(part, {})
        try:
            place[last] = json.loads(value)
        except json.JSONDecodeError:
            place[last] = value
    return {"name": name if equals else text, "workflow": workflow or name, "options": options}


def _confirm(request: EvaluationRequest, services: Services, confirmed: bool) -> None:
    """Tells what a language model will cost, and asks before it does."""
    calls = model_calls(request, services)
    line = f"{len(request.questions)} questions, {len(request.variants)} variants"
    if not calls:
        errors.print(f"{line}: no language model is asked", style="dim", highlight=False)
        return
    errors.print(
        f"{line}: up to about {calls:,} calls of {services.chat_name}; answers that are known"
        " already cost nothing",
        highlight=False,
    )
    if confirmed:
        return
    if not sys.stdin.isatty():
        fail("add --yes to spend them")
    typer.confirm("Go on?", abort=True)


def _tell(report: EvaluationReport, out: Path) -> None:
    if not report.results["fingerprint"]["documents"]:
        typer.echo("there are no documents: see `selfcrag ingest`", err=True)
    for variant in report.results["variants"]:
        shown = (
            f"{name} {estimate['mean']:.3f}"
            for name in ("contains_gold", "correctness", "recall", "action_right", "faithfulness")
            if (estimate := variant["measures"][name])["mean"] is not None
        )
        typer.echo(f"{variant['name']}: {', '.join(shown) or 'nothing to measure'}")
    if report.calibrates:
        typer.echo(f"thresholds: {_proposed(report.proposal)}")
    if report.comparison is not None:
        for each in report.comparison.regressions:
            typer.echo(f"worse: {each.variant} {each.measure} {each.before} -> {each.after}")
    typer.echo(f"report: {out / 'report.html'}")


def _proposed(proposal: Proposal | None) -> str:
    if proposal is None:
        return f"at least {MIN_QUESTIONS} graded questions of both kinds are needed to propose any"
    pair = f"upper {proposal.upper}, lower {proposal.lower}"
    costs = f"{proposal.unseen_cost} a question that they were not chosen on"
    if proposal.is_better:
        return f"{pair} cost {costs}, yours {proposal.present_cost}"
    return f"keep yours, which cost {proposal.present_cost}; {pair} would cost {costs}"


def _questions_in(text: str, file: Path) -> list[EvaluationQuestion]:
    try:
        return read_questions(text, str(file))
    except InvalidRequest as error:
        fail(str(error))


def _results_in(file: Path) -> Mapping[str, Any]:
    try:
        results: Mapping[str, Any] = json.loads(text_of(file))
        if not {"rows", "variants", "seed"} <= results.keys():
            raise ValueError("it is not a results.json of `selfcrag evaluate`")
    except ValueError as error:
        fail(f"{file} cannot be compared with: {error}")
    return results
