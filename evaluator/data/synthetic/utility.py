"""Synthetic utility rows: answers of the five grades to a question, no passage beside them."""

import random
from collections.abc import Sequence

from evaluator.data.judgements import JudgementRow
from evaluator.data.synthetic.answers import WORDINGS, asked_for, framed, shape_of, statement
from evaluator.data.synthetic.material import Material, Side, ended


class Utility:
    """Makes one row of each grade of a question."""

    def __init__(self, materials: Sequence[Material], side: Side, rng: random.Random) -> None:
        self._materials = materials
        self._rng = rng
        # A sentence of empty talk is on one side of the split only, as any other text.
        self._empty = {
            language: [talk for talk in wordings["empty_talk"] if side(talk)]
            for language, wordings in WORDINGS.items()
        }

    def rows(self, material: Material) -> list[JudgementRow]:
        """Rows of the grades that the material allows, best first."""
        if not material.answerable or not (material.answers or material.stated):
            return []
        other = self._other(material)
        made = [
            (5, *self._complete(material)),
            (4, self._diluted(material), "diluted"),
            (3, *self._poor(material, other)),
            (2, self._beside_the_point(material), "same subject"),
            (1, *self._useless(material, other)),
        ]
        return [_row(material, text, grade, kind) for grade, text, kind in made if text]

    def _answer(self, material: Material, *, short: bool = True) -> str:
        """The answer in words: short, framed, as a statement or in its sentence."""
        sentence = self._rng.choice(material.stated) if material.stated else ""
        if sentence and (not material.answers or self._rng.random() < 0.4):
            return sentence
        value, draw = material.answers[0], self._rng.random()
        if short and draw < 0.4:
            return value
        text = statement(material.question, value, material.language) if draw < 0.8 else None
        return text or framed(value, material.language, self._rng)

    def _complete(self, material: Material) -> tuple[str, str]:
        if material.answers and material.stated and self._rng.random() < 0.3:
            value = framed(material.answers[0], material.language, self._rng)
            sentence = self._rng.choice(material.stated)
            return _joined([value, sentence], material.language), "answer and sentence"
        if not material.answers:  # an expert's answer is complete as a whole only
            return _joined(material.stated, material.language), "complete answer"
        return self._answer(material), "complete answer"

    def _diluted(self, material: Material) -> str:
        if not material.asides:
            return ""
        answer = self._answer(material, short=False)
        texts = [answer, self._rng.choice(material.asides)]
        if self._rng.random() < 0.3:
            texts.reverse()
        return _joined(texts, material.language)

    def _poor(self, material: Material, other: Material) -> tuple[str, str]:
        if material.stated and self._rng.random() < 0.5:
            return self._half(self._rng.choice(material.stated), material.language), "cut"
        foreign = [*other.asides, *self._other(material).asides][:3]
        if len(foreign) < 3:
            return "", "buried"
        foreign.insert(self._rng.randint(1, 2), self._answer(material, short=False))
        return _joined(foreign, material.language), "buried"

    def _half(self, text: str, language: str) -> str:
        part = self._rng.uniform(0.35, 0.6)
        if language == "zh":
            return text[: max(2, int(len(text) * part))]
        words = text.split()
        return " ".join(words[: max(2, int(len(words) * part))])

    def _beside_the_point(self, material: Material) -> str:
        count = min(len(material.asides), self._rng.choice((1, 1, 2)))
        return _joined(self._rng.sample(material.asides, count), material.language)

    def _useless(self, material: Material, other: Material) -> tuple[str, str]:
        talks, draw = self._empty[material.language], self._rng.random()
        if draw < 0.1:
            echo = self._rng.choice(WORDINGS[material.language]["echoes"])
            return echo.format(material.question), "empty talk"
        if talks and draw < 0.3:
            count = min(len(talks), self._rng.choice((1, 1, 2)))
            return _joined(self._rng.sample(talks, count), material.language), "empty talk"
        text = self._answer(other)
        return text, "answer to another question"

    def _other(self, material: Material) -> Material:
        """Material of another group whose question asks for another kind of answer.

        Without a passage at hand, nobody could tell a wrong year from the right one.
        """
        kind, shape = _type(material)
        for _ in range(40):
            other = self._rng.choice(self._materials)
            alike = other.group == material.group or _type(other) == (kind, shape)
            if not alike and _type(other)[0] != kind and (other.answers or other.stated):
                return other
        return next(other for other in self._materials if other.group != material.group)


def _type(material: Material) -> tuple[str, str]:
    value = material.answers[0] if material.answers else ""
    return asked_for(material.question, material.language), shape_of(value)


def _joined(texts: Sequence[str], language: str) -> str:
    return ("" if language == "zh" else " ").join(ended(text, language) for text in texts)


def _row(material: Material, answer: str, grade: int, kind: str) -> JudgementRow:
    label, made = f"[Utility:{grade}]", f"constructed: {kind}"
    return JudgementRow(
        "utility", material.question, answer, label,
        material.language, material.source, made, material.group,
    )  # fmt: skip
