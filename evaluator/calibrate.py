"""Finds upper, lower and the strip floor for one checkpoint from labelled questions.

A question is its passages and which of them answer it. The action of a question follows from
its best passage's score: Correct at or above upper, Incorrect below lower, else Ambiguous.
"""

import json
import math
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from evaluator.errors import DataError
from evaluator.schema import THRESHOLDS_FILE, Thresholds, weights_digest
from evaluator.text import is_chinese

Score = Callable[[Sequence[tuple[str, str]]], list[float]]

CORRECT_PRECISION, INCORRECT_PRECISION, STRIPS_KEPT = 0.9, 0.95, 0.95


@dataclass(frozen=True)
class LabelledQuestion:
    """A question, its passages as retrieved, and whether each answers it.

    `strips` are one or two sentences that hold the answer.
    """

    question: str
    passages: list[str]
    labels: list[bool]
    strips: list[str]

    @property
    def language(self) -> str:
        return "zh" if is_chinese(self.question) else "en"


@dataclass(frozen=True)
class _Outcome:
    best: float
    answered: bool


Outcomes = dict[str, list[_Outcome]]


def read_questions(path: Path) -> list[LabelledQuestion]:
    """Labelled questions of a JSON lines file; DataError names the file and line at fault."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    questions = [_parsed(line, f"{path}:{i}") for i, line in enumerate(lines, 1) if line.strip()]
    if not questions:
        raise DataError(f"{path} is empty.")
    return questions


def write_questions(path: Path, questions: Sequence[LabelledQuestion]) -> None:
    """The same as JSON lines, for a later calibration on equal questions."""
    lines = (json.dumps(asdict(question), ensure_ascii=False) for question in questions)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _parsed(line: str, where: str) -> LabelledQuestion:
    try:
        raw = json.loads(line)
        question, passages, labels = raw["question"], raw["passages"], raw["labels"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{where} is no labelled question: {error!r}") from error
    if not isinstance(question, str) or not question.strip():
        raise DataError(f"{where}: question must be a text that is not empty.")
    if not isinstance(passages, list) or not isinstance(labels, list) or not passages:
        raise DataError(f"{where}: passages and labels must be lists that are not empty.")
    if len(passages) != len(labels):
        raise DataError(f"{where}: {len(passages)} passages, but {len(labels)} labels.")
    if any(label not in (True, False) for label in labels):
        raise DataError(f"{where}: labels must be true or false.")
    return LabelledQuestion(question, passages, [bool(x) for x in labels], raw.get("strips", []))


def calibrate(questions: Sequence[LabelledQuestion], score: Score) -> tuple[Thresholds, Outcomes]:
    """Thresholds for the scorer, and each language's outcomes they were found on.

    Both languages must meet the precisions, so the stricter one decides.
    """
    outcomes, strips = _scored(questions, score)
    upper = max(_upper(found) for found in outcomes.values())
    lower = min(_lower(found) for found in outcomes.values())
    floors = [float(np.quantile(found, 1 - STRIPS_KEPT)) for found in strips.values()]
    floor = min(floors, default=lower)
    figures = {"strip_floor_keeps": STRIPS_KEPT}
    for language, found in outcomes.items():
        measured = action_figures(found, upper, lower)
        figures |= {f"{language}_{name}": round(value, 4) for name, value in measured.items()}
    thresholds = Thresholds(
        upper=math.ceil(upper * 1e4) / 1e4,  # rounded to the careful side
        lower=math.floor(min(lower, upper) * 1e4) / 1e4,
        strip_floor=round(floor, 4),
        evaluator="",
        questions=len(questions),
        figures=figures,
    )
    return thresholds, outcomes


def _scored(
    questions: Sequence[LabelledQuestion], score: Score
) -> tuple[Outcomes, dict[str, list[float]]]:
    pairs = [(q.question, text) for q in questions for text in [*q.passages, *q.strips]]
    scores = iter(score(pairs))
    outcomes: Outcomes = defaultdict(list)
    strips: dict[str, list[float]] = defaultdict(list)
    for question in questions:
        best = max(next(scores) for _ in question.passages)
        outcomes[question.language].append(_Outcome(best, any(question.labels)))
        strips[question.language] += [next(scores) for _ in question.strips]
    return dict(outcomes), {language: found for language, found in strips.items() if found}


def _cut(outcomes: Sequence[_Outcome]) -> float:
    """The one threshold that would tell answered from unanswered questions best."""
    ordered = sorted(outcomes, key=lambda outcome: outcome.best)
    right = sum(outcome.answered for outcome in ordered)
    most, cut = right, ordered[0].best
    for outcome, following in pairwise(ordered):
        right += -1 if outcome.answered else 1
        if right > most:
            most, cut = right, (outcome.best + following.best) / 2
    return cut


def _upper(outcomes: Sequence[_Outcome]) -> float:
    """The lowest best score, not under the cut, from which CORRECT_PRECISION are answered."""
    cut = _cut(outcomes)
    ordered = sorted((o for o in outcomes if o.best >= cut), key=lambda outcome: -outcome.best)
    right, threshold = 0, ordered[0].best if ordered else cut
    for place, outcome in enumerate(ordered, start=1):
        right += outcome.answered
        if right >= CORRECT_PRECISION * place:
            threshold = outcome.best
    return threshold


def _lower(outcomes: Sequence[_Outcome]) -> float:
    """The threshold, not over the cut, under which INCORRECT_PRECISION are not answered."""
    cut = _cut(outcomes)
    ordered = sorted((o for o in outcomes if o.best < cut), key=lambda outcome: outcome.best)
    right, threshold = 0, ordered[0].best if ordered else cut
    for place, outcome in enumerate(ordered, start=1):
        right += not outcome.answered
        if right >= INCORRECT_PRECISION * place:
            threshold = outcome.best + 1e-4
    return threshold


def action_figures(outcomes: Sequence[_Outcome], upper: float, lower: float) -> dict[str, float]:
    """Coverage and precision of Correct and Incorrect, the share left Ambiguous, accuracy.

    Accuracy counts Correct on answered and Incorrect on unanswered questions as right.
    """
    best = np.array([outcome.best for outcome in outcomes])
    answered = np.array([outcome.answered for outcome in outcomes])
    correct, incorrect = best >= upper, best < lower
    return {
        "questions": float(len(outcomes)),
        "correct_precision": _mean(answered[correct]),
        "correct_recall": _mean(correct[answered]),
        "incorrect_precision": _mean(~answered[incorrect]),
        "incorrect_recall": _mean(incorrect[~answered]),
        "ambiguous_share": _mean(~correct & ~incorrect),
        "accuracy": _mean((correct & answered) | (incorrect & ~answered)),
    }


def _mean(values: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]") -> float:
    return float(values.mean()) if values.size else 0.0


def store(thresholds: Thresholds, folder: Path) -> Path:
    """Write thresholds.json into the weights folder, bound to its tensors by their digest."""
    bound = thresholds.model_copy(update={"evaluator": weights_digest(folder)})
    path = folder / THRESHOLDS_FILE
    path.write_text(bound.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return path


def draw(outcomes: Outcomes, thresholds: Thresholds, path: Path) -> None:
    """Histogram of best scores with both thresholds; ModuleNotFoundError without matplotlib."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - serving must not need it

    figure = Figure(figsize=(7, 2.6 * len(outcomes)))
    for row, (language, found) in enumerate(outcomes.items(), start=1):
        axes = figure.add_subplot(len(outcomes), 1, row)
        for answered, label in ((True, "answer among the passages"), (False, "no answer there")):
            best = [outcome.best for outcome in found if outcome.answered is answered]
            axes.hist(best, bins=40, range=(-1, 1), alpha=0.6, label=label)
        for name, value in (("lower", thresholds.lower), ("upper", thresholds.upper)):
            axes.axvline(value, linestyle="--", color="black")
            axes.annotate(name, (value, axes.get_ylim()[1] * 0.9))
        axes.set_title(f"best score of a question's passages, {language}")
        axes.legend()
    figure.tight_layout()
    figure.savefig(path)


def sampled(questions: Sequence[LabelledQuestion], most: int, seed: int) -> list[LabelledQuestion]:
    """At most `most` questions, as many of each language as there are of the rarer one."""
    by_language: dict[str, list[LabelledQuestion]] = defaultdict(list)
    for question in questions:
        by_language[question.language].append(question)
    each = min([len(found) for found in by_language.values()] + [most // len(by_language)])
    dice = random.Random(seed)
    return [q for found in by_language.values() for q in dice.sample(found, each)]
