"""What each ingredient of the relevance score brings, on data sets left out of training.

    python -m benchmarks.evaluator_ingredients DATA BEGINNING --left-out SET ... [--out FOLDER]

DATA holds every set. BEGINNING is the folder `beginning` of a training run on a folder without the
left-out sets: `selfcrag-evaluator train --data OTHERS --out DIR --work WORK` leaves it in WORK.
Every variant weighs the same measures of the same pairs; one JSON file a variant goes to FOLDER,
for `python -m benchmarks.evaluator --ablations FOLDER`.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evaluator.beginning import kept
from evaluator.dataset import Pair, pairs_of
from evaluator.examples import computed, mixed, of_pairs
from evaluator.matching import PAIR_FEATURES
from evaluator.measure import contests
from evaluator.model import EvaluatorModel
from evaluator.pairs import PairTokenizer
from evaluator.records import data_files, read_file

Measures = Any  # (pairs, PAIR_FEATURES + CLOSENESS + 1): matching, nearness, the coverage's logit
Weigh = Callable[["Known"], Callable[[Measures], Any]]
WORDS = [*range(PAIR_FEATURES), -1]
LENGTH = 192


@dataclass
class Known:
    """The pairs that variants are fitted on."""

    measures: Measures
    relevant: Any
    kind: Any


def linear(columns: Any = slice(None), kinds: tuple[str, ...] = ()) -> Weigh:
    """Logistic regression over some measures, of some kinds of pairs."""

    def weigh(known: Known) -> Callable[[Measures], Any]:
        chosen = np.isin(known.kind, kinds) if kinds else np.ones(len(known.kind), dtype=bool)
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.3, max_iter=3000))
        model.fit(known.measures[chosen][:, columns], known.relevant[chosen])
        return lambda measures: model.decision_function(measures[:, columns])

    return weigh


def network(known: Known) -> Callable[[Measures], Any]:
    """A small network over all measures."""
    layers = MLPClassifier((32,), alpha=0.05, early_stopping=True, max_iter=300, random_state=0)
    model = make_pipeline(StandardScaler(), layers).fit(known.measures, known.relevant)
    return lambda measures: model.predict_proba(measures)[:, 1]


def one(column: int) -> Weigh:
    """A single measure as it is."""
    return lambda _: lambda measures: measures[:, column]


VARIANTS: dict[str, tuple[str, Weigh]] = {
    "1 coverage": ("coverage measures alone", one(-1)),
    "2 initialisation": ("cosine of means, by the layers taken over alone", one(PAIR_FEATURES)),
    "3 late interaction": ("tokens' best matches, by these layers", one(PAIR_FEATURES + 2)),
    "4 words, weighed": ("matching and coverage, without the layers", linear(WORDS)),
    "5 all, weighed": ("as shipped in English", linear()),
    "6 easy negatives": (
        "the same, weighed on random negatives only", linear(kinds=("positive", "random")),
    ),
    "7 a network": ("a network of 32 in place of the weighing", network),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("beginning", type=Path)
    parser.add_argument("--left-out", nargs="+", required=True)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--most", type=int, default=80, help="questions of a left-out set")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(".selfcrag/ablations"))
    chosen = parser.parse_args()
    started = time.monotonic()
    torch.manual_seed(chosen.seed)
    begun, tokenizer = kept(chosen.beginning)
    rows = PairTokenizer(tokenizer, LENGTH)
    known = _known(begun.eval(), rows, chosen)
    tests = {name: _test(begun, rows, chosen, name) for name in chosen.left_out}
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name, (what, weigh) in VARIANTS.items():
        score = weigh(known)
        found = {
            test: round(float(roc_auc_score(labels, score(measures))), 4)
            for test, (measures, labels) in tests.items()
        }
        minutes = round((time.monotonic() - started) / 60, 1)
        told = {"name": name, "what": what, "minutes": minutes, "rows": len(known.relevant),
                "validation": {}, "left_out": found}  # fmt: skip
        path = chosen.out / f"{name.replace(' ', '-')}.json"
        path.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
        print(name, found, flush=True)  # noqa: T201 - a script's result


def _known(begun: EvaluatorModel, rows: PairTokenizer, chosen: argparse.Namespace) -> Known:
    files = [path for path in data_files(chosen.data) if path.name.split(".")[0] not in
             chosen.left_out]  # fmt: skip
    records = [record for path in files for record in read_file(path) if record.language == "en"]
    pairs, _ = mixed(
        pairs_of(records, chosen.seed, None), [], {"relevance": 1.0}, chosen.rows, chosen.seed
    )
    examples = of_pairs(pairs, rows)
    relevant = np.array([example.label == 0 for example in examples])
    kinds = np.array([example.kind for example in examples])
    return Known(computed(examples, begun.measures), relevant, kinds)


def _test(
    begun: EvaluatorModel, rows: PairTokenizer, chosen: argparse.Namespace, name: str
) -> tuple[Measures, list[bool]]:
    (path,) = [path for path in data_files(chosen.data) if path.name.split(".")[0] == name]
    asked = [record for record in read_file(path) if record.question and record.relevant]
    pairs = [
        Pair(contest.question, passage, place == 0, "en", name, "contest")
        for contest in contests(asked, chosen.most, chosen.seed)
        for place, passage in enumerate(contest.passages)
    ]
    examples = of_pairs(pairs, rows)
    return computed(examples, begun.measures), [example.label == 0 for example in examples]


if __name__ == "__main__":
    main()
