"""Relevance of texts to a question, which may ask for more than one thing."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from langchain_core.runnables.utils import gather_with_concurrency
from langgraph.runtime import Runtime

from graphs.errors import EvaluatorFailed
from graphs.options import Context
from graphs.ports import Evaluator
from graphs.types import Passage, Scores, Strip, Usage

TEXTS_A_REQUEST = 4
"""As many texts are graded at once where somebody hears of each: the worker batches requests."""

OnGraded = Callable[[int, float | None], None]
"""Hears that a text was graded: its place, and its best relevance, None where it has none."""


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
    questions: Sequence[str],
    texts: Sequence[str],
    evaluator: Evaluator,
    graded: OnGraded | None = None,
) -> Relevance:
    """By the question and its sub-questions: in one request, or in several side by side.

    In several where `graded` is to hear of each text as soon as it has its score.

    Raises EvaluatorFailed, also where no text has a score: that says nothing against them.
    """
    if graded is None:
        relevance = Relevance(*await scores_of(questions, texts, evaluator))
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

    async def part(start: int) -> Relevance | EvaluatorFailed:
        some = texts[start : start + TEXTS_A_REQUEST]
        try:
            relevance = Relevance(*await scores_of(questions, some, evaluator))
        except EvaluatorFailed as failure:
            return failure
        for index, score in enumerate(relevance.best, start):
            graded(index, score)
        return relevance

    starts = range(0, len(texts), TEXTS_A_REQUEST)
    parts = await gather_with_concurrency(None, *(part(start) for start in starts))
    failures = [each for each in parts if isinstance(each, EvaluatorFailed)]
    usage = sum((each.usage for each in parts), Usage())
    if failures and len(failures) == len(parts):
        raise EvaluatorFailed(str(failures[0]), usage)
    rows: list[list[float | None]] = [[] for _ in questions]
    for start, each in zip(starts, parts, strict=True):
        if isinstance(each, EvaluatorFailed):
            size = len(texts[start : start + TEXTS_A_REQUEST])
            scores: Sequence[Sequence[float | None]] = [[None] * size for _ in questions]
        else:
            scores = each.by_question
        for row, more in zip(rows, scores, strict=True):
            row += more
    return Relevance(tuple(map(tuple, rows)), usage)


async def scores_of(
    questions: Sequence[str], texts: Sequence[str], evaluator: Evaluator
) -> tuple[tuple[tuple[float | None, ...], ...], Usage]:
    """A row of the texts' scores for each question, in one request. Raises EvaluatorFailed."""
    pairs = [(question, text) for question in questions for text in texts]
    scores = await evaluator.score("relevance", pairs) if pairs else Scores(())
    starts = range(0, len(pairs), len(texts)) if pairs else [0 for _ in questions]
    rows = tuple(scores.values[start : start + len(texts)] for start in starts)
    return rows, Usage(scored_pairs=len(pairs)) + scores.usage


def best_of(scores: Iterable[float | None]) -> float | None:
    """The highest of those that are known; None where none is."""
    return max((score for score in scores if score is not None), default=None)


def mean_of(scores: Iterable[float | None]) -> float | None:
    """The mean of those that are known; None where none is."""
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else None


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
