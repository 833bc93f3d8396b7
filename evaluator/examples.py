"""Pairs as rows of token ids: encoded, batched by length, padded, scored."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from evaluator.dataset import Pair
from evaluator.model import EvaluatorModel, relevance_margin
from evaluator.pairs import PairTokenizer
from evaluator.scoring import Row


@dataclass(frozen=True)
class Example:
    """A pair as token ids with what the model should say: p(Relevant), softened or not."""

    ids: tuple[int, ...]
    target: float
    pair: Pair


def encoded(pairs: Sequence[Pair], rows: PairTokenizer) -> list[Example]:
    """The pairs that can be encoded, as examples with hard targets."""
    found = rows.encode("relevance", [(pair.question, pair.passage) for pair in pairs])
    return [
        Example(row.ids, float(pair.relevant), pair)
        for row, pair in zip(found, pairs, strict=True)
        if isinstance(row, Row)
    ]


def batches(examples: Sequence[Example], tokens: int, seed: int) -> Iterator[list[Example]]:
    """Endless batches of like length, at most `tokens` padded; epoch after epoch, seeded."""
    epoch = 0
    while True:
        dice = random.Random(f"{seed} {epoch}")
        order = list(examples)
        dice.shuffle(order)
        found: list[list[Example]] = []
        for start in range(0, len(order), 2048):
            found += _cut(sorted(order[start : start + 2048], key=lambda e: len(e.ids)), tokens)
        dice.shuffle(found)
        yield from found
        epoch += 1


def _cut(ordered: Sequence[Example], tokens: int) -> list[list[Example]]:
    cut: list[list[Example]] = []
    for example in ordered:
        if cut and (len(cut[-1]) + 1) * len(example.ids) <= tokens:
            cut[-1].append(example)
        else:
            cut.append([example])
    return cut


def padded(rows: Sequence[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
    """Token ids and mask, both (rows, longest)."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    return ids, mask


def margins_of(
    examples: Sequence[Example], score: Callable[[Tensor, Tensor], Tensor]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Scores of all examples, in their order, computed in batches of like length."""
    order = sorted(range(len(examples)), key=lambda i: len(examples[i].ids))
    scores = np.zeros(len(examples))
    with torch.inference_mode():
        for start in range(0, len(order), 32):
            numbers = order[start : start + 32]
            scores[numbers] = score(*padded([examples[i].ids for i in numbers])).numpy()
    return scores


def validation(network: EvaluatorModel, check: Sequence[Example]) -> dict[str, dict[str, float]]:
    """AUC of hard pairs per source, and the number of pairs it stands on."""
    network.eval()
    margins = margins_of(check, lambda ids, mask: relevance_margin(network(ids, mask)))
    figures: dict[str, dict[str, float]] = {}
    for source in sorted({example.pair.source for example in check}):
        numbers = [i for i, example in enumerate(check) if example.pair.source == source]
        labels = [check[i].pair.relevant for i in numbers]
        if len(set(labels)) == 2:
            auc = float(roc_auc_score(labels, margins[numbers]))
            figures[source] = {"auc": round(auc, 4), "pairs": len(numbers)}
    return figures
