"""Support, utility and whether to retrieve, on held-back rows; natural and made ones apart."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import numpy as np

from benchmarks.evaluator.ratchet import digits
from benchmarks.evaluator.relevance import HELD_BACK_PERCENT, Bench
from benchmarks.report import Figures
from evaluator.calibration.evaluate import Pairs, Values, auc_interval
from evaluator.data.hard_negatives import terms
from evaluator.data.records import JudgementRow, held_back
from evaluator.data.synthetic.build import constructed
from evaluator.data.synthetic.material import natural
from evaluator.data.synthetic.retrieval import KINDS_HELD, needs
from evaluator.inference.scorer import Scorer, in_batches
from evaluator.schema import ANSWER_MARK, LABELS, RowScore, Task

HIGH: dict[Task, frozenset[str]] = {
    "support": frozenset({"[Fully supported]"}),
    "utility": frozenset({"[Utility:5]", "[Utility:4]"}),
    "retrieval": frozenset({"[Continue to Use Evidence]"}),
}
LOW: dict[Task, frozenset[str]] = {
    "support": frozenset({"[No support / Contradictory]"}),
    "utility": frozenset({"[Utility:1]", "[Utility:2]"}),
    "retrieval": frozenset({"[Retrieval]"}),
}
"""The ends an AUC is taken between; what lies between them counts in the share of right labels."""

LANGUAGES = ("en", "zh")
Say = Callable[[str], None]


def on_judgements(bench: Bench, scorer: Scorer, say: Say) -> Figures:
    """Figures of every task the checkpoint knows; the others are named and passed over."""
    figures: Figures = {}
    tasks = [task for task in ("support", "utility", "retrieval") if _is_known(task, scorer, say)]
    if tasks:
        rows = _held_rows(bench)
        for task in tasks:
            figures[task] = _on_task(bench, scorer, cast(Task, task), rows)
    if "retrieval" in tasks:
        figures["need"] = on_needs(bench, scorer)
    return figures


def _is_known(task: str, scorer: Scorer, say: Say) -> bool:
    if task not in scorer.tasks:
        say(f"{scorer.name} was not trained for {task}: not measured")
    return task in scorer.tasks


def _held_rows(bench: Bench) -> list[JudgementRow]:
    """All natural rows of the held-back side, and made rows of that side's material alone."""
    side = partial(held_back, percent=HELD_BACK_PERCENT)
    made = constructed(bench.data, bench.seed, side=side, max_rows=3 * bench.most)
    kept = [row for row in made if not row.kind.startswith("natural")]
    return [*natural(bench.data, side), *kept]


def _on_task(bench: Bench, scorer: Scorer, task: Task, rows: Sequence[JudgementRow]) -> Figures:
    """By language and by how the rows were labelled: natural, bare verdicts, made."""
    figures: Figures = {}
    for language in LANGUAGES:
        mine = [row for row in rows if row.task == task and row.language == language]
        for kind in ("natural", "natural verdict", "made"):
            part = [row for row in mine if _family(row) == kind]
            labels = {row.label for row in part}
            if labels & HIGH[task] and labels & LOW[task]:
                figures[f"{language} {kind}"] = _on_rows(bench, scorer, part)
    return figures


def _family(row: JudgementRow) -> str:
    return row.kind if row.kind.startswith("natural") else "made"


def _on_rows(bench: Bench, scorer: Scorer, rows: Sequence[JudgementRow]) -> Figures:
    task = rows[0].task
    judged = judged_rows(scorer, rows)
    scores = {"evaluator": judged.scores, "overlap": _overlaps(rows)}
    ends = [i for i, row in enumerate(rows) if row.label in HIGH[task] | LOW[task]]
    labels = [rows[i].label in HIGH[task] for i in ends]
    groups = [rows[i].group for i in ends]
    figures: Figures = {"rows": len(rows), "right": _mean(judged.right(rows))}
    for name, values in scores.items():
        auc, low, high = auc_interval(labels, values[ends], groups, bench.seed)
        figures |= {f"auc_{name}": auc, f"auc_{name}_low": low, f"auc_{name}_high": high}
    figures = {name: round(value, 4) for name, value in figures.items()}
    if _family(rows[0]) == "made":
        figures["kinds"] = _by_kind(rows, judged)
    return figures


class Judged:
    """A scorer's answers to rows, in their order; a row it refused has score 0 and no label."""

    def __init__(self, task: Task, results: Sequence[RowScore | str]) -> None:
        found = [None if isinstance(result, str) else result for result in results]
        self.labels = [row.label if row else "" for row in found]
        if task == "retrieval":  # whether the evidence at hand goes on serving
            token = LABELS[task][2]
            values = [row.probabilities.get(token, 0.0) if row else 0.0 for row in found]
        else:
            values = [row.score if row else 0.0 for row in found]
        self.scores: Values = np.array(values, dtype=float)

    def right(self, rows: Sequence[JudgementRow]) -> list[bool]:
        """Whether each row's likeliest token is its label."""
        return [said == row.label for said, row in zip(self.labels, rows, strict=True)]


def judged_rows(scorer: Scorer, rows: Sequence[JudgementRow]) -> Judged:
    """What the scorer makes of the rows, which are all of one task."""
    task = rows[0].task
    return Judged(task, in_batches(scorer, task, [(row.first, row.second) for row in rows]))


def _by_kind(rows: Sequence[JudgementRow], judged: Judged) -> list[Figures]:
    right, found = judged.right(rows), []
    for label, kind in sorted({(row.label, row.kind) for row in rows}):
        mine = [i for i, row in enumerate(rows) if (row.label, row.kind) == (label, kind)]
        mean = float(judged.scores[mine].mean())
        share = _mean([right[i] for i in mine])
        found.append(
            {"label": label, "kind": kind, "rows": len(mine), "score": round(mean, 3),
             "right": round(share, 3)}
        )  # fmt: skip
    return found


def _overlaps(rows: Sequence[JudgementRow]) -> Values:
    """Share of the first text's words (support: the answer's) that the second one holds."""
    values = []
    for first, second in map(_compared_texts, rows):
        words = set(terms(first))
        values.append(len(words & set(terms(second))) / len(words))
    return np.array(values)


def _compared_texts(row: JudgementRow) -> tuple[str, str]:
    return row.first.rpartition(ANSWER_MARK)[2], row.second


def on_needs(bench: Bench, scorer: Scorer) -> Figures:
    """Accuracy of retrieve or not (one half decides), held wordings and held-out kinds apart.

    Labels are balanced in each, so a constant answer is right for half.
    """
    rows = [row for row in needs(LANGUAGES, bench.seed) if row.group != "train"]
    pairs: Pairs = [(row.first, row.second) for row in rows]
    results = in_batches(scorer, "retrieval", pairs)
    right = [
        not isinstance(result, str) and (result.score > 0.5) == (row.label == "[Retrieval]")
        for result, row in zip(results, rows, strict=True)
    ]
    figures: Figures = {}
    for language in LANGUAGES:
        mine = [i for i, row in enumerate(rows) if row.language == language]
        parts = {
            group: [i for i in mine if rows[i].group == group] for group in ("held", "kind-held")
        }
        parts |= {kind: [i for i in mine if rows[i].kind == kind] for kind in sorted(KINDS_HELD)}
        figures[language] = {
            name: {
                "rows": len(part),
                "accuracy": round(_mean([right[i] for i in part]), 4),
                "outcomes": digits(right[i] for i in part),
            }
            for name, part in parts.items()
        }
    return figures


def _mean(values: Sequence[bool]) -> float:
    return float(np.mean(values)) if values else 0.0
