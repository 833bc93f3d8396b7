"""Labelled texts as rows of token ids with what the model should say; their mix; their figures."""

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from evaluator.data.judgements import Judgement
from evaluator.data.relevance_pairs import Pair
from evaluator.inference.scorer import Row
from evaluator.model.t5 import EvaluatorModel
from evaluator.model.tokenization import REFLECTION_TOKENS, PairTokenizer
from evaluator.schema import LABELS, UTILITY_WEIGHTS, Task
from evaluator.training.options import Part

OFTEN = 6
Figures = dict[str, dict[str, float]]
Labelled = TypeVar("Labelled", Pair, Judgement)


@dataclass(frozen=True, slots=True)
class Example:
    """One row: `target` is the probability of each of LABELS[task], softened or not."""

    ids: tuple[int, ...]
    task: Task
    target: tuple[float, ...]
    language: str
    source: str
    kind: str
    pair: Pair | None = None  # of relevance

    @property
    def label(self) -> int:
        """The place of the likeliest label."""
        return self.target.index(max(self.target))


def of_pairs(pairs: Sequence[Pair], rows: PairTokenizer) -> list[Example]:
    """Relevance pairs that can be encoded, with hard targets."""
    found = rows.encode("relevance", [(pair.question, pair.passage) for pair in pairs])
    return [
        Example(
            row.ids, "relevance", _hard("relevance", 0 if pair.relevant else 1),
            pair.language, pair.source, pair.kind, pair,
        )
        for row, pair in zip(found, pairs, strict=True)
        if isinstance(row, Row)
    ]  # fmt: skip


def of_judgements(judgements: Sequence[Judgement], rows: PairTokenizer) -> list[Example]:
    """Rows of the other tasks that can be encoded, with hard targets."""
    examples: list[Example] = []
    for task in LABELS:
        mine = [judgement for judgement in judgements if judgement.task == task]
        found = rows.encode(task, [(judgement.first, judgement.second) for judgement in mine])
        examples += [
            Example(
                row.ids, task, _hard(task, LABELS[task].index(judgement.label)),
                judgement.language, judgement.source, judgement.kind,
            )
            for row, judgement in zip(found, mine, strict=True)
            if isinstance(row, Row)
        ]  # fmt: skip
    return examples


def _hard(task: Task, label: int) -> tuple[float, ...]:
    return tuple(float(place == label) for place in range(len(LABELS[task])))


def mixed(
    pairs: Sequence[Pair],
    judgements: Sequence[Judgement],
    shares: Mapping[Part, float],
    most: int,
    seed: int,
) -> tuple[list[Pair], list[Judgement]]:
    """About `most` of both in which each part has its share, languages and sources evened out.

    A source is drawn from in proportion to the square root of its size, a row OFTEN times at
    most.
    """
    dice = random.Random(seed)
    parts: dict[Part, list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        parts[_part(judgement)].append(judgement)
    share = {part: value for part, value in shares.items() if part == "relevance" or part in parts}
    each = {part: round(most * value / sum(share.values())) for part, value in share.items()}
    drawn: list[Judgement] = []
    for part, found in parts.items():
        drawn += _evened(found, each.get(part, 0), dice)
    return _evened(pairs, each.get("relevance", 0), dice), drawn


def _part(judgement: Judgement) -> Part:
    if judgement.task == "support" or judgement.task == "utility":
        return "natural" if judgement.kind.startswith("natural") else judgement.task
    return "evidence" if judgement.second else "need"


def _evened(items: Sequence[Labelled], most: int, dice: random.Random) -> list[Labelled]:
    groups: dict[tuple[str, str], list[Labelled]] = {}
    for item in items:
        groups.setdefault((item.language, item.source), []).append(item)
    whole = sum(len(found) ** 0.5 for found in groups.values())
    drawn: list[Labelled] = []
    for found in groups.values():
        wanted = min(round(most * len(found) ** 0.5 / whole), OFTEN * len(found))
        times, rest = divmod(wanted, len(found))
        drawn += times * found + dice.sample(found, rest)
    return drawn


def padded(rows: Sequence[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
    """Token ids and mask, both (rows, longest)."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    return ids, mask


def places(task: Task) -> slice:
    """Where the task's labels stand among REFLECTION_TOKENS."""
    first = REFLECTION_TOKENS.index(LABELS[task][0])
    return slice(first, first + len(LABELS[task]))


def computed(
    examples: Sequence[Example], compute: Callable[[Tensor, Tensor], Tensor]
) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """What `compute(ids, mask)` gives, in the examples' order, by batches of like length."""
    order = sorted(range(len(examples)), key=lambda i: len(examples[i].ids))
    found: list[Tensor] = []
    with torch.inference_mode():
        for start in range(0, len(order), 32):
            ids, mask = padded([examples[i].ids for i in order[start : start + 32]])
            found.append(compute(ids, mask).float().cpu())
    values = torch.cat(found).numpy().astype(np.float64)
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
    for name, values in figures.items():
        tasks[name.split()[0]].append(values["figure"])
    return {task: round(sum(found) / len(found), 4) for task, found in tasks.items()}
