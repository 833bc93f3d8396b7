"""Contexts of "Searching for Best Practices in RAG" (arXiv 2407.01219), section 3.8.

A generator tuned on D_g, D_r, D_gr or D_gg is called M_g, M_r, M_gr or M_gg, and the untuned one
M_b; each is tested on D_none, D_g, D_r and D_gr. The paper's choice is M_gr.
"""

import random
from collections import defaultdict
from collections.abc import Sequence

from evaluator.data.records import Key, Record, by_passage, division, split
from evaluator.data.text import contains_answer
from evaluator.errors import DataError
from evaluator.tuning.rows import TuningPassage, TuningRow

CONTEXTS: dict[str, tuple[str, ...]] = {
    "none": (),
    "g": ("gold",),
    "r": ("random",),
    "gr": ("gold", "random"),
    "gg": ("gold", "gold"),
}
"""By the paper's index: what stands in the context beside the question."""

_TRIES = 20
"""Draws of a random passage; after them the row is left out."""


def split_rows(
    records: Sequence[Record], context: str, seed: int, percent: int
) -> tuple[list[TuningRow], list[TuningRow]]:
    """Rows to tune on and `percent` held back; no passage, be it random, is on both sides."""
    key = division(records, percent)
    sides = (context_rows(side, context, seed, key) for side in split(records, percent))
    return next(sides), next(sides)


def context_rows(
    records: Sequence[Record], context: str, seed: int = 1, key: Key = by_passage
) -> list[TuningRow]:
    """A row for every answered question of the records, in their order; `key` tells its group.

    The random passage is another one of the same set and language, as in appendix A.5, of another
    group and without the answer. Where both stand in the context, chance decides which comes
    first, so that the place tells nothing.
    """
    if context not in CONTEXTS:
        raise DataError(f"No context is called {context}: there are {', '.join(CONTEXTS)}.")
    rng = random.Random(f"{seed} {context}")
    shelves: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        shelves[record.source, record.language].append(record)
    rows = []
    for record in records:
        if not (record.relevant and record.question and record.answers):
            continue
        other = _other(record, shelves[record.source, record.language], rng, key)
        drawn = {"gold": record, "random": other}
        chosen = [drawn[kind] for kind in CONTEXTS[context]]
        if None in chosen:
            continue
        rng.shuffle(chosen)
        passages = tuple(TuningPassage(each.title, each.passage) for each in chosen if each)
        about = (record.answers[0], record.answers, key(record), context)
        rows.append(TuningRow(record.question, passages, *about))
    return rows


def _other(record: Record, shelf: Sequence[Record], rng: random.Random, key: Key) -> Record | None:
    for _ in range(_TRIES):
        other = rng.choice(shelf)
        if key(other) != key(record) and not contains_answer(other.passage, record.answers):
            return other
    return None
