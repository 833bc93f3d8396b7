"""Synthetic judgements: training rows made from questions with answering passages."""

import random
from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from evaluator.data.hard_negatives import WordNeighbours
from evaluator.data.judgements import JudgementRow
from evaluator.data.relevance_records import Key, by_article
from evaluator.data.synthetic.material import Material, Side, natural, read_material
from evaluator.data.synthetic.retrieval import Evidence
from evaluator.data.synthetic.support import Support
from evaluator.data.synthetic.utility import Utility
from evaluator.schema import LABELS, Task


def constructed(
    folder: Path,
    seed: int,
    *,
    side: Side = lambda _: True,
    key: Key = by_article,
    max_rows: int = 6000,
) -> list[JudgementRow]:
    """Rows for support, utility and retrieval, about `max_rows` a task and language, balanced.

    As many again where the data set itself labels them, an eighth of these bare verdicts at most.
    Made only of groups for which `side` holds, foreign sentences included: call it once for
    training and once for validation (`held_back` of data/judgements tells the sides), with
    the `key` that tells the groups of relevance records too.
    Retrieval rows say [Retrieval] or [Continue to Use Evidence]; [No Retrieval] needs no evidence
    and comes from elsewhere. The same folder, seed and side give the same rows in the same order.
    Raises DataError for files that cannot be read.
    """
    materials = list(dict.fromkeys(read_material(folder, side, key)))
    labelled = natural(folder, side)
    rows: list[JudgementRow] = []
    for language in ("en", "zh"):
        rng = random.Random(f"{seed} {language}")
        mine = [material for material in materials if material.language == language]
        made = _made(mine, max_rows, side, rng)
        own = [row for row in labelled if row.language == language and row.kind == "natural"]
        bare = [row for row in labelled if row.language == language and row.kind != "natural"]
        for task in ("support", "utility", "retrieval"):
            rows += balanced(_of(task, made), max_rows, rng) + balanced(
                _of(task, own), max_rows, rng
            )
            rows += balanced(_of(task, bare), max_rows // 8, rng)
    return rows


def _made(
    materials: Sequence[Material], max_rows: int, side: Side, rng: random.Random
) -> list[JudgementRow]:
    """Rows of all three tasks from up to `max_rows` questions, every source in turn."""
    chosen = _in_turn(materials, rng)[:max_rows]
    if len({material.group for material in chosen}) < 2:
        return []
    near = _near(chosen, materials)
    support = Support(materials, rng)
    utility = Utility([m for m in materials if m.answerable], side, rng)
    evidence = Evidence(materials, rng)
    rows: list[JudgementRow] = []
    for material, passages in zip(chosen, near, strict=True):
        rows += [*support.rows(material, passages), *evidence.rows(material, passages)]
        rows += utility.rows(material)
    return list(dict.fromkeys(rows))


def _in_turn(materials: Sequence[Material], rng: random.Random) -> list[Material]:
    """All material, shuffled, one of each source after the other while they last."""
    by_source: dict[str, list[Material]] = defaultdict(list)
    for material in rng.sample(materials, len(materials)):
        by_source[material.source].append(material)
    rounds = zip_longest(*(by_source[source] for source in sorted(by_source)))
    return [material for round_ in rounds for material in round_ if material]


def _near(questions: Sequence[Material], materials: Sequence[Material]) -> list[list[Material]]:
    """For each question the material of similar passages, nearest first."""
    passages = list({material.passage: material for material in materials}.values())
    index = WordNeighbours([material.passage for material in passages])
    nearest = index.nearest([material.question for material in questions], 8)
    return [[passages[number] for number in numbers] for numbers in nearest]


def _of(task: Task, rows: Sequence[JudgementRow]) -> list[JudgementRow]:
    return [row for row in rows if row.task == task]


def balanced(rows: Sequence[JudgementRow], max_rows: int, rng: random.Random) -> list[JudgementRow]:
    """At most `max_rows` rows of one task, as many of each label that occurs."""
    by_label: dict[str, list[JudgementRow]] = defaultdict(list)
    for row in rows:
        by_label[row.label].append(row)
    if not by_label:
        return []
    share = min(max_rows // len(by_label), *(len(of_label) for of_label in by_label.values()))
    chosen: list[JudgementRow] = []
    for label in LABELS[rows[0].task]:
        if label in by_label:
            chosen += rng.sample(by_label[label], share)
    rng.shuffle(chosen)
    return chosen
