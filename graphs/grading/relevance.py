"""Relevance of texts to a question, which may ask for more than one thing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from graphs.errors import EvaluatorFailed
from graphs.ports import Evaluator
from graphs.types import Usage


@dataclass(frozen=True, slots=True)
class Relevance:
    """Relevance of some texts; `by_question` holds a row for each question that was asked."""

    by_question: tuple[tuple[float | None, ...], ...]
    usage: Usage

    @property
    def best(self) -> list[float | None]:
        """Each text's best relevance: what answers one part is relevant."""
        return [best_of(scores) for scores in zip(*self.by_question, strict=True)]


async def relevance_of(
    questions: Sequence[str], texts: Sequence[str], evaluator: Evaluator
) -> Relevance:
    """By the question and its sub-questions, in one request.

    Raises EvaluatorFailed, also where no text has a score: that says nothing against them.
    """
    relevance = Relevance(*await scores_of(questions, texts, evaluator))
    if texts and all(score is None for score in relevance.best):
        raise EvaluatorFailed(f"The evaluator could grade none of {len(texts)} texts.")
    return relevance


async def scores_of(
    questions: Sequence[str], texts: Sequence[str], evaluator: Evaluator
) -> tuple[tuple[tuple[float | None, ...], ...], Usage]:
    """A row of the texts' scores for each question, in one request. Raises EvaluatorFailed."""
    pairs = [(question, text) for question in questions for text in texts]
    values = (await evaluator.score("relevance", pairs)).values if pairs else ()
    rows = tuple(values[n * len(texts) : (n + 1) * len(texts)] for n in range(len(questions)))
    return rows, Usage(scored_pairs=len(pairs))


def best_of(scores: Iterable[float | None]) -> float | None:
    """The highest of those that are known; None where none is."""
    return max((score for score in scores if score is not None), default=None)


def mean_of(scores: Iterable[float | None]) -> float | None:
    """The mean of those that are known; None where none is."""
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else None
