"""The evaluator port over the worker's client."""

from collections.abc import Sequence

from evaluator.client import EvaluatorClient, WorkerError
from graphs.errors import EvaluatorFailed
from graphs.types import Scores, Task, Thresholds


class WorkerEvaluator:
    """Scores through a worker, in-process or over HTTP; made by `connect`."""

    def __init__(self, client: EvaluatorClient, name: str, thresholds: Thresholds) -> None:
        self._client = client
        self.name = name
        self.thresholds = thresholds

    @classmethod
    async def connect(
        cls, client: EvaluatorClient, thresholds: Thresholds | None
    ) -> "WorkerEvaluator":
        """Asks the worker for its name and, unless given, its thresholds. Raises WorkerError."""
        warm_up = await client.score("relevance", [("Is it warm?", "It is warm now.")])
        if thresholds is None:
            own = await client.thresholds()
            thresholds = Thresholds(own.upper, own.lower, own.strip_floor)
        return cls(client, warm_up.model, thresholds)

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        try:
            response = await self._client.score(task, pairs)
        except WorkerError as error:
            raise EvaluatorFailed(str(error)) from error
        return Scores(tuple(response.scores), tuple(response.labels), tuple(response.probabilities))

    async def ready(self) -> bool:
        return await self._client.ready()
