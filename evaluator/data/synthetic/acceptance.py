"""Acceptance cases: answers that a critic should accept or refuse, by how they were made."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from evaluator.data.synthetic import answers
from evaluator.data.synthetic.answers import Values
from evaluator.data.synthetic.contrasts import WORDINGS, Contrasts, Wordings
from evaluator.data.synthetic.material import Material
from evaluator.data.text import contains_answer
from evaluator.schema import ANSWER_MARK

RIGHT = ("short answer", "statement", "answering sentence")


@dataclass(frozen=True, slots=True)
class Case:
    """A question, an answer to be judged by the passage, and how the answer was made."""

    question: str
    answer: str
    passage: str
    kind: str
    language: str
    group: str

    @property
    def right(self) -> bool:
        return self.kind in RIGHT

    @property
    def support(self) -> tuple[str, str]:
        """The pair to be scored for support."""
        return f"{self.question}{ANSWER_MARK}{self.answer}", self.passage

    @property
    def utility(self) -> tuple[str, str]:
        return self.question, self.answer


def cases(
    materials: Sequence[Material],
    seed: int,
    most: int,
    wordings: Wordings = WORDINGS,
) -> list[Case]:
    """At most `most` cases a kind and language, from questions with a short answer in a sentence.

    Wrong are: another value of the same type, alone and stated; a sentence of the passage that
    does not answer; the answer of another question; the right sentence negated; a statement that
    nobody knows; the question itself or what points to it.
    """
    made: list[Case] = []
    for language in ("en", "zh"):
        rng = random.Random(f"{seed} {language}")
        mine = [
            material
            for material in materials
            if material.language == language
            and material.answers
            and material.stated
            and answers.is_brief(material.answers[0])
        ]
        values, contrasts = Values(mine), Contrasts([], language, rng, wordings)
        counts: dict[str, int] = {}
        for material in rng.sample(mine, len(mine)):
            for case in _of(material, rng.choice(mine), values, contrasts, rng):
                counts[case.kind] = counts.get(case.kind, 0) + 1
                if counts[case.kind] <= most:
                    made.append(case)
            if counts and min(counts.values()) >= most:
                break
    return made


def _of(
    material: Material, other: Material, values: Values, contrasts: Contrasts, rng: random.Random
) -> list[Case]:
    short, sentence = material.answers[0], rng.choice(material.stated)
    wrong = values.wrong(material, short, rng)
    made = {
        "short answer": short,
        "statement": answers.worded(material, short, rng, stated=True),
        "answering sentence": sentence,
        "neighbour sentence": rng.choice(material.asides) if material.asides else "",
        "answer of another question": rng.choice(other.stated),
    }
    if wrong and answers.is_brief(wrong):
        made["wrong value"] = wrong
        made["wrong statement"] = answers.worded(material, wrong, rng, stated=True)
    if other.group == material.group or contains_answer(other.stated[0], material.answers):
        del made["answer of another question"]
    kinds = ("negated", "nobody knows", "only points")
    twins = contrasts.of(material.question, sentence, material.answers)
    made |= {twin.kind: twin.passage for twin in twins if twin.kind in kinds}
    return [
        Case(material.question, text, material.passage, kind, material.language, material.group)
        for kind, text in made.items()
        if text
    ]
