"""Regressions on the network's features: the relevance weighing, and the decoder's last step.

Gradient steps leave the last linear step of the taught tasks short of what a regression finds in
the same numbers: in what the decoder made of a pair, and beside it in all that it was given.
"""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from evaluator.model.features import BEST_KINDS
from evaluator.model.t5 import EvaluatorModel
from evaluator.schema import LABELS, Task
from evaluator.training.examples import Example, computed, places, summary, validation
from evaluator.training.loop import Log

_MAX_TOKENS = 300_000  # of labelled, of constructed and of our own rows each
_STILL = 1e-4  # a deviation below which a number says nothing, and its weight would overflow
_STRENGTH = 0.003  # inverse of the regularisation

KINDS = ("positive", "words", "random")
"""The pairs it is fitted on. Negatives mined by meaning are left out: chosen for a high cosine,
they would teach distrust of it."""


def weighable(width: int) -> list[int]:
    """Places of the measures that the weighing reads, of `width`.

    Not the best words' kinds: all but a few of the pairs hold a word of the kind asked for, and a
    line through these few becomes so steep that it throws out short passages that answer. The
    coverage, which bends, reads them still.
    """
    return [place for place in range(width) if place not in BEST_KINDS]


def weighing(measures: Any, relevant: Sequence[bool], sources: Sequence[str]) -> Pipeline:
    """Logistic regression over standardised measures (pairs, measures).

    Every source weighs the same, with about as many negatives to a positive as the Chinese coverage
    is fitted on, so that one pair of thresholds fits both languages. Linear, as a network over the
    same measures was no better on data sets left out of training (benchmarks/evaluator.md).
    """
    counts = Counter(sources)
    alike = [len(sources) / len(counts) / counts[source] for source in sources]
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.3, max_iter=3000))
    model.fit(measures, relevant, logisticregression__sample_weight=alike)
    return model


def fit_nearness(network: EvaluatorModel, examples: Sequence[Example], log: Log) -> None:
    """Weigh the network's measures on the English examples of KINDS; one class alone: no change."""
    english = [e for e in examples if e.language == "en" and e.kind in KINDS]
    relevant = [example.label == 0 for example in english]
    if len(set(relevant)) < 2:
        return
    measures = computed(english, network.measures)
    places = weighable(measures.shape[1])
    scaler, fitted = weighing(measures[:, places], relevant, [e.source for e in english])
    weights = fitted.coef_[0] / scaler.scale_
    with torch.no_grad():
        network.nearness.weight.zero_()
        network.nearness.weight[0, places] = torch.from_numpy(weights).float()
        network.nearness.bias.fill_(float(fitted.intercept_[0] - weights @ scaler.mean_))
    log(f"measures weighed on {len(english)} English pairs")


def fit_heads(
    network: EvaluatorModel,
    examples: Sequence[Example],
    check: Sequence[Example],
    seed: int,
    log: Log,
) -> None:
    """Fit `head` and `wide` for every task but relevance, in place, on rows read once each.

    A task for which `check` finds the new step no better keeps its old one.
    """
    network.eval()
    for task in LABELS:
        mine = list({example.ids: example for example in examples if example.task == task}.values())
        mine = _some(mine, random.Random(seed))
        if task == "relevance" or len({example.label for example in mine}) < 2:
            continue
        checked = [example for example in check if example.task == task]
        before, kept = _figure(network, checked), _last_step(network)
        _fit(network, task, mine)
        after = _figure(network, checked)
        log(f"last step of {task} fitted on {len(mine)} rows: {before:.3f} became {after:.3f}")
        if after <= before:
            network.load_state_dict(kept, strict=False)


def _figure(network: EvaluatorModel, check: Sequence[Example]) -> float:
    return sum(summary(validation(network, check)).values())


def _last_step(network: EvaluatorModel) -> dict[str, Tensor]:
    state = network.state_dict()
    return {name: state[name].clone() for name in ("head.weight", "head.bias", "wide.weight")}


def _some(examples: Sequence[Example], rng: random.Random) -> list[Example]:
    """As many as the tokens allow of those a data set labels, of made ones, and of our own."""
    read: Counter[str] = Counter()
    chosen: list[Example] = []
    for example in rng.sample(examples, len(examples)):
        part = "own" if example.source == "own" else example.kind.partition(" ")[0]
        read[part] += len(example.ids)
        if read[part] <= _MAX_TOKENS:
            chosen.append(example)
    return chosen


def _fit(network: EvaluatorModel, task: Task, examples: Sequence[Example]) -> None:
    device = network.head.weight.device

    def features(ids: Tensor, mask: Tensor) -> Tensor:
        inputs, decoded, _ = network.considered(ids.to(device), mask.to(device))
        return torch.cat([inputs, decoded], dim=1)

    labels = np.array([example.label for example in examples])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=_STRENGTH, max_iter=500))
    scaler, fitted = model.fit(computed(examples, features), labels)
    coefficients, offsets = _a_row_a_class(fitted)
    still = scaler.scale_ < _STILL
    weights = np.where(still, 0.0, coefficients / np.where(still, 1.0, scaler.scale_))
    biases = offsets - weights @ scaler.mean_
    rows = [places(task).start + label for label in fitted.classes_]
    known = network.wide.in_features
    with torch.no_grad():
        network.wide.weight[rows] = torch.from_numpy(weights[:, :known]).float().to(device)
        network.head.weight[rows] = torch.from_numpy(weights[:, known:]).float().to(device)
        network.head.bias[rows] = torch.from_numpy(biases).float().to(device)


def _a_row_a_class(fitted: LogisticRegression) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (classes, features) and offsets; of two classes the regression keeps one row."""
    if len(fitted.classes_) > 2:
        return fitted.coef_, fitted.intercept_
    halves = np.array([[-0.5], [0.5]])
    return halves * fitted.coef_, halves[:, 0] * fitted.intercept_
