"""An evaluator whose work is counted: it forgets every grade and remembers every pair."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx

from app.composition.services import WorkerEvaluator
from evaluator.client import EvaluatorClient
from evaluator.model.tokenization import PairTokenizer
from evaluator.serving.app import create_app
from evaluator.serving.batching import Limits
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
        from benchmarks.serving_shapes import flops  # noqa: PLC0415 - torch comes with it

        weights = EvaluatorSettings().weights
        shape = json.loads((weights / "config.json").read_text("utf-8"))
        config = {
            **shape,
            "num_heads": shape["heads"],
            "d_kv": shape["d_model"] // shape["heads"],
            "num_layers": shape["layers"],
            "num_decoder_layers": shape["decoder_layers"],
        }
        tokenizer = PairTokenizer.from_folder(weights, shape["max_length"])
        asked, self._asked = self._asked, []
        rows = [row for task, pairs in asked for row in tokenizer.encode(task, pairs)]
        lengths = [len(row.ids) for row in rows if not isinstance(row, str)]
        return sum(flops(config, length, one_step=True) for length in lengths) / 1e9


@asynccontextmanager
async def metered_evaluator() -> AsyncIterator[MeteredEvaluator]:
    async with evaluator_without_cache() as evaluator:
        yield MeteredEvaluator(evaluator)


@asynccontextmanager
async def evaluator_without_cache() -> AsyncIterator[WorkerEvaluator]:
    """Over a worker in this process, as the service has it but for its memory."""
    worker = create_app(limits=Limits(cached_pairs=0))
    async with worker.router.lifespan_context(worker):
        inside = httpx.ASGITransport(worker, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=inside, base_url="http://evaluator", timeout=None
        ) as http:
            client = EvaluatorClient(http)
            await client.connect()
            yield await WorkerEvaluator.connect(client, None)
