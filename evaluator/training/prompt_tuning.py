"""One judgement trained further, the others left as they are to the bit.

A task has a token in its rows, a vector in the decoder and its outputs to itself. These alone are
trained, the network that reads stays: prompt tuning (Lester et al., 2021, arXiv 2104.08691).
"""

import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from evaluator.data import records
from evaluator.errors import DataError
from evaluator.model import t5
from evaluator.model.checkpoint import check_folder
from evaluator.model.t5 import FIRST_TASK
from evaluator.model.tokenization import PairTokenizer
from evaluator.schema import TASKS, Task
from evaluator.training.train import (
    CHECKPOINT,
    Evaluating,
    Example,
    Group,
    Log,
    TrainOptions,
    divided_records,
    evened,
    fit,
    judgements,
    of_judgements,
    part_of,
    places,
    refuse_another_run,
    sampled,
    summary,
    validation,
)

RATE = 3e-3  # few numbers are trained, and they cannot spoil what reads


def tune(task: Task, data: Path, out: Path, work: Path, options: TrainOptions, log: Log) -> None:
    """Train what `task` has to itself of the evaluator in `options.init`, write all to `out`.

    The same call after a kill goes on where the last checkpoint in `work` stands. DataError where
    the data has no rows of the task, and for relevance, which `train` alone makes pairs for.
    """
    torch.manual_seed(options.seed)
    identity = {"task": task, "options": asdict(options), "data": records.digests(data)}
    refuse_another_run(work / CHECKPOINT, identity)
    folder = Path(options.init)
    if not folder.is_dir():
        raise DataError(f"{options.init} is no evaluator's folder: a task is tuned in one.")
    network = t5.load(folder, check_folder(folder))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    rows = PairTokenizer(tokenizer, options.train_length)
    *_, key = divided_records(data, options, log)
    known, held = (
        of_judgements([row for row in side if row.task == task], rows)
        for side in judgements(data, options, key)
    )
    if not known or not held:
        raise DataError(f"{data} holds no rows of {task} to train on and to choose by.")
    taught = in_equal_parts(known, options.seed)
    check = [row for group in held for row in group]
    log(f"{len(taught)} rows of {task}, {len(check)} rows held back")
    learner = TaskTuning(network, check, options, task)
    story = fit(learner, taught, options, work / CHECKPOINT, identity, log)

    network.config.tasks = [each for each in TASKS if each in {*network.config.tasks, task}]
    made_by = network.config.made_by
    kinds = Counter(row.kind for group in taught for row in group)
    story = {**identity, "training": story, "kinds": dict(sorted(kinds.items()))}
    made_by["tuned"] = {**made_by.get("tuned", {}), task: story}
    made_by["validation"] = {
        **made_by.get("validation", {}),
        **validation(network, sampled(check, 4)),
    }
    out.mkdir(parents=True, exist_ok=True)
    for stale in ("thresholds.json", "measured.json", "model.onnx"):
        (out / stale).unlink(missing_ok=True)  # it belonged to other weights
    t5.save(network, out)
    if out.resolve() != folder.resolve():
        shutil.copyfile(folder / "tokenizer.json", out / "tokenizer.json")
    log(f"weights written to {out}")


def in_equal_parts(groups: Sequence[Group], seed: int) -> list[Group]:
    """Of each part of a task as many as of its largest, within it of each language as many."""
    parts: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        parts[part_of(group[0])].append(group)
    rng, most = random.Random(seed), max(map(len, parts.values()))
    return [group for mine in parts.values() for group in evened(mine, most, rng)]


@dataclass
class TaskTuning(Evaluating):
    """Trains the rows of the shared matrices that `task` alone reads."""

    task: Task

    def groups(self) -> list[dict[str, Any]]:
        """One group, in which nothing decays: what gets no gradient stays to the bit."""
        network, number = self.network, TASKS.index(self.task)
        token = slice(FIRST_TASK + number, FIRST_TASK + number + 1)
        own = {
            network.t5.shared.weight: token,
            network.tasks.weight: slice(number, number + 1),
            network.head.weight: places(self.task),
            network.head.bias: places(self.task),
        }
        network.requires_grad_(False)
        for parameter, rows in own.items():
            parameter.requires_grad_(True)
            parameter.register_hook(partial(_only, rows))  # type: ignore[no-untyped-call]
        return [{"params": list(own), "lr": RATE, "weight_decay": 0.0}]

    def validation(self) -> tuple[float, str]:
        """The mean figure of the task's parts, each the mean of its sources."""
        parts: dict[str, list[Example]] = defaultdict(list)
        for row in self.check:
            parts[part_of(row)].append(row)
        means = {
            part: summary(validation(self.network, rows))[self.task] for part, rows in parts.items()
        }
        told = ", ".join(f"{part} {mean:.3f}" for part, mean in means.items())
        return sum(means.values()) / len(means), told


def _only(rows: slice, gradient: Tensor) -> Tensor:
    kept = torch.zeros_like(gradient)
    kept[rows] = gradient[rows]
    return kept
