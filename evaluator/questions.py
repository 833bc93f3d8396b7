"""Builds calibration questions from held-back records: retrieved passages, gold or not."""

import random
from collections.abc import Sequence

from evaluator.calibrate import LabelledQuestion
from evaluator.neighbours import WordNeighbours
from evaluator.records import CHUNK_CHARS, Record, chunked
from evaluator.text import contains_answer, sentences

RETRIEVED = 10


def build_questions(records: Sequence[Record], seed: int, most: int) -> list[LabelledQuestion]:
    """Questions with their ten BM25-nearest passages; half have lost every passage that answers.

    Half of the pool is cut to chunks of one to six sentences, as a documentation index holds
    them. Only questions with an answer string are used, so that every passage can be labelled.
    """
    questions: list[LabelledQuestion] = []
    for language in ("en", "zh"):
        mine = [record for record in records if record.language == language]
        asked = [record for record in mine if record.relevant and record.answers]
        dice = random.Random(f"{seed} {language}")
        asked = dice.sample(asked, min(most // 2, len(asked)))
        if not asked:
            continue
        pool = _pool(mine, dice)
        found = WordNeighbours(pool).nearest([record.question for record in asked], 40)
        for number, record in enumerate(asked):
            near = [pool[place] for place in found[number]]
            questions += _question(record, near, with_gold=number % 2 == 0, dice=dice)
    return questions


def _pool(records: Sequence[Record], dice: random.Random) -> list[str]:
    pool: list[str] = []
    for record in {record.passage: record for record in records}.values():
        if dice.random() < 0.5:
            pool += chunked(record.passage, record.language, dice.randint(150, 600) // 2)
        elif len(record.passage) <= 2 * CHUNK_CHARS[record.language]:
            pool.append(record.passage)
    return pool


def _question(
    record: Record, near: Sequence[str], *, with_gold: bool, dice: random.Random
) -> list[LabelledQuestion]:
    answers = list(record.answers)
    gold = [text for text in near if text in record.passage and contains_answer(text, answers)]
    others = [text for text in near if not contains_answer(text, answers)]
    if with_gold and not gold:
        return []
    passages = (gold[:1] if with_gold else []) + others[: RETRIEVED - with_gold]
    strips = [part for part in sentences(record.passage) if contains_answer(part, answers)]
    dice.shuffle(strips)
    labels = [text in gold for text in passages]
    return [LabelledQuestion(record.question, passages, labels, strips[:1])] if passages else []
