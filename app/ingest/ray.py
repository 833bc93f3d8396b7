"""Ray Data: documents read on many machines; one writer takes what comes back.

Needs the extra `ingest-ray` on every machine, and the files under the same paths. Where Ray finds
no cluster it makes one of this machine alone.
"""

import asyncio
import atexit
import logging
import pickle
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.ingest.loaders.document import DocumentRefused
from app.ingest.sandbox import ParserProcess, ParseTask, Row

DOCUMENTS_A_BATCH = 8
MAX_REASON_CHARS = 200
Outcome = list[Row] | DocumentRefused


class ClusterFailed(Exception):
    """Ray is not installed, or its cluster is away; what was stored before stays."""


async def cluster_outcomes(tasks: Sequence[ParseTask]) -> AsyncIterator[tuple[int, Outcome]]:
    """Each task's place with its outcome, as they become ready. Raises ClusterFailed."""
    outcomes = _outcomes(tasks)
    while (outcome := await asyncio.to_thread(next, outcomes, None)) is not None:
        yield outcome


def _outcomes(tasks: Sequence[ParseTask]) -> Iterator[tuple[int, Outcome]]:
    try:
        import ray  # noqa: PLC0415
        from ray import data  # noqa: PLC0415
    except ImportError as error:
        raise ClusterFailed(
            "--ray needs Ray: install it with pip install 'self-crag[ingest-ray]'"
        ) from error
    try:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        data.DataContext.get_current().enable_progress_bars = False
    except Exception as error:  # it raises no narrower one
        raise ClusterFailed(f"Ray did not start: {_last_line(error)}") from error
    try:
        # One core is left to the writer.
        cores = int(ray.cluster_resources().get("CPU", 1)) - 1
        readers = data.ActorPoolStrategy(min_size=1, max_size=max(1, cores))
        items = [{"number": at, "task": pickle.dumps(task)} for at, task in enumerate(tasks)]
        read = data.from_items(items).map_batches(
            ClusterReader, batch_size=DOCUMENTS_A_BATCH, compute=readers
        )
        for row in read.iter_rows():
            yield row["number"], pickle.loads(row["outcome"])
    except ray.exceptions.RayError as error:
        raise ClusterFailed(
            f"the Ray cluster failed ({_last_line(error)}); what was stored before stays,"
            " run the same command again to go on"
        ) from error
    finally:
        ray.shutdown()


def _last_line(error: Exception) -> str:
    """Ray's messages hold whole stack traces."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1][:MAX_REASON_CHARS]


class ClusterReader:
    """Reads batches of documents on a machine of the cluster, in a bounded process of its own."""

    def __init__(self) -> None:
        self._cache = TemporaryDirectory(prefix="selfcrag-")
        self._parser: ParserProcess | None = None
        atexit.register(self.close)  # Ray ends its processes without a word

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        outcomes = [self._outcome(pickle.loads(task)) for task in batch["task"]]
        return {"number": batch["number"], "outcome": [pickle.dumps(one) for one in outcomes]}

    def close(self) -> None:
        atexit.unregister(self.close)
        if self._parser is not None:
            self._parser.close()
        self._cache.cleanup()

    def _outcome(self, task: ParseTask) -> Outcome:
        if self._parser is None or self._parser.is_spent:
            self._parser = ParserProcess(Path(self._cache.name))
        try:
            return self._parser.rows(task)
        except DocumentRefused as refusal:
            return refusal
