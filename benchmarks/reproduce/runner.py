"""Asks every arm of every experiment every question; what was measured is kept, not asked again."""

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from math import ceil
from pathlib import Path

from app.extensions.evaluation.judge import EvaluatorJudge
from app.extensions.evaluation.measures import Judged, Measured, Outcome
from app.extensions.evaluation.runner import fingerprint_of
from app.settings import Settings, load_settings
from benchmarks.reflection.runs import Asker, asker
from benchmarks.reproduce.costs import MeteredEvaluator, metered_evaluator
from benchmarks.reproduce.experiments import NEEDS, Arm, Experiment, Inquiry
from benchmarks.reproduce.formats import BenchmarkExample
from benchmarks.reproduce.material import BenchmarkCase, BenchmarkSet, RecordedWeb
from benchmarks.reproduce.measures import question_of, values_of
from evaluator.settings import EvaluatorSettings
from graphs.critics.evaluator import EvaluatorCritic
from graphs.ports import Services
from tests.fakes import FakeRetriever

VERSION = 1
"""Of what is kept: raised where the same run would be measured otherwise."""

Results = dict[str, list[Measured]]
"""Values of each question by arm, in the order of the questions."""
Models = dict[str, str]
"""Names of the models of the first arm, by their part."""


class KeptValues:
    """What was measured, by digest of all it depends on: a line each, a torn one is lost."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, Measured] = {}
        for line in file.read_text("utf-8").splitlines() if file.exists() else ():
            try:
                key, values = json.loads(line)
            except ValueError:
                continue
            self._known[key] = values

    def get(self, key: str) -> Measured | None:
        return self._known.get(key)

    def keep(self, key: str, values: Measured) -> None:
        self._known[key] = values
        with self._file.open("a", encoding="utf-8") as out:
            out.write(f"\n{json.dumps([key, values])}")


@dataclass(frozen=True, slots=True)
class Bench:
    """Where a set's questions are asked; `folder` holds the index, `web` None is the settings'."""

    found: BenchmarkSet
    cases: Sequence[BenchmarkCase]
    folder: Path
    web: RecordedWeb | None
    kept: KeptValues
    seed: int
    say: Callable[[str], None]


def is_there(need: str) -> bool:
    """Whether the settings of the environment bring what an arm needs."""
    if not need:
        return True
    setting, _ = NEEDS[need]
    of_worker = setting.removeprefix("evaluator_")
    if of_worker != setting:
        return getattr(EvaluatorSettings(), of_worker) is not None
    return setting in load_settings(Settings).model_fields_set


async def run(
    experiments: Mapping[str, Experiment], bench: Bench
) -> tuple[Models, dict[str, Results]]:
    """Of those that the set's kind belongs to, every arm that has what it needs.

    All that is asked of one question is asked in turn, for grades are known then. Raises RunFailed.
    """
    kind = bench.found.examples[0].kind
    models: Models = {}
    chosen = {name: each for name, each in experiments.items() if kind in each.kinds}
    results: dict[str, Results] = {name: {} for name in chosen}
    async with AsyncExitStack() as stack:
        opened: dict[str, Asker] = {}
        for n, case in enumerate(bench.cases):
            following = bench.cases[(n + 1) % len(bench.cases)]
            for name, experiment in chosen.items():
                if n >= ceil(len(bench.cases) * experiment.share):
                    continue
                for arm in experiment.arms:
                    if not is_there(arm.needs):
                        continue
                    inquiry = (arm.setup or experiment.setup)(case, following, bench.seed)
                    is_searched, is_timed = inquiry.passages is None, experiment.timed
                    parts = json.dumps([dict(arm.settings), is_searched, is_timed])
                    if parts not in opened:
                        asked = _asker(arm, bench, is_searched=is_searched, is_timed=is_timed)
                        opened[parts] = await stack.enter_async_context(asked)
                        models = models or _models(opened[parts].services)
                    values = await _values(
                        case.example, inquiry, arm, experiment, bench, opened[parts]
                    )
                    results[name].setdefault(arm.name, []).append(values)
            bench.say(f"{bench.found.name}: question {n + 1} of {len(bench.cases)}")
    return models, results


def _models(services: Services) -> Models:
    return {
        "generator": services.chat_name,
        "evaluator": services.evaluator.name,
        "embedder": services.embedder_name,
    }


@asynccontextmanager
async def _asker(
    arm: Arm, bench: Bench, *, is_searched: bool, is_timed: bool
) -> AsyncIterator[Asker]:
    """The service's parts; where passages are given, nothing else is retrieved."""
    search = "off" if bench.web is not None else load_settings(Settings).search
    async with AsyncExitStack() as stack:
        metered = await stack.enter_async_context(metered_evaluator()) if is_timed else None

        def changed(services: Services) -> Services:
            if bench.web is not None:
                services = replace(services, web_search=bench.web)
            if not is_searched:
                services = replace(services, retriever=FakeRetriever())
            if metered is not None:
                critic = EvaluatorCritic(metered, metered.bars)
                services = replace(services, evaluator=metered, critic=critic)
            return services

        opening = asker(bench.folder, changed, search=search, **arm.settings)
        yield await stack.enter_async_context(opening)


async def _values(
    example: BenchmarkExample, inquiry: Inquiry, arm: Arm, experiment: Experiment, bench: Bench,
    asked: Asker,
) -> Measured:  # fmt: skip
    services = asked.services
    key = _key(example, inquiry, arm, experiment, bench, services)
    if (known := bench.kept.get(key)) is not None:
        return known
    options = {"choices": list(example.choices), **arm.options}
    told = await asked.ask(arm.workflow, inquiry.question, inquiry.passages or (), **options)
    outcome = Outcome.of(told.response, told.passages)
    judged = Judged()
    if experiment.judged:
        question = question_of(example, inquiry)
        judged, _ = await EvaluatorJudge(services.evaluator).judge(question, outcome)
    values = values_of(example, inquiry, told.response, outcome, judged)
    if isinstance(services.evaluator, MeteredEvaluator):
        gflops = round(services.evaluator.gflops(), 3)
        load = round(os.getloadavg()[0], 2)
        values |= {"seconds": round(told.elapsed_s, 4), "load": load, "gflops": gflops}
    bench.kept.keep(key, values)
    return values


def _key(
    example: BenchmarkExample, inquiry: Inquiry, arm: Arm, experiment: Experiment, bench: Bench,
    services: Services,
) -> str:  # fmt: skip
    """Of everything that the values depend on; the experiment's name is none of it."""
    parts = {
        "version": VERSION,
        "example": asdict(replace(example, evidence=())),
        "inquiry": asdict(inquiry),
        "workflow": arm.workflow,
        "options": dict(arm.options),
        "settings": dict(arm.settings),
        "judged": experiment.judged,
        "timed": experiment.timed,
        "services": fingerprint_of(services, ()),
        "knowledge": bench.found.digest if inquiry.passages is None else "",
        "web": bench.web.name if bench.web is not None else "live",
    }
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
