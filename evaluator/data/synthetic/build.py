"""Judgements for training made from questions with answering passages, beside labelled ones."""

import random
from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from evaluator.data.hard_negatives import WordNeighbours
from evaluator.data.judgements import Judgement
from evaluator.data.relevance_records import Key, by_article
from evaluator.data.synthetic.evidence import Evidence
from evaluator.data.synthetic.material import Material, Side, natural, read_material
from evaluator.data.synthetic.support import Support
from evaluator.data.synthetic.utility import Utility
from evaluator.schema import LABELS, Task


def constructed(
    folder: Path,
    seed: int,
    *,
    side: Side = lambda _: True,
    key: Key = by_article,
    most: int = 6000,
) -> list[Judgement]:
    """Rows for support, utility and retrieval, about `most` a task and language, labels balanced.

    As many again where the data set itself labels them, an eighth of these bare verdicts at most.
    Made only of groups for which `side` holds, foreign sentences included: call it once for
    training and once for validation (`held_back` of evaluator/judgements tells the sides), with
    the `key` that tells the groups of relevance records too.
    Retrieval rows say [Retrieval] or [Continue to Use Evidence]; [No Retrieval] needs no evidence
    and comes from elsewhere. The same folder, seed and side give the same rows in the same order.
    Raises DataError for files that cannot be read.
    """
    materials = list(dict.fromkeys(read_material(folder, side, key)))
    labelled = natural(folder, side)
    found: list[Judgement] = []
    for language in ("en", "zh"):
        dice = random.Random(f"{seed} {language}")
        mine = [material for material in materials if material.language == language]
        rows = _made(mine, most, side, dice)
        own = [row for row in labelled if row.language == language and row.kind == "natural"]
        bare = [row for row in labelled if row.language == language and row.kind != "natural"]
        for task in ("support", "utility", "retrieval"):
            found += balanced(_of(task, rows), most, dice) + balanced(_of(task, own), most, dice)
            found += balanced(_of(task, bare), most // 8, dice)
    return found


def _made(
    materials: Sequence[Material], most: int, side: Side, dice: random.Random
) -> list[Judgement]:
    """Rows of all three tasks from up to `most` questions, every source in turn."""
    chosen = _in_turn(materials, dice)[:most]
    if len({material.group for material in chosen}) < 2:
        return []
    near = _near(chosen, materials)
    support = Support(materials, dice)
    utility = Utility([m for m in materials if m.answerable], side, dice)
    evidence = Evidence(materials, dice)
    rows: list[Judgement] = []
    for material, passages in zip(chosen, near, strict=True):
        rows += [*support.rows(material, passages), *evidence.rows(material, passages)]
        rows += utility.rows(material)
    return list(dict.fromkeys(rows))


def _in_turn(materials: Sequence[Material], dice: random.Random) -> list[Material]:
    """All material, shuffled, one of each source after the other while they last."""
    by_source: dict[str, list[Material]] = defaultdict(list)
    for material in dice.sample(materials, len(materials)):
        by_source[material.source].append(material)
    rounds = zip_longest(*(by_source[source] for source in sorted(by_source)))
    return [material for round_ in rounds for material in round_ if material]


def _near(asked: Sequence[Material], materials: Sequence[Material]) -> list[list[Material]]:
    """For each question the material of similar passages, nearest first."""
    passages = list({material.passage: material for material in materials}.values())
    index = WordNeighbours([material.passage for material in passages])
    found = index.nearest([material.question for material in asked], 8)
    return [[passages[number] for number in numbers] for numbers in found]


def _of(task: Task, rows: Sequence[Judgement]) -> list[Judgement]:
    return [row for row in rows if row.task == task]


def balanced(rows: Sequence[Judgement], most: int, dice: random.Random) -> list[Judgement]:
    """At most `most` rows of one task, as many of each label that occurs."""
    by_label: dict[str, list[Judgement]] = defaultdict(list)
    for row in rows:
        by_label[row.label].append(row)
    if not by_label:
        return []
    share = min(most // len(by_label), *(len(found) for found in by_label.values()))
    chosen: list[Judgement] = []
    for label in LABELS[rows[0].task]:
        if label in by_label:
            chosen += dice.sample(by_label[label], share)
    dice.shuffle(chosen)
    return chosen
