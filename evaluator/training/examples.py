"""Training examples: options of a run, labelled texts as token ids, their mix, their figures."""

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from evaluator.data.records import HELD_BACK_PERCENT, JudgementRow
from evaluator.data.relevance_pairs import Pair
from evaluator.inference.scorer import HasIds, padded
from evaluator.model.t5 import EvaluatorModel
from evaluator.model.tokenization import REFLECTION_TOKENS, PairTokenizer
from evaluator.schema import LABELS, UTILITY_WEIGHTS, Row, Task

MAX_REPEATS = 6
Figures = dict[str, dict[str, float]]
Labelled = TypeVar("Labelled", Pair, JudgementRow)

Part = Literal["natural", "support", "utility", "evidence", "need"]
"""What rows are drawn by. Support and utility that a data set itself labels are `natural`, made
ones go by their task; retrieval's rows with evidence at hand and without are two parts."""

SHARES: dict[Part, float] = {
    "natural": 0.18, "support": 0.14, "utility": 0.12, "evidence": 0.08, "need": 0.48,
}  # fmt: skip
"""Rows of `need` are a fifth as long as others. Relevance is left to the measures: in two trials
the decoder brought nothing that they do not say."""


@dataclass(frozen=True)
class TrainOptions:
    """How a run goes; the model card tells what the shipped weights' run was given."""

    seed: int = 1
    minutes: float = 60.0
    rows: int = 70_000
    batch_tokens: int = 3072
    train_length: int = 192
    own_layers: int = 6
    joint_layers: int = 2
    learning_rate: float = 1e-3
    nearness_rows: int = 9000
    init: Literal["minilm", "none"] = "minilm"
    languages: tuple[str, ...] = ("en", "zh")
    shares: dict[Part, float] = field(default_factory=lambda: dict(SHARES))
    distil_steps: int = 600
    coverage_steps: int = 1500
    coverage_tokens: int = 8192
    held_back_percent: int = HELD_BACK_PERCENT
    judgements: int = 10_000
    check_every: int = 400
    min_count: int = 2  # of a Chinese character in the training text


@dataclass(frozen=True, slots=True)
class Example:
    """One row; `label` is the place of the right token among LABELS[task]."""

    ids: tuple[int, ...]
    task: Task
    label: int
    language: str
    source: str
    kind: str


def of_pairs(pairs: Sequence[Pair], tokenizer: PairTokenizer) -> list[Example]:
    """Relevance pairs that can be encoded."""
    rows = tokenizer.encode("relevance", [(pair.question, pair.passage) for pair in pairs])
    return [
        Example(row.ids, "relevance", int(not pair.relevant), pair.language, pair.source, pair.kind)
        for row, pair in zip(rows, pairs, strict=True)
        if isinstance(row, Row)
    ]


def of_judgements(judgements: Sequence[JudgementRow], tokenizer: PairTokenizer) -> list[Example]:
    """Rows of the other tasks that can be encoded."""
    examples: list[Example] = []
    for task, labels in LABELS.items():
        mine = [judgement for judgement in judgements if judgement.task == task]
        rows = tokenizer.encode(task, [(judgement.first, judgement.second) for judgement in mine])
        examples += [
            Example(row.ids, task, labels.index(own.label), own.language, own.source, own.kind)
            for row, own in zip(rows, mine, strict=True)
            if isinstance(row, Row)
        ]
    return examples


def mixed(
    judgements: Sequence[JudgementRow], shares: Mapping[Part, float], count: int, seed: int
) -> list[JudgementRow]:
    """About `count` rows in which each part has its share, languages and sources evened out."""
    rng = random.Random(seed)
    parts: dict[Part, list[JudgementRow]] = defaultdict(list)
    for judgement in judgements:
        parts[_part(judgement)].append(judgement)
    present = {part: value for part, value in shares.items() if part in parts}
    drawn: list[JudgementRow] = []
    for part, rows in parts.items():
        drawn += evened(rows, round(count * shares.get(part, 0.0) / sum(present.values())), rng)
    return drawn


