"""What each ingredient of the relevance score brings, on data sets left out of training.

    python -m benchmarks.evaluator_ingredients DATA BEGINNING --left-out SET ... [--out FOLDER]

DATA holds every set. BEGINNING is the folder `beginning` of a training run on a folder without the
left-out sets: `selfcrag-evaluator train --data OTHERS --out DIR --work WORK` leaves it in WORK.
Every variant scores the same pairs; one JSON file a variant goes to FOLDER, for
`python -m benchmarks.evaluator --ablations FOLDER`. About 20 minutes on 2 free CPU cores.
"""

import argparse
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tokenizers import Tokenizer
from torch import Tensor

from benchmarks.evaluator_begun import Begun, anew
from evaluator.calibration.evaluate import contests
from evaluator.data.file_formats import data_files
from evaluator.data.hard_negatives import Meaning
from evaluator.data.records import read_file
from evaluator.data.relevance_pairs import Pair, pairs_of
from evaluator.model.features import CLOSENESS, PAIR_FEATURES
from evaluator.model.t5 import EvaluatorModel
from evaluator.model.tokenization import PairTokenizer
from evaluator.training.examples import Example, TrainOptions, computed, evened, of_pairs
from evaluator.training.initialization import KINDS, fit_coverage, kept, weighable, weighing

Measures = Any  # (pairs, PAIR_FEATURES + CLOSENESS + 1): matching, nearness, the coverage's logit
Score = Callable[[Measures], Any]
Weigh = Callable[["Known"], Score]
EVERY = range(PAIR_FEATURES + CLOSENESS + 1)
SHIPPED = weighable(PAIR_FEATURES + CLOSENESS + 1)
WORDS = [*weighable(PAIR_FEATURES), -1]
LENGTH = 192
PARTS = ("weighing", "words")
SOME = 8_000  # records for the words' variants
SQUAD_LIKE = ("en_squad2_half", "en_squadshifts_wiki")


@dataclass
class Known:
    """The pairs that variants are fitted on."""

    measures: Measures
    relevant: Any
    kind: Any
    source: Any

    def of(self, chosen: Any) -> "Known":
        parts = (self.measures, self.relevant, self.kind, self.source)
        return Known(*(part[chosen] for part in parts))


def weighed(
    columns: Sequence[int] = SHIPPED, kinds: Sequence[str] = KINDS, sources: Sequence[str] = ()
) -> Weigh:
    """The shipped weighing over some measures, of some pairs."""

    def weigh(known: Known) -> Score:
        chosen = np.isin(known.kind, kinds)
        mine = known.of(chosen & np.isin(known.source, sources) if sources else chosen)
        model = weighing(mine.measures[:, columns], mine.relevant.tolist(), mine.source.tolist())
        return lambda measures: model.decision_function(measures[:, columns])

    return weigh


def as_they_come(known: Known) -> Score:
    """Every pair counts the same, whatever its set."""
    mine = known.of(np.isin(known.kind, KINDS))
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.3, max_iter=3000))
    model.fit(mine.measures[:, SHIPPED], mine.relevant)
    return lambda measures: model.decision_function(measures[:, SHIPPED])


def network(known: Known) -> Score:
    """A small network over all measures."""
    mine = known.of(np.isin(known.kind, KINDS))
    layers = MLPClassifier((32,), alpha=0.05, early_stopping=True, max_iter=300, random_state=0)
    model = make_pipeline(StandardScaler(), layers).fit(mine.measures[:, SHIPPED], mine.relevant)
    return lambda measures: model.predict_proba(measures[:, SHIPPED])[:, 1]


def one(column: int) -> Weigh:
    """A single measure as it is."""
    return lambda _: lambda measures: measures[:, column]


COSINE = PAIR_FEATURES
VARIANTS: dict[str, tuple[str, Weigh]] = {
    "01 coverage": ("coverage measures alone", one(-1)),
    "02 initialisation": ("cosine of means, by MiniLM's layers taken over", one(COSINE)),
    "03 late interaction": ("tokens' best matches, by these layers", one(COSINE + 2)),
    "04 words, weighed": ("matching and coverage, without the layers", weighed(WORDS)),
    "05 all, weighed": ("as shipped in English", weighed()),
    "06 easy negatives": (
        "weighed on random negatives only", weighed(kinds=("positive", "random")),
    ),
    "07 negatives by meaning": (
        "MiniLM's neighbours among the negatives too", weighed(kinds=(*KINDS, "meaning")),
    ),
    "08 sets as they come": ("each pair counts, not each set", as_they_come),
    "09 SQuAD alone": ("weighed on SQuAD-like sets only", weighed(sources=SQUAD_LIKE)),
    "10 kinds too": ("the best words' kinds weighed too", weighed(EVERY)),
    "11 a network": ("a network of 32 in place of the weighing", network),
}  # fmt: skip


