"""An evaluator whose work is counted: it forgets every grade and remembers every pair."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from app.composition.services import WorkerEvaluator
from benchmarks.serving.model import worker_around
from evaluator.model.tokenization import PairTokenizer
from evaluator.settings import EvaluatorSettings
from graphs.types import Scores, Task, Thresholds


class MeteredEvaluator:
    """`ports.Evaluator` over a worker of its own that keeps no scores."""

    def __init__(self, evaluator: WorkerEvaluator) -> None:
        self._evaluator = evaluator
        self._asked: list[tuple[Task, Sequence[tuple[str, str]]]] = []
        self.name, self.bars = evaluator.name, evaluator.bars

    @property
    def thresholds(self) -> Thresholds:
        return self._evaluator.thresholds

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        self._asked.append((task, pairs))
        return await self._evaluator.score(task, pairs)

    async def ready(self) -> bool:
        return await self._evaluator.ready()

    def gflops(self) -> float:
        """Of the matrix products for all pairs since the last time, one decoder step each."""
        weights = EvaluatorSettings().weights
        shape = json.loads((weights / "config.json").read_text("utf-8"))
        tokenizer = PairTokenizer.from_folder(weights, shape["max_length"])
        asked, self._asked = self._asked, []
        rows = [row for task, pairs in asked for row in tokenizer.encode(task, pairs)]
        lengths = [len(row.ids) for row in rows if not isinstance(row, str)]
        return sum(flops(shape, length) for length in lengths) / 1e9


@asynccontextmanager
async def metered_evaluator() -> AsyncIterator[MeteredEvaluator]:
    async with evaluator_here() as evaluator:
        yield MeteredEvaluator(evaluator)


@asynccontextmanager
async def evaluator_here(cached_pairs: int = 0) -> AsyncIterator[WorkerEvaluator]:
    """Over a worker in this process, as the service has it but for its memory."""
    async with worker_around(None, cached_pairs=cached_pairs) as client:
        await client.connect()
        yield await WorkerEvaluator.connect(client, None)


def flops(shape: dict[str, int], length: int) -> float:
    """Floating-point operations of a row of so many tokens: the encoder and one decoder step.

    A multiplication and its addition are two. Counted are the matrix products of the layers and of
    attention, masked places included; left out are embeddings, norms and softmax.
    """
    width, d_ff = shape["d_model"], shape["d_ff"]
    encoder = _layer(width, d_ff, length)
    decoder = _layer(width, d_ff, 1) + _crossing(width, length)
    layers = shape["layers"] * encoder + shape["decoder_layers"] * decoder
    return layers + 2.0 * width * (width + 1)


def _layer(width: int, d_ff: int, length: int) -> float:
    """Self-attention (four projections, two products of length x length) and the feed-forward."""
    projections, attention = 4 * width * width * length, 2 * width * length * length
    return 2.0 * (projections + attention + 2 * width * d_ff * length)


def _crossing(width: int, length: int) -> float:
    """A step's attention to the encoder: two projections on each side and the products."""
    return 2.0 * (2 * width * width * (1 + length) + 2 * width * length)