def _part(judgement: JudgementRow) -> Part:
    if judgement.task == "support" or judgement.task == "utility":
        return "natural" if judgement.kind.startswith("natural") else judgement.task
    return "evidence" if judgement.second else "need"


def evened(rows: Sequence[Labelled], count: int, rng: random.Random) -> list[Labelled]:
    """About `count` rows, each source in proportion to the square root of its size.

    A row is drawn MAX_REPEATS times at most.
    """
    groups: dict[tuple[str, str], list[Labelled]] = {}
    for row in rows:
        groups.setdefault((row.language, row.source), []).append(row)
    whole = sum(len(group) ** 0.5 for group in groups.values())
    drawn: list[Labelled] = []
    for group in groups.values():
        wanted = min(round(count * len(group) ** 0.5 / whole), MAX_REPEATS * len(group))
        times, rest = divmod(wanted, len(group))
        drawn += times * group + rng.sample(group, rest)
    return drawn


def batch_tensors(rows: Sequence[HasIds]) -> tuple[Tensor, Tensor]:
    """Token ids and mask, both (rows, longest)."""
    ids, mask = padded(rows)
    return torch.from_numpy(ids), torch.from_numpy(mask)


def places(task: Task) -> slice:
    """Where the task's labels stand among REFLECTION_TOKENS."""
    first = REFLECTION_TOKENS.index(LABELS[task][0])
    return slice(first, first + len(LABELS[task]))


def computed(
    examples: Sequence[Example], compute: Callable[[Tensor, Tensor], Tensor]
) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """What `compute(ids, mask)` gives, in the examples' order, by batches of like length."""
    order = sorted(range(len(examples)), key=lambda i: len(examples[i].ids))
    parts: list[Tensor] = []
    with torch.inference_mode():
        for start in range(0, len(order), 32):
            ids, mask = batch_tensors([examples[i] for i in order[start : start + 32]])
            parts.append(compute(ids, mask).float().cpu())
    values = torch.cat(parts).numpy().astype(np.float64)
    back = np.empty_like(values)
    back[order] = values
    return back


def validation(network: EvaluatorModel, check: Sequence[Example]) -> Figures:
    """Figures by `task source`: AUC for relevance, support and utility, accuracy for retrieval.

    Support tells full from no support, utility the grade by its expectation; rows of retrieval
    are right where the likeliest token is. Without rows there are no figures.
    """
    if not check:
        return {}
    network.eval()
    device = next(network.parameters()).device
    logits = computed(check, lambda ids, mask: network(ids.to(device), mask.to(device)))
    groups: dict[tuple[Task, str], list[int]] = defaultdict(list)
    for number, example in enumerate(check):
        groups[example.task, example.source].append(number)
    figures: Figures = {}
    for (task, source), numbers in sorted(groups.items()):
        labels = np.array([check[i].label for i in numbers])
        figure = _figure(task, labels, logits[numbers][:, places(task)])
        if figure is not None:
            figures[f"{task} {source}"] = {"figure": round(figure, 4), "rows": len(numbers)}
    return figures


def _figure(task: Task, labels: Any, logits: Any) -> float | None:
    if task == "retrieval":
        return float((logits.argmax(1) == labels).mean())
    shares = np.exp(logits - logits.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    if task == "utility":
        score, right, wrong = shares @ np.array(UTILITY_WEIGHTS), labels >= 3, labels <= 1
    else:
        last = len(LABELS[task]) - 1
        score, right, wrong = shares[:, 0] - shares[:, last], labels == 0, labels == last
    clear = right | wrong
    if not right.any() or not wrong.any():
        return None
    return float(roc_auc_score(right[clear], score[clear]))


def summary(figures: Figures) -> dict[str, float]:
    """The mean figure of each task over its sources."""
    tasks: dict[str, list[float]] = defaultdict(list)
    for name, of_source in figures.items():
        tasks[name.split()[0]].append(of_source["figure"])
    return {task: round(sum(values) / len(values), 4) for task, values in tasks.items()}
