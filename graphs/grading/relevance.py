"""Relevance of texts to a question, which may ask for more than one thing."""

from collections.abc import Sequence
from dataclasses import dataclass

from graphs.errors import EvaluatorFailed
from graphs.grading.known import best_of
from graphs.ports import Evaluator
from graphs.text.subquestions import parts_of
from graphs.types import Usage


@dataclass(frozen=True, slots=True)
class Relevance:
    """Grades of some texts; `by_question` holds a row for the question, then one for each part."""

    by_question: tuple[tuple[float | None, ...], ...]
    usage: Usage

    @property
    def best(self) -> list[float | None]:
        """Each text's best grade: who answers one part is relevant."""
        return [best_of(grades) for grades in zip(*self.by_question, strict=True)]


async def relevance_of(
    question: str, texts: Sequence[str], evaluator: Evaluator, *, by_parts: bool
) -> Relevance:
    """Grades by the question itself and, `by_parts`, by each of its parts if it has several.

    Raises EvaluatorFailed, also where no text has a grade: that says nothing against them.
    """
    parts = parts_of(question) if by_parts else []
    asked = [question, *(parts if len(parts) > 1 else [])]
    relevance = Relevance(*await grades_of(asked, texts, evaluator))
    if texts and all(grade is None for grade in relevance.best):
        raise EvaluatorFailed(f"The evaluator could grade none of {len(texts)} texts.")
    return relevance


async def grades_of(
    questions: Sequence[str], texts: Sequence[str], evaluator: Evaluator
) -> tuple[tuple[tuple[float | None, ...], ...], Usage]:
    """A row of the texts' grades for each question, in one request. Raises EvaluatorFailed."""
    pairs = [(question, text) for question in questions for text in texts]
    values = (await evaluator.score("relevance", pairs)).values if pairs else ()
    rows = tuple(values[n * len(texts) : (n + 1) * len(texts)] for n in range(len(questions)))
    return rows, Usage(scored_pairs=len(pairs))
