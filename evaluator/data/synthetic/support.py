"""Synthetic support rows: right, half right and wrong answers beside a passage."""

import random
from collections.abc import Sequence

from evaluator.data.judgements import JudgementRow
from evaluator.data.synthetic.answers import Values, framed, is_brief, joined, renumbered, statement
from evaluator.data.synthetic.material import Material, ended
from evaluator.data.text import contains_answer
from evaluator.schema import ANSWER_MARK, LABELS

_FULLY, _PARTLY, _NOT = LABELS["support"]
_Made = tuple[str, str, str, str]  # answer, passage, label, kind


class Support:
    """Makes rows of all three labels of each question, in the same form.

    Form and number of sentences are drawn once a question, so that neither tells the label.
    """

    def __init__(self, materials: Sequence[Material], rng: random.Random) -> None:
        self._materials = [material for material in materials if material.answerable]
        self._values = Values(materials)
        self._rng = rng

    def rows(self, material: Material, near: Sequence[Material]) -> list[JudgementRow]:
        """One row a label where the material allows it; `near` are similar passages."""
        if not material.answerable:
            return self._unanswerable(material)
        form = self._form(material)
        right = self.claim(material, form, None)
        if right is None:
            return []
        if not material.answers or (material.asides and self._rng.random() < 0.5):
            made = self._of_two(material, form, right, near)
        else:
            made = self._of_one(material, form, right, near)
        return [_row(material, *row) for row in made]

    def _form(self, material: Material) -> str:
        if not material.answers:
            return "sentence"
        forms = ["short", "framed", "stated", *(["sentence"] if material.stated else [])]
        (form,) = self._rng.choices(forms, [2, 2, 3, 4][: len(forms)])
        return form

    def claim(self, material: Material, form: str, value: str | None) -> str | None:
        """The answer in this form, with `value` in the right one's place if it is given."""
        right = material.answers[0] if material.answers else ""
        if form == "sentence":
            return self._sentence(material, value)
        value = value or right
        if form == "short":
            return value
        text = statement(material.question, value, material.language) if form == "stated" else None
        return text or framed(value, material.language, self._rng)

    def _sentence(self, material: Material, value: str | None) -> str | None:
        if not material.stated:
            return None
        sentence = self._rng.choice(material.stated)
        if value is None:
            return sentence
        held = [answer for answer in material.answers if answer in sentence]
        return sentence.replace(max(held, key=len), value) if held else None

    def _of_one(
        self, material: Material, form: str, right: str, near: Sequence[Material]
    ) -> list[_Made]:
        passage = material.passage
        made = [(right, passage, _FULLY, "right answer")]
        wrong = self._values.wrong(material, material.answers[0], self._rng)
        if wrong and is_brief(wrong) and is_brief(material.answers[0]):
            both = joined(material.answers[0], wrong, material.language, self._rng)
            text = self.claim(material, form, both)
            if text:
                made.append((text, passage, _PARTLY, "right and wrong value"))
        draw = self._rng.random()
        text = self.claim(material, form, wrong) if wrong and draw < 0.75 else None
        if text:
            return [*made, (text, passage, _NOT, "swapped answer")]
        elsewhere = without_answer(material, near)
        if elsewhere and draw < 0.9:
            return [*made, (right, elsewhere[0].passage, _NOT, "another passage")]
        other = self._foreign(material)
        text = self.claim(other, self._form(other), None)
        if text and not contains_answer(text, list(material.answers)):
            made.append((text, passage, _NOT, "answer to another question"))
        return made

    def _of_two(
        self, material: Material, form: str, right: str, near: Sequence[Material]
    ) -> list[_Made]:
        passage = material.passage
        true = self._rng.choice(material.asides) if material.asides else ""
        pair = self._both(right, true, material.language)
        made = [(pair, passage, _FULLY, "two right sentences")]
        if not true:
            made = [(right, passage, _FULLY, "right answer")]
        false, how = self._false(material, near)
        wrong = self._wrong_claim(material, form)
        if true and wrong and self._rng.random() < 0.25:
            text = self._both(wrong, true, material.language)
            made.append((text, passage, _PARTLY, "wrong answer, right sentence"))
        elif false:
            text = self._both(right, false, material.language)
            made.append((text, passage, _PARTLY, how))
        elsewhere = without_answer(material, near)
        if wrong and false and self._rng.random() < 0.75:
            text = self._both(wrong, false, material.language)
            made.append((text, passage, _NOT, "nothing right"))
        elif elsewhere:
            made.append((pair, elsewhere[0].passage, _NOT, "another passage"))
        return made

    def _wrong_claim(self, material: Material, form: str) -> str | None:
        if material.answers:
            value = self._values.wrong(material, material.answers[0], self._rng)
            return self.claim(material, form, value) if value else None
        return renumbered(self._rng.choice(material.stated), material.passage, self._rng)

    def _false(self, material: Material, near: Sequence[Material]) -> tuple[str, str]:
        """A sentence that the passage does not hold, and how it was made."""
        changed = [
            text
            for aside in material.asides
            if (text := renumbered(aside, material.passage, self._rng))
        ]
        if changed and self._rng.random() < 0.7:
            return self._rng.choice(changed), "changed sentence"
        others = [other for other in near if other.group != material.group and other.asides]
        other = others[0] if others and self._rng.random() < 0.5 else self._foreign(material)
        pool = other.asides or other.stated
        return (self._rng.choice(pool) if pool else ""), "foreign sentence"

    def _foreign(self, material: Material) -> Material:
        """Material of another group, of the same source more often than not."""
        for _ in range(20):
            other = self._rng.choice(self._materials)
            if other.group != material.group and (other.answers or other.stated):
                return other
        return next(other for other in self._materials if other.group != material.group)

    def _both(self, one: str, two: str, language: str) -> str:
        texts = [ended(text, language) for text in (one, two) if text]
        self._rng.shuffle(texts)
        return ("" if language == "zh" else " ").join(texts)

    def _unanswerable(self, material: Material) -> list[JudgementRow]:
        value = self._values.for_unanswerable(material, self._rng)
        if not value:
            return []
        form = self._rng.choice(("short", "framed", "stated"))
        text = self.claim(material, form, value)
        return [_row(material, text or value, material.passage, _NOT, "unanswerable")]


def without_answer(material: Material, near: Sequence[Material]) -> list[Material]:
    """Those of other passages that do not hold an answer."""
    return [
        other
        for other in near
        if other.passage != material.passage
        and not contains_answer(other.passage, list(material.answers))
        and (material.answers or other.group != material.group)
    ]


def _row(material: Material, answer: str, passage: str, label: str, kind: str) -> JudgementRow:
    first = f"{material.question}{ANSWER_MARK}{answer}"
    made = f"constructed: {kind}"
    return JudgementRow(
        "support", first, passage, label, material.language, material.source, made, material.group
    )
