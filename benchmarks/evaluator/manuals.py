"""Manuals: is the entry that answers put first, and does its score say when it does not?

Questions and headings of manuals whose packages training never reads (evaluator/data/manuals.py),
each against the entries of its package that BM25 finds for it, shown under the headings above
them but without their own. For half of the questions the answering entry is taken away.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import roc_auc_score

from benchmarks.evaluator.ratchet import digits
from benchmarks.evaluator.relevance import Grade
from benchmarks.report import Figures, rows_of
from evaluator.calibration.evaluate import Score
from evaluator.data.hard_negatives import WordNeighbours, terms

POOL = 10
MOST = 200
"""Questions a language and kind."""
BINS = 10
STABLE = 60  # questions a language asked in other spellings
PRECISION = 0.9
UNIT_CHARS = {"en": 900, "zh": 350}
VARIANTS: dict[str, Callable[[str], str]] = {
    "a digit behind": lambda question: f"{question} 1",
    "a full stop": lambda question: question.rstrip("?？.。") + ".",
    "lower case": str.lower,
    "no mark": lambda question: question.rstrip("?？.。 "),
}
_GROUPS = {
    "en": (("en", "faq"), ("en", "entry")), "zh": (("zh", "faq"), ("zh", "entry")),
    "en user": (("en", "user"),), "zh user": (("zh", "user"),),
}  # fmt: skip
"""Languages and kinds that are judged together."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Asked:
    """A question with the units found for it; `gold` is the place of the answering one."""

    question: str
    language: str
    kind: str
    units: tuple[str, ...]
    gold: int | None


def on_manuals(
    asked: Sequence[Asked],
    scorers: dict[str, Score],
    similarity: Score | None,
    grade: Grade,
    upper: float,
    lower: float,
) -> Figures:
    """Figures by language and kind.

    "faq" are questions of the manual, "entry" headings and options, "user" questions in words of
    their own.

    Ranking by each scorer, actions and what tells right from wrong by the grades, and by the
    similarity that every graded passage carries.
    """
    graded, near = _graded(grade, asked), similarity and _by_question(similarity, asked)
    scores = {name: _by_question(score, asked) for name, score in scorers.items()}
    figures: Figures = {}
    for language in ("en", "zh"):
        for kind in ("faq", "entry", "user"):
            mine = [
                i for i, one in enumerate(asked) if (one.language, one.kind) == (language, kind)
            ]
            if mine:
                figures[f"{language} {kind}"] = {
                    "questions": len(mine),
                    **{
                        name: _ranking([asked[i] for i in mine], [values[i] for i in mine])
                        for name, values in scores.items()
                    },
                }
    for name, kinds in _GROUPS.items():
        mine = [i for i, one in enumerate(asked) if (one.language, one.kind) in kinds]
        own = [asked[i] for i in mine]
        if not own:
            continue
        figures[f"{name} selective"] = _selective(own, [graded[i] for i in mine], upper, lower)
        if near:
            figures[f"{name} selective"] |= _standing(
                own, *([values[i] for i in mine] for values in (scores["evaluator"], near))
            )
        figures[f"{name} stability"] = _stability(
            own[:STABLE], [graded[i] for i in mine], grade, upper, lower
        )
    return figures


def pools(file: Path, most: int, seed: int) -> list[Asked]:
    """At most `most` questions a language and kind, every second one without its answer."""
    entries: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of(file):
        entries[row["package"], row["language"]].append(row)
    made: dict[tuple[str, str], list[tuple[str, dict[str, Any], list[dict[str, Any]]]]]
    made = defaultdict(list)
    for (_, language), own in sorted(entries.items()):
        if len(own) < 2 * POOL:
            continue
        words = WordNeighbours([_unit(row) for row in own])
        asked_for = [
            ("faq" if row["kind"] == "faq" else "entry", row["question"], row) for row in own
        ]
        asked_for += [("user", row["user_question"], row) for row in own if row["user_question"]]
        near = words.nearest([question for _, question, _ in asked_for], POOL + 1)
        for (kind, question, row), places in zip(asked_for, near, strict=True):
            found = [own[place] for place in places]
            if row in found or kind == "user":
                made[language, kind].append((question, row, found))
    asked: list[Asked] = []
    for (language, kind), of_kind in sorted(made.items()):
        rng = random.Random(f"{seed} {language} {kind}")
        chosen = rng.sample(of_kind, min(most, len(of_kind)))
        for number, (question, row, found) in enumerate(chosen):
            covered = number % 2 == 0
            kept = [own for own in found if covered or own is not row][:POOL]
            if covered and row not in kept:
                kept[-1] = row
            rng.shuffle(kept)
            gold = kept.index(row) if covered else None
            units = tuple(map(_unit, kept))
            asked.append(Asked(question, language, kind, units, gold))
    return asked


def _unit(row: dict[str, Any]) -> str:
    text = row["answer"][: UNIT_CHARS[row["language"]]]
    return f"{row['title']} // {text}" if row["title"] else text


