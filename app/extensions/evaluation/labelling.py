"""A question set labelled by hand: the user's own questions, each with the passage that answers."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.text import Text

from app.errors import wrong_fields
from app.extensions.evaluation.calibration import MIN_QUESTIONS
from app.extensions.evaluation.matching import holds
from app.extensions.evaluation.questions import EvaluationQuestion
from graphs.options import Scope, Search
from graphs.ports import Retriever
from graphs.types import Passage

SHOWN = 5


async def label_questions(
    retriever: Retriever, scope: Scope, file: Path, known: Sequence[EvaluationQuestion]
) -> list[EvaluationQuestion]:
    """Reads questions until an empty line and appends each to `file` as soon as it is labelled.

    Returns the whole set; `known` is what the file holds already. Raises RetrieverFailed.
    """
    labelled, ids = list(known), {question.id for question in known}
    while text := _prompt("Question (empty: end)"):
        try:
            question = EvaluationQuestion(question=text)
        except ValidationError as error:
            typer.echo(wrong_fields(error))
            continue
        if question.id in ids:
            typer.echo("This question is in the file already.")
            continue
        passages = await retriever.retrieve(text, SHOWN, Search(scope=scope))
        row = _labelled(question, passages)
        if row is not None:
            ids.add(row.id)
            labelled.append(row)
            with file.open("a", encoding="utf-8") as lines:
                lines.write(row.line)
    return labelled


def what_next(questions: Sequence[EvaluationQuestion], file: Path, collection: str | None) -> str:
    """How many there are of each kind, and what can be done with them."""
    answered = sum(question.is_answerable is True for question in questions)
    unanswered = sum(question.is_answerable is False for question in questions)
    counts = f"{file}: {answered} questions with an answer, {unanswered} without"
    if (missing := MIN_QUESTIONS - answered - unanswered) > 0:
        return f"{counts}; {missing} more until thresholds can be proposed"
    if not (answered and unanswered):
        return f"{counts}; both kinds are needed to propose thresholds"
    command = ["selfcrag", "evaluate", str(file), "-v", "crag:web=never", "--calibrate"]
    command += ["--collection", collection] if collection else []
    return f"{counts}; next: {shlex.join(command)}"


def _labelled(
    question: EvaluationQuestion, passages: Sequence[Passage]
) -> EvaluationQuestion | None:
    """The question with its gold; None where the user leaves it out."""
    _show(passages)
    choices = {str(number): passage for number, passage in enumerate(passages, start=1)}
    choice = _prompt("Which one answers? (0: the documents do not; empty: leave the question out)")
    while choice and choice != "0" and choice not in choices:
        choice = _prompt(f"A number from 0 to {len(passages)}, or nothing")
    if not choice:
        return None
    if choice == "0":
        return question.model_copy(update={"answerable": False})
    passage = choices[choice]
    words = _prompt("The words in it that answer (empty: any part of the document does)")
    while words and not holds(passage.text, [words]):
        words = _prompt("The passage does not hold these words: copy them (empty: none)")
    gold = {"answers": [words]} if words else {}
    return question.model_copy(update={"sources": [passage.source], **gold})


def _show(passages: Sequence[Passage]) -> None:
    console = Console(highlight=False)
    for number, passage in enumerate(passages, start=1):
        console.print(Text(f"{number}  {passage.source}", style="bold"))
        console.print(Text(passage.text, style="dim"))
    if not passages:
        typer.echo("No passage was found.")


def _prompt(text: str) -> str:
    line: str = typer.prompt(text, default="", show_default=False)
    return line.strip()
