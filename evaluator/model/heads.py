"""The last linear step of the taught tasks, fitted anew when the layers below have settled.

Gradient steps leave it short of what a regression finds in the same numbers: in what the decoder
made of a pair, and beside it in all that it was told. One strongly regularised regression a task.
"""

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from evaluator.model.t5 import EvaluatorModel
from evaluator.schema import LABELS, Task
from evaluator.training.examples import Example, computed, places, summary, validation
from evaluator.training.loop import Say

_MOST_TOKENS = 300_000  # of labelled, of constructed and of our own rows each
_STILL = 1e-4  # a deviation below which a number says nothing, and its weight would overflow
_STRENGTH = 0.003  # inverse of the regularisation


def fit_heads(
    network: EvaluatorModel,
    examples: Sequence[Example],
    check: Sequence[Example],
    seed: int,
    say: Say,
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
        say(f"last step of {task} fitted on {len(mine)} rows: {before:.3f} became {after:.3f}")
        if after <= before:
            network.load_state_dict(kept, strict=False)


def _figure(network: EvaluatorModel, check: Sequence[Example]) -> float:
    return sum(summary(validation(network, check)).values())


def _last_step(network: EvaluatorModel) -> dict[str, Tensor]:
    state = network.state_dict()
    return {name: state[name].clone() for name in ("head.weight", "head.bias", "wide.weight")}


def _some(examples: Sequence[Example], dice: random.Random) -> list[Example]:
    """As many as the tokens allow of those a data set labels, of made ones, and of our own."""
    read: Counter[str] = Counter()
    chosen: list[Example] = []
    for example in dice.sample(examples, len(examples)):
        part = "own" if example.source == "own" else example.kind.partition(" ")[0]
        read[part] += len(example.ids)
        if read[part] <= _MOST_TOKENS:
            chosen.append(example)
    return chosen


def _fit(network: EvaluatorModel, task: Task, examples: Sequence[Example]) -> None:
    device = network.head.weight.device

    def features(ids: Tensor, mask: Tensor) -> Tensor:
        told, decoded, _ = network.considered(ids.to(device), mask.to(device))
        return torch.cat([told, decoded], dim=1)

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
