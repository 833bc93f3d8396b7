"""Judgements for training made from questions with answering passages, beside labelled ones."""

import random
from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from evaluator.evidence import Evidence
from evaluator.judgements import Judgement
from evaluator.material import Material, Side, natural, read_material
from evaluator.neighbours import WordNeighbours
from evaluator.schema import LABELS
from evaluator.support import Support
from evaluator.utility import Utility

RULES = """\
Natural rows carry the data set's own labels: a faithful answer is [Fully supported], another one
[No support / Contradictory]; a relevant answer is [Utility:5], another one [Utility:1]; a relevant
passage is [Continue to Use Evidence], another one or an unanswerable question's [Retrieval].
"natural verdict" are bare verdicts (SUPPORTS, REFUTES) on a claim; they have no utility.

| class | kind | made from |
|---|---|---|
| Fully supported | right answer | the short answer, alone, in a frame or in its sentence |
| Fully supported | two right sentences | the same beside another sentence of the passage |
| Partially supported | right and wrong value | both values joined by "and" |
| Partially supported | foreign sentence | a right answer beside another article's sentence |
| Partially supported | changed sentence | a right answer, and a sentence with one number changed |
| Partially supported | wrong answer, right sentence | a wrong answer, and the passage's words |
| No support | swapped answer | another value, of the same type where there is one, in its place |
| No support | another passage | a right answer beside a similar passage without the answer |
| No support | answer to another question | a right answer of another article's question |
| No support | nothing right | a wrong answer beside a foreign or changed sentence |
| No support | unanswerable | an answer of the passage to a question it leaves open |
| Utility 5 | complete answer | the answer as above, or an expert's whole answer |
| Utility 5 | answer and sentence | the short answer, then its sentence |
| Utility 4 | diluted | an answer and one sentence that was not asked for |
| Utility 3 | cut | the first half of an answer's sentence |
| Utility 3 | buried | an answer among three sentences of other articles |
| Utility 2 | same subject | one or two sentences of the passage without the answer |
| Utility 1 | answer to another question | another article's answer, of another type if short |
| Utility 1 | empty talk | politeness, evasion, refusal, or the question said back |
| Continue | answering passage | the passage that answers, whole or its answering sentences |
| Retrieval | nearest passage | a similar passage (BM25) without the answer |
| Retrieval | answer removed | the answering passage without the sentences that answer |
| Retrieval | another subject | a passage of another article |

Most wrong values are of the passage itself, so that words in common do not decide alone.
"""
"""How each class is made, for the model card."""


def constructed(
    folder: Path, seed: int, *, side: Side = lambda _: True, most: int = 6000
) -> list[Judgement]:
    """Rows for support, utility and retrieval, about `most` a task and language, labels balanced.

    Made only of groups for which `side` holds, foreign sentences included: call it once for
    training and once for validation (`held_back` of evaluator/judgements tells the sides).
    Retrieval rows say [Retrieval] or [Continue to Use Evidence]; [No Retrieval] needs no evidence
    and comes from elsewhere. The same folder, seed and side give the same rows in the same order.
    Raises DataError for files that cannot be read.
    """
    materials = list(dict.fromkeys(read_material(folder, side)))
    labelled = natural(folder, side)
    found: list[Judgement] = []
    for language in ("en", "zh"):
        dice = random.Random(f"{seed} {language}")
        mine = [material for material in materials if material.language == language]
        rows = [row for row in labelled if row.language == language]
        rows += _made(mine, most, side, dice)
        for task in ("support", "utility", "retrieval"):
            found += balanced([row for row in rows if row.task == task], most, dice)
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


def balanced(rows: Sequence[Judgement], most: int, dice: random.Random) -> list[Judgement]:
    """At most `most` rows, as many of each label that occurs; natural ones fill half a label."""
    by_label: dict[str, list[Judgement]] = defaultdict(list)
    for row in rows:
        by_label[row.label].append(row)
    if not by_label:
        return []
    share = min(most // len(by_label), *(len(found) for found in by_label.values()))
    chosen: list[Judgement] = []
    for label in LABELS[rows[0].task]:
        chosen += _of_label(dice.sample(by_label[label], len(by_label[label])), share)
    dice.shuffle(chosen)
    return chosen


def _of_label(rows: Sequence[Judgement], share: int) -> list[Judgement]:
    """The first `share` rows: half of them natural, an eighth bare verdicts, where there are."""
    own = [row for row in rows if row.kind == "natural"]
    verdicts = [row for row in rows if row.kind == "natural verdict"][: share // 8]
    made = [row for row in rows if not row.kind.startswith("natural")]
    labelled = [*verdicts, *own[: share // 2 - len(verdicts)]]
    return [*labelled, *made, *own[share // 2 - len(verdicts) :]][:share]
