"""Builds calibration questions from held-back records: retrieved passages, gold or not."""

import random
from collections.abc import Sequence

from evaluator.data.hard_negatives import WordNeighbours
from evaluator.data.labelled import LabelledQuestion
from evaluator.data.relevance_records import CHUNK_CHARS, Record, chunked
from evaluator.errors import DataError
from evaluator.model.text import contains_answer

RETRIEVED = 10
STRIP_CHARS = {"en": 270, "zh": 90}
"""About 45 words, as the service cuts strips; two Chinese characters count as a word."""


def build_questions(records: Sequence[Record], seed: int, most: int) -> list[LabelledQuestion]:
    """Questions with their ten BM25-nearest passages; half have lost every passage that answers.

    Half of the pool is cut to chunks of one to six sentences, as a documentation index holds
    them. Only questions with an answer string are used, so that every passage can be labelled;
    one whose own passage is not found does not count among the answered. DataError where no
    record has an answer string.
    """
    if not any(record.relevant and record.answers for record in records):
        raise DataError(
            f"None of the {len(records)} held-back records holds an answer string, so no question "
            "can be built from them: give labelled questions with --questions instead of --data."
        )
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
    gold = {text for text in near if text in record.passage and contains_answer(text, answers)}
    # What holds the answer's words elsewhere may answer or not: it is left out.
    others = [text for text in near if not contains_answer(text, answers)]
    passages = [text for text in near if text in gold or text in others] if with_gold else others
    passages = passages[:RETRIEVED]
    labels = [text in gold for text in passages]
    if not passages or any(labels) != with_gold:
        return []
    strips, beside = _strips(record.passage, record, dice)
    _, elsewhere = _strips(dice.choice(others), record, dice) if others else ([], [])
    other_strips = beside[:1] + elsewhere[:1]
    return [LabelledQuestion(record.question, passages, labels, strips[:1], other_strips)]


def _strips(passage: str, record: Record, dice: random.Random) -> tuple[list[str], list[str]]:
    """The passage's strips that hold an answer and those that do not, shuffled."""
    parts = chunked(passage, record.language, STRIP_CHARS[record.language])
    dice.shuffle(parts)
    answers = list(record.answers)
    holding = [part for part in parts if contains_answer(part, answers)]
    return holding, [part for part in parts if part not in holding]
