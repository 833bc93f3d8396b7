"""Padding of the worker's batches, and what a batch of so many rows and tokens costs."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.report import Figures
from benchmarks.serving.model import Hollow, Plan, Texts, Workload, worker_around
from evaluator.bench import Batch
from evaluator.client import EvaluatorClient
from evaluator.inference.scorer import Scorer, in_batches
from evaluator.schema import Row
from evaluator.settings import EvaluatorSettings


async def on_padding(settings: EvaluatorSettings, scorer: Scorer, plan: Plan) -> Figures:
    """Shares of padding: each request alone, then many at once, batch by batch."""
    hollow, texts = Hollow(scorer), Texts(plan.seed)
    alone = list[float]()
    async with worker_around(settings, hollow) as client:
        for _ in range(plan.requests // 2):
            asked = texts.workload()
            for part in (asked.passages, asked.strips):
                hollow.batches.clear()
                await client.score("relevance", [(asked.question, text) for text in part])
                alone.append(padding(hollow.batches))
        hollow.batches.clear()
        await _all_at_once(client, [texts.workload() for _ in range(plan.requests // 2)], plan)
    batches = [padding([batch]) for batch in hollow.batches]
    return {
        "requests": len(alone),
        "alone": _percentiles(alone),
        "at_once": plan.at_once,
        "together": _percentiles(batches) | {"all": padding(hollow.batches)},
    }


async def _all_at_once(client: EvaluatorClient, asked: Sequence[Workload], plan: Plan) -> None:
    gate = asyncio.Semaphore(plan.at_once)

    async def one(question: Workload) -> None:
        async with gate:
            for part in (question.passages, question.strips):
                await client.score("relevance", [(question.question, text) for text in part])

    await asyncio.gather(*map(one, asked))


def padding(batches: Sequence[Batch]) -> float:
    """The share of computed tokens that are no row's own."""
    return 1 - sum(batch.tokens for batch in batches) / sum(b.rows * b.width for b in batches)


def _percentiles(values: Sequence[float]) -> Figures:
    p50, p95 = (float(np.percentile(values, share)) for share in (50, 95))
    return {"p50": p50, "p95": p95, "most": max(values)}


@dataclass(frozen=True)
class CostModel:
    """Seconds of a batch: a + b rows + c rows width + d rows width^2."""

    coefficients: tuple[float, ...]

    def __call__(self, rows: int, width: int) -> float:
        return float(np.dot(self.coefficients, _terms(rows, width)))


def _terms(rows: int, width: int) -> list[float]:
    return [1.0, rows, rows * width, rows * width * width]


def on_cost(scorer: Scorer, plan: Plan) -> tuple[Figures, CostModel]:
    """Batches of a grid timed, and the model fitted to them by least squares of relative errors."""
    grid = list[Figures]()
    for width in plan.widths:
        for rows in plan.rows:
            batch = _batch(scorer, rows, width)
            if rows * width <= plan.most_tokens and len(batch[0].ids) == width:
                grid.append({"rows": rows, "width": width, "s": _seconds(scorer, batch, plan)})
    model = fitted(grid)
    errors = [abs(model(point["rows"], point["width"]) / point["s"] - 1) for point in grid]
    figures = {
        "grid": grid,
        "coefficients": list(model.coefficients),
        "error_p50": float(np.median(errors)),
        "error_most": max(errors),
    }
    return figures, model


def fitted(grid: Sequence[Figures]) -> CostModel:
    """Least squares of relative errors; a term that would count negatively is left out."""
    seconds = np.array([point["s"] for point in grid])
    terms = np.array([_terms(point["rows"], point["width"]) for point in grid])
    terms /= seconds[:, None]
    kept = list(range(terms.shape[1]))
    while True:
        found = np.linalg.lstsq(terms[:, kept], np.ones_like(seconds), rcond=None)[0]
        if found.min() >= 0:
            break
        del kept[int(found.argmin())]
    coefficients = np.zeros(terms.shape[1])
    coefficients[kept] = found
    return CostModel(tuple(map(float, coefficients)))


def _batch(scorer: Scorer, rows: int, width: int) -> list[Row]:
    """So many equal rows of `width` tokens, or as long as the checkpoint reads."""
    texts = Texts(rows * width)
    encoded = scorer.encode("relevance", [(texts.question("en"), texts.passage("en", 2 * width))])
    ids = next(row.ids for row in encoded if isinstance(row, Row))
    return [Row((*ids[: width - 1], ids[-1]))] * rows


def _seconds(scorer: Scorer, batch: Sequence[Row], plan: Plan) -> float:
    """The median of several forwards after one that warms up."""
    took = list[float]()
    for _ in range(plan.times + 1):
        started = time.perf_counter()
        scorer.forward("relevance", batch)
        took.append(time.perf_counter() - started)
    return statistics.median(took[1:])


def allowed_s(
    scorer: Scorer, asked: Sequence[Workload], cost: CostModel, settings: EvaluatorSettings
) -> float:
    """Seconds the model needs for all their pairs, were all known at once and batched alike."""
    hollow = Hollow(scorer)
    pairs = [(one.question, text) for one in asked for text in (*one.passages, *one.strips)]
    in_batches(hollow, "relevance", pairs, settings.batch_tokens)
    return sum(cost(batch.rows, batch.width) for batch in hollow.batches)
