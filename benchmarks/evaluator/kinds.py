"""Kinds of wrong texts: how often one scores above its right twin, and which answers are accepted.

Made from questions of the test sets with wordings that training has not seen
(benchmarks/evaluator_kinds.json).
"""

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.evaluator.ratchet import digits
from benchmarks.evaluator.relevance import TESTS, Bench, file_of, interval
from benchmarks.report import FOLDER, Figures
from evaluator.calibration.acceptance import AnswerBars, JudgedCases, judged
from evaluator.data.records import Record, by_passage, read_file
from evaluator.data.synthetic.build import RIGHT, cases
from evaluator.data.synthetic.contrasts import Contrasts, Wordings, entries, versioned
from evaluator.data.synthetic.material import Material, material_of
from evaluator.data.text import contains_answer, sentences
from evaluator.inference.scorer import Scores

WORDINGS: Wordings = json.loads((FOLDER / "evaluator_kinds.json").read_text("utf-8"))
MOST = 200  # pairs and cases of a kind

Twins = dict[str, list[tuple[tuple[str, str], tuple[str, str]]]]
"""By kind: a right and a wrong pair of question and text."""


def on_kinds(bench: Bench) -> Figures:
    """The share of pairs whose wrong twin scores at least as high, by language and kind."""
    figures: Figures = {}
    for name, language in TESTS.items():
        made = twins(read_file(file_of(bench.data, name)), language, bench.seed)
        figures[language] = {
            kind: _share_above(bench, pairs[:MOST]) for kind, pairs in sorted(made.items())
        }
    return figures


def _share_above(bench: Bench, pairs: Sequence[tuple[tuple[str, str], tuple[str, str]]]) -> Figures:
    right = np.array(bench.relevance([pair for pair, _ in pairs]))
    wrong = np.array(bench.relevance([pair for _, pair in pairs]))
    above = (wrong >= right).astype(float)
    low, high = interval(above, np.random.default_rng(bench.seed))
    return {
        "pairs": len(pairs),
        "above": round(float(above.mean()), 4),
        "above_low": round(low, 4),
        "above_high": round(high, 4),
        "right": round(float(right.mean()), 3),
        "wrong": round(float(wrong.mean()), 3),
        "outcomes": digits(1 - above),
    }


def twins(records: Sequence[Record], language: str, seed: int) -> Twins:
    """Right and wrong pairs of each kind."""
    rng, made = random.Random(f"{seed} {language}"), Twins()
    usable = [r for r in records if r.relevant and contains_answer(r.passage, r.answers)]
    names: dict[str, set[str]] = defaultdict(set)
    for record in usable:
        names[record.passage] |= {record.title, *record.answers[:1]} - {""}
    every = sorted(set().union(*names.values()))
    contrasts = Contrasts(every, language, rng, WORDINGS)
    for record in rng.sample(usable, len(usable)):
        parts = sentences(record.passage)
        holding = [part for part in parts if contains_answer(part, record.answers)]
        if not holding:
            continue
        sentence, question = holding[0], record.question
        rest = [part for part in parts if part not in holding and len(part) > 15]
        if rest:
            pair = (question, sentence), (question, rng.choice(rest))
            made.setdefault("neighbour sentence", []).append(pair)
        whole = rng.random() < 0.5
        text = record.passage if whole else sentence
        for twin in contrasts.of(question, text, record.answers, sorted(names[record.passage])):
            pair = (question, text), (twin.question, twin.passage)
            made.setdefault(twin.kind, []).append(pair)
        other = rng.choice(usable)
        if not contains_answer(other.passage, record.answers):
            found = [s for s in sentences(other.passage) if contains_answer(s, other.answers)]
            if found:
                pair = (question, sentence), (question, found[0])
                made.setdefault("answer of another question", []).append(pair)
    for _ in range(MOST):
        asked, beside = entries(language, rng, 2, WORDINGS)
        pair = (asked.question, asked.text), (asked.question, beside.text)
        made.setdefault("neighbour parameter", []).append(pair)
        pair = (asked.question, asked.text), (asked.question, asked.bare)
        made.setdefault("parameter without its value", []).append(pair)
        one, two = (f"{n}.{rng.randint(0, 9)}" for n in rng.sample(range(1, 25), 2))
        right = versioned(asked, one, language, rng, WORDINGS)
        wrong = replace(right, text=right.text.replace(one, two))
        pair = (right.question, right.text), (right.question, wrong.text)
        made.setdefault("another version", []).append(pair)
    return made


def on_acceptance(bench: Bench, scores: Scores, bars: AnswerBars) -> Figures:
    """The share of answers accepted at the bars, by language and kind."""
    materials: list[Material] = []
    for name in TESTS:
        read = (material_of(r, by_passage) for r in read_file(file_of(bench.data, name)))
        materials += [material for material in read if material]
    made = cases(materials, bench.seed, MOST, WORDINGS)
    found = judged(made, scores)
    figures: Figures = {"support": bars.support, "utility": bars.utility}
    for language in TESTS.values():
        figures[language] = {}
    rng = np.random.default_rng(bench.seed)
    for (language, kind), share in found.accepted(bars).items():
        mine = _part(found, language, kind)
        above = ((mine.support >= bars.support) & (mine.grade >= bars.utility)).astype(float)
        low, high = interval(above, rng)
        figures[language][kind] = {
            "rows": len(above),
            "right": kind in RIGHT,
            "accepted": round(share, 4),
            "accepted_low": round(low, 4),
            "accepted_high": round(high, 4),
            "support": round(float(mine.support.mean()), 3),
            "grade": round(float(mine.grade.mean()), 2),
            "outcomes": digits(above if kind in RIGHT else 1 - above),
        }
    return figures


def _part(found: JudgedCases, language: str, kind: str) -> JudgedCases:
    rows = [i for i, c in enumerate(found.cases) if (c.language, c.kind) == (language, kind)]
    return JudgedCases([found.cases[i] for i in rows], found.support[rows], found.grade[rows])
