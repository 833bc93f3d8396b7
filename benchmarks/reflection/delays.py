"""How many delays of a language model a user waits for, by workflow, action and round."""

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.reflection.llm import MODEL, DelayedEndpoint, Span, union_s
from benchmarks.reflection.runs import Asker, Told, asker
from benchmarks.report import Figures
from benchmarks.reproduce.costs import evaluator_here
from graphs.critics.evaluator import EvaluatorCritic
from graphs.critics.llm import LlmCritic
from graphs.options import Search
from graphs.ports import Evaluator, Retriever, Services
from graphs.types import Degraded, Passage, Scores, Task, Thresholds, WebPage
from graphs.workflows.registry import WORKFLOWS

ALLOWED = 1.15
DRAFTS = 5
ACTIONS = {"correct": 1, "incorrect": 2, "ambiguous": 2}
NEVER_ACCEPTED = {"min_support": 1.0, "min_utility": 5.0}

LOOKED_UP = ("What does the upper threshold decide?", "上阈值决定什么？")
NOT_LOOKED_UP = (
    "Rewrite this sentence more politely: Send me the file.",
    "把这句话说得更客气：把文件发给我。",
)
WEB = (
    "The upper threshold decides whether the action is Correct: one passage at it is enough.",
    "上阈值决定动作是不是“正确”：只要有一个段落达到上阈值就够了。",
)


@dataclass(frozen=True)
class Case:
    """A workflow made to take one way; `ceiling` is the delays that the way may cost."""

    workflow: str
    way: str
    ceiling: int
    options: dict[str, Any] = field(default_factory=dict)
    critic: str = "evaluator"
    revisions: int = 0
    questions: tuple[str, ...] = LOOKED_UP
    looks_up: bool = True

    def revised(self, times: int) -> "Case":
        """The same with drafts that are never accepted.

        Each revision may cost one delay more, two where a language model criticises it.
        """
        options = {**self.options, **NEVER_ACCEPTED, "max_critic": times}
        ceiling = self.ceiling + times * (2 if self.critic == "llm" else 1)
        return replace(self, ceiling=ceiling, options=options, revisions=times)


def cases(rounds: int) -> list[Case]:
    """Every workflow, its ways and, where it reflects, 0 to `rounds` revisions."""
    drafting = {"retrieval": "always", "max_drafts": DRAFTS, "retrieve_k": DRAFTS}
    by_action = [
        (action, n, {"ablation": {"only_action": action}}) for action, n in ACTIONS.items()
    ]
    found = [Case("rag", "", 1), *(Case("crag", *way) for way in by_action)]
    drafted = Case("self_rag", f"{DRAFTS} drafts", 1, drafting)
    found += [drafted.revised(times) for times in range(rounds + 1)]
    judged = replace(drafted, critic="llm", ceiling=drafted.ceiling + 1)
    found += [judged.revised(times) for times in range(rounds + 1)]
    for way in by_action:
        corrected = Case("self_crag", *way)
        corrected = replace(corrected, options={**corrected.options, "retrieval": "always"})
        found += [corrected.revised(times) for times in range(rounds + 1)]
    alone = {"max_critic": 0, "retrieval_threshold": 1.0}  # no judgement of the evaluator's
    found += [
        Case(name, "no retrieval", 1, alone, questions=NOT_LOOKED_UP, looks_up=False)
        for name in ("self_rag", "self_crag")
    ]
    return found


