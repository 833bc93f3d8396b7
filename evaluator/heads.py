"""The last linear step of the taught tasks, fitted anew when the layers below have settled.

Gradient steps leave it short of what a regression finds in the same numbers: in what the decoder
made of a pair, and beside it in all that it was told. One strongly regularised regression a task.
"""

import random
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from evaluator.examples import Example, computed, places
from evaluator.loop import Say
from evaluator.model import EvaluatorModel
from evaluator.schema import LABELS, Task

_MOST_TOKENS = 400_000  # a task: a few minutes on two cores
_STRENGTH = 0.003  # inverse of the regularisation


def fit_heads(network: EvaluatorModel, examples: Sequence[Example], seed: int, say: Say) -> None:
    """Fit `head` and `wide` for every task but relevance, in place, on rows read once each."""
    network.eval()
    for task in LABELS:
        mine = list({example.ids: example for example in examples if example.task == task}.values())
        mine = _some(mine, random.Random(seed))
        if task != "relevance" and len({example.label for example in mine}) > 1:
            _fit(network, task, mine)
            say(f"last step of {task} fitted on {len(mine)} rows")


def _some(examples: Sequence[Example], dice: random.Random) -> list[Example]:
    """In random order, as many as the tokens allow."""
    shuffled = dice.sample(examples, len(examples))
    read = accumulate(len(example.ids) for example in shuffled)
    return [e for e, tokens in zip(shuffled, read, strict=True) if tokens <= _MOST_TOKENS]


def _fit(network: EvaluatorModel, task: Task, examples: Sequence[Example]) -> None:
    device = network.head.weight.device

    def features(ids: Tensor, mask: Tensor) -> Tensor:
        told, decoded, _ = network.considered(ids.to(device), mask.to(device))
        return torch.cat([told, decoded], dim=1)

    labels = np.array([example.label for example in examples])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=_STRENGTH, max_iter=500))
    scaler, fitted = model.fit(computed(examples, features), labels)
    coefficients, offsets = _a_row_a_class(fitted)
    weights = coefficients / scaler.scale_
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
