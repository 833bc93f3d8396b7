"""Constructed retrieval rows: a follow-up question with evidence that answers it or does not."""

import random
from collections.abc import Sequence

from evaluator.data.judgements import Judgement
from evaluator.data.synthetic.material import Material
from evaluator.data.synthetic.support import without_answer
from evaluator.model.text import contains_answer, sentences

_GO_ON, _SEARCH = "[Continue to Use Evidence]", "[Retrieval]"


class Evidence:
    """Makes a row of each label of a question."""

    def __init__(self, materials: Sequence[Material], dice: random.Random) -> None:
        self._materials = materials
        self._dice = dice

    def rows(self, material: Material, near: Sequence[Material]) -> list[Judgement]:
        """The question with evidence that answers it, and with evidence that does not."""
        if not material.answerable:
            return [_row(material, material.passage, _SEARCH, "natural")]
        rest = _without(material, holding=False)
        whole, part = self._dice.random() < 0.75, _without(material, holding=True)
        found = material.passage if whole or not part else part
        rows = [_row(material, found, _GO_ON, "constructed: answering passage")]
        elsewhere = without_answer(material, near)
        draw = self._dice.random()
        if rest and draw < 0.45:
            return [*rows, _row(material, rest, _SEARCH, "constructed: answer removed")]
        if elsewhere and draw < 0.85:
            passage = elsewhere[0].passage
            return [*rows, _row(material, passage, _SEARCH, "constructed: nearest passage")]
        other = self._dice.choice(self._materials)
        foreign = other.group != material.group
        if foreign and not contains_answer(other.passage, list(material.answers)):
            rows.append(_row(material, other.passage, _SEARCH, "constructed: another subject"))
        return rows


def _without(material: Material, *, holding: bool) -> str:
    """The passage's sentences that hold an answer, or those that hold none; "" without answers."""
    answers = list(material.answers)
    if not answers:
        return ""
    parts = [s for s in sentences(material.passage) if contains_answer(s, answers) == holding]
    text = ("" if material.language == "zh" else " ").join(parts)
    return "" if not holding and contains_answer(text, answers) else text


def _row(material: Material, evidence: str, label: str, kind: str) -> Judgement:
    return Judgement(
        "retrieval", material.question, evidence, label,
        material.language, material.source, kind, material.group,
    )  # fmt: skip