class Run:
    """The pairs of one run, and what the networks under test make of them."""

    def __init__(self, chosen: argparse.Namespace, tokenizer: Tokenizer) -> None:
        self._started, self._out = time.monotonic(), Path(chosen.out)
        self.rows = PairTokenizer(tokenizer, LENGTH)
        files = {path.name.split(".")[0]: path for path in data_files(chosen.data)}
        records = [
            record for name, path in files.items() if name not in chosen.left_out
            for record in read_file(path) if record.language == "en"
        ]  # fmt: skip
        self.texts = sorted({record.passage for record in records})
        self._records, self.known = records, list[Example]()
        self.tests = {
            name: self._contest(files[name], chosen.most, chosen.seed) for name in chosen.left_out
        }
        self._out.mkdir(parents=True, exist_ok=True)

    def _contest(self, path: Path, most: int, seed: int) -> list[Example]:
        asked = [record for record in read_file(path) if record.question and record.relevant]
        pairs = [
            Pair(contest.question, passage, place == 0, "en", path.name, "contest")
            for contest in contests(asked, most, seed)
            for place, passage in enumerate(contest.passages)
        ]
        return of_pairs(pairs, self.rows)

    def mine(self, rows: int, seed: int, work: Path) -> None:
        """The pairs that variants are fitted on, hard negatives among them."""
        found = pairs_of(self._records, seed, Meaning(work))
        self.known = of_pairs(evened(found, rows, random.Random(seed)), self.rows)

    def for_words(self, seed: int) -> list[Example]:
        """Pairs for the coverage's fit, from some records, mined without MiniLM."""
        some = random.Random(seed).sample(self._records, min(SOME, len(self._records)))
        return of_pairs(pairs_of(some, seed, None), self.rows)

    def fitted_on(self, begun: EvaluatorModel) -> Known:
        relevant = np.array([example.label == 0 for example in self.known])
        kinds = np.array([example.kind for example in self.known])
        sources = np.array([example.source for example in self.known])
        return Known(computed(self.known, begun.measures), relevant, kinds, sources)

    def tested(self, compute: Callable[[Tensor, Tensor], Tensor]) -> dict[str, Any]:
        """What the network makes of each left-out set's pairs, and which of them are right."""
        return {
            name: (computed(found, compute), [example.label == 0 for example in found])
            for name, found in self.tests.items()
        }

    def keep(
        self, name: str, what: str, score: Score, tests: dict[str, Any], rows: int = 0
    ) -> None:
        """One variant's figures as a file, and shown."""
        auc = {
            test: round(float(roc_auc_score(labels, score(measures))), 4)
            for test, (measures, labels) in tests.items()
        }
        minutes = round((time.monotonic() - self._started) / 60, 1)
        told = {"name": name, "what": what, "minutes": minutes, "rows": rows or len(self.known),
                "validation": {}, "left_out": auc}  # fmt: skip
        text = json.dumps(told, indent=2) + "\n"
        (self._out / f"{name.replace(' ', '-')}.json").write_text(text, encoding="utf-8")
        print(name, auc, flush=True)  # noqa: T201 - a script's result


def main() -> None:
    chosen = arguments()
    torch.manual_seed(chosen.seed)
    begun, tokenizer = kept(chosen.beginning)
    run = Run(chosen, tokenizer)
    if "weighing" in chosen.parts:
        run.mine(chosen.rows, chosen.seed, chosen.work)
        on_weighing(run, begun.eval(), tokenizer)
    if "words" in chosen.parts:
        on_words(run, begun, tokenizer, chosen)


def on_weighing(run: Run, begun: EvaluatorModel, tokenizer: Tokenizer) -> None:
    """Which measures are weighed, on which pairs; how large and how begun their layers are."""
    known, tests = run.fitted_on(begun), run.tested(begun.measures)
    for name, (what, weigh) in VARIANTS.items():
        run.keep(name, what, weigh(known), tests)
    for name, own_layers in (("12 half the size", 3), ("13 a sixth", 1)):
        small = Begun(begun, tokenizer).with_layers(own_layers, run.known)
        what = f"size: {own_layers} of MiniLM's 6 layers, weighed"
        run.keep(name, what, weighed()(run.fitted_on(small)), run.tested(small.measures))
    at_random = Begun(begun, tokenizer).with_layers(6, ())
    run.keep("14 no initialisation", "cosine of means, by the same layers at random",
             one(COSINE)(known), run.tested(at_random.measures))  # fmt: skip


def on_words(
    run: Run, begun: EvaluatorModel, tokenizer: Tokenizer, chosen: argparse.Namespace
) -> None:
    """Coverage fitted briefly and alike on word vectors before and after their distillation."""
    options = replace(TrainOptions(), coverage_steps=chosen.steps, coverage_tokens=4096)
    examples = run.for_words(chosen.seed)
    variants = {
        "15 distilled words": ("coverage, fitted briefly; its words learnt from MiniLM", True),
        "16 plain words": ("the same; its words as MiniLM's layers make them one by one", False),
    }
    for name, (what, distilled) in variants.items():
        refitted = anew(begun, tokenizer, run.texts, distilled=distilled)
        fit_coverage(refitted, examples, options, lambda _: None)
        compute = refitted.eval().coverage_only
        tests = run.tested(lambda ids, _, compute=compute: compute(ids))  # type: ignore[misc]
        run.keep(name, what, lambda logits: logits, tests, len(examples))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("beginning", type=Path)
    parser.add_argument("--left-out", nargs="+", required=True)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--most", type=int, default=100, help="questions of a left-out set")
    parser.add_argument("--steps", type=int, default=400, help="to fit coverage anew")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path(".selfcrag/bench"))
    parser.add_argument("--out", type=Path, default=Path(".selfcrag/ablations"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