class Watch:
    """When retrieval and grading were under way, and how often the index was searched."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.searches = 0

    @contextmanager
    def span(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.spans.append((began, time.perf_counter()))

    def over(self, services: Services, critic: str) -> Services:
        """The same services, watched, with this critic and a web that answers at once."""
        chat = services.chat if critic == "llm" else None
        watched = _Evaluator(services.evaluator, self)
        return replace(
            services,
            retriever=_Retriever(services.retriever, self),
            evaluator=watched,
            critic=LlmCritic(chat, services.chat_name) if chat else EvaluatorCritic(watched),
            web_search=_Web(),
            search_ahead=None,
        )


@dataclass(frozen=True)
class _Retriever:
    real: Retriever
    watch: Watch

    async def retrieve(
        self,
        query: str,
        k: int,
        search: Search | None = None,  # noqa: ARG002
    ) -> Sequence[Passage]:
        self.watch.searches += 1
        with self.watch.span():
            return await self.real.retrieve(query, k)

    async def ready(self) -> bool:
        return await self.real.ready()


@dataclass(frozen=True)
class _Evaluator:
    real: Evaluator
    watch: Watch

    @property
    def name(self) -> str:
        return self.real.name

    @property
    def thresholds(self) -> Thresholds:
        return self.real.thresholds

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        with self.watch.span():
            return await self.real.score(task, pairs)

    async def ready(self) -> bool:
        return await self.real.ready()


class _Web:
    async def search(
        self, query: str, max_pages: int
    ) -> tuple[Sequence[WebPage], Sequence[Degraded]]:
        page = WebPage("https://example.org/threshold", query, 1.0, WEB)
        return [page][:max_pages], []


@dataclass(frozen=True)
class Plan:
    delay_s: float = 1.0
    times: int = 3
    rounds: int = 3
    workflows: Sequence[str] = tuple(WORKFLOWS)


async def on_delays(data_dir: Path, plan: Plan) -> Figures:
    """All cases in turn, `times` over, each in both languages; apart by who is the critic."""
    ways = [case for case in cases(plan.rounds) if case.workflow in plan.workflows]
    rows = []
    for critic in dict.fromkeys(case.critic for case in ways):
        mine = [case for case in ways if case.critic == critic]
        rows += await _with_critic(critic, mine, data_dir, plan)
    return {"delay_s": plan.delay_s, "times": plan.times, "drafts": DRAFTS, "rows": rows}


async def _with_critic(
    critic: str, ways: Sequence[Case], data_dir: Path, plan: Plan
) -> list[Figures]:
    watch, found = Watch(), dict[str, list[Figures]]()
    with DelayedEndpoint() as llm:
        chat = {"generator": "chat", "chat_model": f"openai:{MODEL}@{llm.base_url}"}
        async with (
            evaluator_here() as evaluator,  # a score known already would cost nothing
            asker(
                data_dir,
                lambda real: watch.over(replace(real, evaluator=evaluator), critic),
                **chat,
            ) as asked,
        ):
            for case in ways:  # warm; and what goes wrong does so before the long part
                await _run(asked, case, case.questions[0], llm, watch)
            llm.delay_s = plan.delay_s
            for _ in range(plan.times):
                for case in ways:
                    runs = found.setdefault(repr(case), [])
                    runs += [await _run(asked, case, one, llm, watch) for one in case.questions]
    return [row_of_runs(case, found[repr(case)], plan) for case in ways]


async def _run(
    asked: Asker, case: Case, question: str, llm: DelayedEndpoint, watch: Watch
) -> Figures:
    llm.spans.clear()
    watch.spans.clear()
    watch.searches = 0
    told = await asked.ask(case.workflow, question, **case.options)
    _took_the_way(case, told)
    return {
        "calls": len(llm.spans),
        "path": union_s(llm.spans) / llm.delay_s if llm.delay_s else 0.0,
        "elapsed_s": told.elapsed_s,
        "grading_s": union_s(watch.spans),
        "searches": watch.searches + told.response.usage.web_searches,
    }


def _took_the_way(case: Case, told: Told) -> None:
    """Raises ValueError where a run was not what its case says: its figures would mislead."""
    response = told.response
    wrong = [
        f"degraded: {[entry.reason for entry in response.degraded]}" if response.degraded else "",
        f"stopped by {response.stopped_by}" if response.stopped_by == "no_evidence" else "",
        f"{len(response.critique)} critiques, {case.revisions} revisions wanted"
        if "max_critic" in case.options
        and case.looks_up
        and len(response.critique) != case.revisions + 1
        else "",
        f"action {response.action}"
        if case.options.get("ablation", {}).get("only_action", response.action) != response.action
        else "",
    ]
    if any(wrong):
        told_wrong = "; ".join(filter(None, wrong))
        raise ValueError(f"{case.workflow} {case.way} with {case.revisions}: {told_wrong}")


def row_of_runs(case: Case, runs: Sequence[Figures], plan: Plan) -> Figures:
    allowed = ALLOWED * case.ceiling * plan.delay_s
    return {
        "workflow": case.workflow,
        "way": case.way,
        "critic": case.critic,
        "revisions": case.revisions,
        "looks_up": case.looks_up,
        "ceiling": case.ceiling,
        "runs": len(runs),
        "calls": max(run["calls"] for run in runs),
        "path": max(run["path"] for run in runs),
        "searches": max(run["searches"] for run in runs),
        "elapsed_s": statistics.median(run["elapsed_s"] for run in runs),
        "grading_s": statistics.median(run["grading_s"] for run in runs),
        "bound_s": statistics.median(allowed + run["grading_s"] for run in runs),
        "within": sum(run["elapsed_s"] <= allowed + run["grading_s"] for run in runs),
    }
