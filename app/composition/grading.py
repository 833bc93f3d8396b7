"""The evaluator port over the worker's client."""

from collections.abc import Sequence

from app.errors import StartFailed
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
        cls,
        client: EvaluatorClient,
        preset: Thresholds | None,
        *,
        allow_foreign: bool = False,
    ) -> "WorkerEvaluator":
        """Asks the worker for its name and, without a preset, its thresholds. Raises WorkerError.

        Presets are for the authors' checkpoint, which only regresses. Raises StartFailed, unless
        `allow_foreign`, where one is given for an evaluator that tells probabilities.
        """
        warm_up = await client.score("relevance", [("Is it warm?", "It is warm now.")])
        if preset is not None:
            if any(warm_up.probabilities) and not allow_foreign:
                raise StartFailed(
                    "The thresholds of SELFCRAG_THRESHOLDS were made for the CRAG authors' "
                    f"evaluator, not for {warm_up.model}: choose calibrated, or set "
                    "SELFCRAG_ALLOW_FOREIGN_THRESHOLDS=true."
                )
            return cls(client, warm_up.model, preset)
        own = await client.thresholds(allow_foreign=allow_foreign)
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
