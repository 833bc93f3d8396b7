"""Relevance from all measures: one linear weighing in which every data set counts alike."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from evaluator.model.matching import BEST_KINDS
from evaluator.model.t5 import EvaluatorModel
from evaluator.training.examples import Example, computed
from evaluator.training.loop import Say

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


def fit_nearness(network: EvaluatorModel, examples: Sequence[Example], say: Say) -> None:
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
    say(f"measures weighed on {len(english)} English pairs")
