"""The compressor ports over the worker's language model."""

from collections.abc import Mapping, Sequence
from typing import get_args

from evaluator.client import EvaluatorClient, WorkerError
from evaluator.schema import CompressMethod, Ready
from graphs.errors import CompressorFailed
from graphs.ports import Compressor


class WorkerCompressor:
    """One method of a worker's `POST /compress`."""

    def __init__(self, client: EvaluatorClient, method: CompressMethod) -> None:
        self._client, self._method = client, method

    async def compress(self, question: str, texts: Sequence[str], ratio: float) -> Sequence[str]:
        try:
            return (await self._client.compress(self._method, question, texts, ratio)).texts
        except WorkerError as error:
            raise CompressorFailed(str(error)) from error


def compressors_of(client: EvaluatorClient, worker: Ready) -> Mapping[str, Compressor]:
    """By the name they have among the options; none where the worker has no language model."""
    if worker.compressor is None:
        return {}
    return {method: WorkerCompressor(client, method) for method in get_args(CompressMethod)}
