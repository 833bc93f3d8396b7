"""Relevance of texts to a question, which may ask for more than one thing."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import log

from langchain_core.runnables.utils import gather_with_concurrency
from langgraph.runtime import Runtime

from graphs.errors import EvaluatorFailed
from graphs.options import Context
from graphs.ports import Evaluator
from graphs.types import Passage, PoolWeights, Scores, Strip, Usage

TEXTS_A_REQUEST = 4
"""As many texts are graded at once where somebody hears of each: the worker batches requests."""

_LEAST = 1e-6

Rows = tuple[tuple[float | None, ...], ...]
"""A row of the texts' scores for each question; None where there is no score."""

OnGraded = Callable[[int, float | None], None]
"""Hears that a text was graded: its place, and its best relevance, None where it has none."""


@dataclass(frozen=True, slots=True)
class Relevance:
    """Relevance of some texts; `by_question` holds a row for each question that was asked.

    `similar_by_question` holds as many rows of the encoder's cosines, None where it has none.
    """

    by_question: Rows
    usage: Usage
    similar_by_question: Rows
    pool: PoolWeights | None = None

    def in_pool(self) -> "Relevance":
        """The texts graded among each other: all that were retrieved for the question."""
        if self.pool is None:
            return self
        rows = zip(self.by_question, self.similar_by_question, strict=True)
        return replace(self, by_question=tuple(tuple(self.pool.grades(*row)) for row in rows))

    @property
    def best(self) -> list[float | None]:
        """Each text's best relevance: what answers one part is relevant."""
        return [best_of(scores) for scores in zip(*self.by_question, strict=True)]

    @property
    def similarities(self) -> list[float | None]:
        """Each text's best similarity."""
        return [best_of(scores) for scores in zip(*self.similar_by_question, strict=True)]


async def relevance_of(
    questions: Sequence[str],
    texts: Sequence[str],
    evaluator: Evaluator,
    graded: OnGraded | None = None,
) -> Relevance:
    """By the question and its sub-questions: in one request, or in several side by side.

    In several where `graded` is to hear of each text as soon as it has its score.

    Raises EvaluatorFailed, also where no text has a score: that says nothing against them.
    """
    if graded is None or not texts:
        relevance = await scores_of(questions, texts, evaluator)
    else:
        relevance = await _in_parts(questions, texts, evaluator, graded)
    if texts and all(score is None for score in relevance.best):
        why = f"The evaluator could grade none of {len(texts)} texts."
        raise EvaluatorFailed(why, relevance.usage)
    return relevance


async def _in_parts(
    questions: Sequence[str], texts: Sequence[str], evaluator: Evaluator, graded: OnGraded
) -> Relevance:
    """Texts whose part alone failed have no score; where all fail, the first failure is raised."""

    failures: list[EvaluatorFailed] = []

    async def part(start: int) -> Relevance:
        some = texts[start : start + TEXTS_A_REQUEST]
        try:
            relevance = await scores_of(questions, some, evaluator)
        except EvaluatorFailed as failure:
            failures.append(failure)
            unknown = ((None,) * len(some),) * len(questions)
            return Relevance(unknown, failure.usage, unknown)
        for index, score in enumerate(relevance.best, start):
            graded(index, score)
        return relevance

    starts = range(0, len(texts), TEXTS_A_REQUEST)
    parts = await gather_with_concurrency(None, *(part(start) for start in starts))
    usage = sum((each.usage for each in parts), Usage())
    if failures and len(failures) == len(parts):
        raise EvaluatorFailed(str(failures[0]), usage)
    return Relevance(
        _beside(each.by_question for each in parts),
        usage,
        _beside(each.similar_by_question for each in parts),
        next((each.pool for each in parts if each.pool), None),
    )


def _beside(parts: Iterable[Rows]) -> Rows:
    """The rows of all parts, one after the other."""
    return tuple(tuple(chain.from_iterable(rows)) for rows in zip(*parts, strict=True))


async def scores_of(
    questions: Sequence[str], texts: Sequence[str], evaluator: Evaluator
) -> Relevance:
    """A row of the texts' scores for each question, in one request. Raises EvaluatorFailed."""
    pairs = [(question, text) for question in questions for text in texts]
    scores = await evaluator.score("relevance", pairs) if pairs else Scores(())
    similarities = scores.similarities or (None,) * len(pairs)
    usage = Usage(scored_pairs=len(pairs)) + scores.usage
    rows = _rows(scores.values, questions)
    return Relevance(rows, usage, _rows(similarities, questions), scores.pool)


def _rows(values: Sequence[float | None], questions: Sequence[str]) -> Rows:
    """The values of all pairs as one row a question."""
    size = len(values) // len(questions) if questions else 0
    return tuple(tuple(values[n * size : (n + 1) * size]) for n, _ in enumerate(questions))


def best_of(scores: Iterable[float | None]) -> float | None:
    """The highest of those that are known; None where none is."""
    return max((score for score in scores if score is not None), default=None)


def mean_of(scores: Iterable[float | None]) -> float | None:
    """The mean of those that are known; None where none is."""
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else None


def best_place(scores: Iterable[float | None], floor: float) -> int | None:
    """The place of the highest of those that are known, the first of equal ones.

    None where it is below the floor, or none is known.
    """
    known = [(score, -n) for n, score in enumerate(scores) if score is not None and score >= floor]
    return -max(known)[1] if known else None


def log_odds(grade: float) -> float:
    """Of the probability that a grade from -1 to 1 stands for."""
    chance = min(max((grade + 1) / 2, _LEAST), 1 - _LEAST)
    return log(chance / (1 - chance))


def told_as_graded(
    runtime: Runtime[Context], step: str, texts: Sequence[Passage | Strip], bar: float
) -> OnGraded:
    """Emits a `progress` event of this step for each of `texts`; `kept` is at or above the bar.

    The step's end has the last word on what is kept: strips are kept up to a number, too.
    """
    done = 0

    def graded(index: int, score: float | None) -> None:
        nonlocal done
        done += 1
        item = {"id": texts[index].id, "score": score, "kept": score is not None and score >= bar}
        event = {"step": step, "done": done, "total": len(texts), "item": item}
        runtime.stream_writer({"progress": event})

    return graded
