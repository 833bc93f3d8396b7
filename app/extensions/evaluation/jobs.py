"""Evaluation jobs: start, follow, cancel and store them, and rebuild their reports."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from app.composition.parts import Parts
from app.errors import InvalidRequest, ServiceError
from app.extensions.evaluation.calibration import graded, propose
from app.extensions.evaluation.comparison import compare
from app.extensions.evaluation.measures import measured
from app.extensions.evaluation.questions import EvaluationQuestion
from app.extensions.evaluation.report import EvaluationReport
from app.extensions.evaluation.results import results_of, times_of
from app.extensions.evaluation.runner import (
    Answered,
    EvaluationRequest,
    Variant,
    answered,
    fingerprint_of,
    judge_of,
    keys_of,
)
from app.extensions.evaluation.storage import Evaluations
from app.retrieval.index import StoredDocument
from app.retrieval.retriever import HybridRetriever
from graphs.options import Scope

log = logging.getLogger(__name__)

Progress = Callable[[int, int], Awaitable[None]]


class EvaluationJobs:
    """Evaluations run beside questions, `parallel` answers at a time, and take places last."""

    def __init__(self, parts: Parts, parallel: int = 1) -> None:
        self.store = Evaluations(parts.engine, parts.store.process)
        self._runs, self.services = parts.runs, parts.services
        self._parallel = parallel
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(
        self, request: EvaluationRequest, scope: Scope, progress: Progress | None = None
    ) -> str:
        """Its id; it goes on in the background. Raises InvalidRequest."""
        if request.judge == "model" and self.services.chat is None:
            raise InvalidRequest("#/judge", "no language model is set: see SELFCRAG_GENERATOR")
        whole = request.model_copy(update={"variants": request.variants})  # also by default
        payload = whole.model_dump(mode="json", exclude_unset=True)
        total = len(request.cells)
        evaluation_id = await self.store.begin(scope.owner, request.name, total, payload)
        task = asyncio.create_task(self._carry_out(evaluation_id, request, scope, progress))
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
    ) -> EvaluationReport | None:
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
                failure=missing.get(key, "the answer is no longer stored"),
            )
            for key, (question, variant) in zip(keys, request.cells, strict=True)
        ]
        proposal = None
        if calibrates:
            last = request.variants[-1].name
            of_last = [each for each in answers if each.variant == last]
            rows = graded(request.questions, of_last)
            proposal = await asyncio.to_thread(propose, rows, self.services.evaluator.thresholds)
        compared = None if baseline is None else await asyncio.to_thread(compare, baseline, results)
        times = row["results"]["times"]
        return EvaluationReport(request, answers, results, times, proposal, calibrates, compared)

    async def _carry_out(
        self,
        evaluation_id: str,
        request: EvaluationRequest,
        scope: Scope,
        progress: Progress | None,
    ) -> None:
        try:
            retriever = self.services.retriever
            documents: Sequence[StoredDocument] = ()
            if isinstance(retriever, HybridRetriever):
                documents = await retriever.index.documents(scope)
            fingerprint = await asyncio.to_thread(fingerprint_of, self.services, documents)
            keys = keys_of(request, fingerprint)
            answers = await self._answers(evaluation_id, request, scope, keys, progress)
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

    async def _answers(
        self,
        evaluation_id: str,
        request: EvaluationRequest,
        scope: Scope,
        keys: Sequence[str],
        progress: Progress | None,
    ) -> list[Answered]:
        """All answers, a question's variants together, in the order of the request.

        Failed runs are told, not kept: the next evaluation asks them again.
        """
        judge = judge_of(request.judge, self.services)
        cells, known = request.cells, await self.store.known(scope.owner, keys)
        done, free, saved = 0, asyncio.Semaphore(self._parallel), set[str]()

        async def cell(key: str, question: EvaluationQuestion, variant: Variant) -> Answered:
            nonlocal done
            if key in known:
                it = Answered.model_validate(known[key]).called(question, variant)
            else:
                async with free:
                    it = await answered(question, variant, self._runs, judge, scope)
            if it.outcome is not None and it.failure is None:
                it.measures = measured(question, it.outcome, it.judged)
                if key not in saved:
                    saved.add(key)
                    await self.store.keep(evaluation_id, key, it.model_dump(mode="json"))
            done += 1
            if progress is not None:
                await progress(done, len(cells))
            return it

        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(cell(key, *each)) for key, each in zip(keys, cells, strict=True)
            ]
        return [task.result() for task in tasks]

    async def aclose(self) -> None:
        """Stop all; a restart resumes from the stored answers."""
        for evaluation_id in list(self._tasks):
            await self.cancel(evaluation_id)
