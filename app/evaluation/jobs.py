"""Evaluation jobs: start, follow, cancel and store them, and rebuild their reports."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from app.errors import InvalidRequest, ServiceError
from app.evaluation.calibration import graded, propose
from app.evaluation.comparison import compare
from app.evaluation.report import Report
from app.evaluation.results import results_of, times_of
from app.evaluation.runner import (
    Answered,
    EvaluationRequest,
    evaluate,
    fingerprint_of,
    keys_of,
)
from app.retrieval.index import StoredDocument
from app.retrieval.retriever import HybridRetriever
from app.runs.manager import Runs
from app.storage.evaluations import Evaluations
from graphs.ports import Services

log = logging.getLogger(__name__)

Progress = Callable[[int, int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class OwnersAnswers:
    """The answers of one owner's evaluations; new ones are kept with one of these."""

    store: Evaluations
    owner: str
    evaluation_id: str

    async def known(self, keys: Sequence[str]) -> Mapping[str, Any]:
        return await self.store.known(self.owner, keys)

    async def keep(self, key: str, answer: Mapping[str, Any]) -> None:
        await self.store.keep(self.evaluation_id, key, answer)


class EvaluationJobs:
    """Evaluations run beside questions, `parallel` answers at a time, and take their places last.

    Whoever begins one has entered its owner and collection: see `visible_to` and `within`.
    """

    def __init__(
        self, runs: Runs, services: Services, store: Evaluations, parallel: int = 1
    ) -> None:
        self.store = store
        self._runs, self._services = runs, services
        self._parallel = parallel
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(
        self, request: EvaluationRequest, owner: str = "", progress: Progress | None = None
    ) -> str:
        """Its id; it goes on in the background. Raises InvalidRequest."""
        if request.judge == "model" and self._services.chat is None:
            raise InvalidRequest("#/judge", "no language model is set: see SELFCRAG_GENERATOR")
        payload = request.model_dump(mode="json", exclude_unset=True)
        payload["variants"] = [
            variant.model_dump(mode="json", exclude_unset=True) for variant in request.variants
        ]
        total = len(request.cells)
        evaluation_id = await self.store.begin(owner, request.name, total, payload)
        task = asyncio.create_task(self._carry_out(evaluation_id, request, owner, progress))
        self._tasks[evaluation_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(evaluation_id, None))
        return evaluation_id

    async def finished(self, evaluation_id: str) -> None:
        """Returns when it has ended, which a cancelled waiter ends."""
        if task := self._tasks.get(evaluation_id):
            await asyncio.wait({task})

    async def cancel(self, evaluation_id: str) -> None:
        """Stops it here; its answers are kept, and the next evaluation finds them."""
        if task := self._tasks.get(evaluation_id):
            task.cancel()
            await asyncio.wait({task})

    async def report(
        self,
        evaluation_id: str,
        owner: str = "",
        *,
        calibrates: bool = False,
        baseline: Mapping[str, Any] | None = None,
    ) -> Report | None:
        """The report of one that has ended; None of another. Raises NotFound."""
        row = await self.store.get(evaluation_id, owner)
        if row["results"] is None:
            return None
        request = EvaluationRequest.model_validate(row["request"])
        results = row["results"]["results"]
        keys = keys_of(request, results["fingerprint"])
        known = await self.store.known(owner, keys)
        missing = row["results"]["failures"]
        answers = [
            Answered.model_validate(known[key]).called(question, variant)
            if key in known
            else Answered(
                question=question.id,
                variant=variant.name,
                failure=missing.get(key, "the answer is not kept any more"),
            )
            for key, (question, variant) in zip(keys, request.cells, strict=True)
        ]
        proposal = None
        if calibrates:
            last = request.variants[-1].name
            of_last = [answered for answered in answers if answered.variant == last]
            rows = graded(request.questions, of_last)
            proposal = await asyncio.to_thread(propose, rows, self._services.evaluator.thresholds)
        compared = None if baseline is None else await asyncio.to_thread(compare, baseline, results)
        times = row["results"]["times"]
        return Report(request, answers, results, times, proposal, calibrates, compared)

    async def _carry_out(
        self,
        evaluation_id: str,
        request: EvaluationRequest,
        owner: str,
        progress: Progress | None,
    ) -> None:
        try:
            documents = await self._documents()
            fingerprint = await asyncio.to_thread(fingerprint_of, self._services, documents)
            store = OwnersAnswers(self.store, owner, evaluation_id)
            answers = await evaluate(
                request, self._runs, self._services, store, fingerprint,
                owner=owner, parallel=self._parallel, progress=progress,
            )  # fmt: skip
            keys = keys_of(request, fingerprint)
            results = {
                "results": await asyncio.to_thread(results_of, request, answers, fingerprint),
                "times": times_of(answers),
                "failures": {
                    key: it.failure for key, it in zip(keys, answers, strict=True) if it.failure
                },
            }
            await self.store.end(evaluation_id, "done", results)
        except asyncio.CancelledError:
            with suppress(Exception):
                await asyncio.shield(self.store.end(evaluation_id, "cancelled"))
            raise
        except Exception as error:
            log.exception("evaluation %s failed", evaluation_id)
            group = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            problem = str(group) if isinstance(group, ServiceError) else "The service failed at it."
            with suppress(Exception):
                await self.store.end(evaluation_id, "failed", problem=problem)

    async def _documents(self) -> Sequence[StoredDocument]:
        retriever = self._services.retriever
        return await retriever.index.documents() if isinstance(retriever, HybridRetriever) else ()

    async def aclose(self) -> None:
        """Stop all; a restart resumes from the stored answers."""
        for evaluation_id in list(self._tasks):
            await self.cancel(evaluation_id)