def idf_overlap(asked: Sequence[Asked]) -> Score:
    """The question's words that a text holds, by their rarity in all units."""
    counts: dict[str, int] = defaultdict(int)
    units = {unit for one in asked for unit in one.units}
    for unit in units:
        for word in set(terms(unit)):
            counts[word] += 1

    def score(pairs: list[tuple[str, str]]) -> list[float]:
        scores = []
        for question, text in pairs:
            held = set(terms(text))
            weights = {w: np.log(len(units) / (1 + counts[w])) for w in set(terms(question))}
            scores.append(float(sum(v for w, v in weights.items() if w in held)))
        return scores

    return score


def _by_question(score: Score, asked: Sequence[Asked]) -> list[Floats]:
    values = iter(score([(one.question, unit) for one in asked for unit in one.units]))
    return [np.array([next(values) for _ in one.units]) for one in asked]


def _graded(grade: Grade, asked: Sequence[Asked]) -> list[Floats]:
    return [np.array(grades) for grades in grade([(one.question, one.units) for one in asked])]


def _ranking(asked: Sequence[Asked], scores: Sequence[Floats]) -> Figures:
    """Share of answering units put first, mean reciprocal rank, AUC of covered questions."""
    ranks, above = [], []
    for one, values in zip(asked, scores, strict=True):
        if one.gold is not None:
            others = np.delete(values, one.gold)
            ranks.append(1 + int((others >= values[one.gold]).sum()))
            above.append(float((values[one.gold] > others).mean()))
    return {
        "first": round(float(np.mean([rank == 1 for rank in ranks])), 4),
        "mrr": round(float(np.mean([1 / rank for rank in ranks])), 4),
        "within": round(float(np.mean(above)), 4),
        "outcomes": digits(max(10 - rank, 0) / 9 for rank in ranks),
    }


def _selective(
    asked: Sequence[Asked], scores: Sequence[Floats], upper: float, lower: float
) -> dict[str, float]:
    """Does the best unit's score tell right answers from wrong and uncovered ones?"""
    best = np.array([values.max() for values in scores])
    right = np.array(
        [one.gold is not None and int(v.argmax()) == one.gold
         for one, v in zip(asked, scores, strict=True)]
    )  # fmt: skip
    covered = np.array([one.gold is not None for one in asked])
    order = np.argsort(-best)
    precision = np.cumsum(right[order]) / np.arange(1, len(order) + 1)
    reached = np.flatnonzero(precision >= PRECISION)
    cut = int(reached[-1]) + 1 if reached.size else 0
    bar = best[order[cut - 1]] if cut else np.inf
    probability = (best + 1) / 2
    actions = np.where(best >= upper, 1, np.where(best < lower, -1, 0))
    return {
        "questions": len(asked),
        "auc": round(_auc(right, best), 4),
        "auc_covered": round(_auc(covered, best), 4),
        "coverage": round(float((right & (best >= bar)).sum() / covered.sum()), 4),
        "uncovered_above": round(float((best >= bar)[~covered].mean()), 4),
        "calibration_error": round(_calibration_error(probability, right), 4),
        "covered_correct": round(float((actions == 1)[covered].mean()), 4),
        "covered_incorrect": round(float((actions == -1)[covered].mean()), 4),
        "uncovered_correct": round(float((actions == 1)[~covered].mean()), 4),
        "uncovered_incorrect": round(float((actions == -1)[~covered].mean()), 4),
    }


def _standing(
    asked: Sequence[Asked], scores: Sequence[Floats], cosines: Sequence[Floats]
) -> dict[str, float]:
    """Does it tell right answers how far the best unit's cosine stands above the other units'?

    AUC as for the score itself.
    """
    best = [int(values.argmax()) for values in scores]
    right = np.array([one.gold == place for one, place in zip(asked, best, strict=True)])
    standing = np.array(
        [own[place] - np.median(own) for own, place in zip(cosines, best, strict=True)]
    )
    return {"standing_auc": round(_auc(right, standing), 4)}


def _calibration_error(probability: Floats, right: npt.NDArray[np.bool_]) -> float:
    """Expected calibration error over ten bins of equal width."""
    places = np.minimum((probability * BINS).astype(int), BINS - 1)
    return sum(
        float(abs(probability[mine].mean() - right[mine].mean())) * float(mine.mean())
        for mine in (places == each for each in range(BINS))
        if mine.any()
    )


def _stability(
    asked: Sequence[Asked], before: Sequence[Floats], grade: Grade, upper: float, lower: float
) -> dict[str, float]:
    """The share of questions whose action stays when they are typed in another way."""

    def actions(scores: Sequence[Floats]) -> Floats:
        best = [float(values.max()) for values in scores]
        return np.array([(value >= lower) + (value >= upper) for value in best], dtype=float)

    first = actions(before[: len(asked)])
    figures = {}
    for name, change in VARIANTS.items():
        changed = [
            Asked(change(one.question), one.language, one.kind, one.units, one.gold)
            for one in asked
        ]
        figures[name] = round(float((actions(_graded(grade, changed)) == first).mean()), 4)
    return figures


def _auc(right: npt.NDArray[np.bool_], values: Floats) -> float:
    is_mixed = right.any() and not right.all()
    return float(roc_auc_score(right, values)) if is_mixed else float("nan")
