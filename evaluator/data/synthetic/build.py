"""Synthetic judgements: answers of known kinds, and rows for support, utility and retrieval.

An answer's kind tells how it was made, and with that its labels. Every form (a value alone, a
statement, a sentence of the passage) is made both right and wrong, so that form tells no label.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from evaluator.data.hard_negatives import WordNeighbours
from evaluator.data.records import JudgementRow, Key, by_article, in_turn
from evaluator.data.synthetic import contrasts, wording
from evaluator.data.synthetic.contrasts import Contrasts
from evaluator.data.synthetic.material import Material, Side, ended, natural, read_material
from evaluator.data.synthetic.wording import WORDINGS, Values
from evaluator.data.text import contains_answer, sentences
from evaluator.schema import ANSWER_MARK, LABELS, Task

_FULLY, _PARTLY, _NOT = LABELS["support"]
_SEARCH, _, _GO_ON = LABELS["retrieval"]


@dataclass(frozen=True, slots=True)
class Kind:
    """What an answer of this kind is labelled; support "" and grade 0: not judged by it."""

    support: str = ""
    grade: int = 0
    accepted: bool | None = None
    """Whether a critic should accept it; None where that is a matter of taste."""
    like: str = ""
    """The right kind of the same form, which nothing but its content tells from this one."""


KINDS: dict[str, Kind] = {
    "short answer": Kind(_FULLY, 5, accepted=True),
    "statement": Kind(_FULLY, 5, accepted=True),
    "answering sentence": Kind(_FULLY, 5, accepted=True),
    "answer and neighbour": Kind(_FULLY, 4),
    "cut": Kind(grade=3),
    "buried": Kind(grade=3),
    "right and wrong value": Kind(_PARTLY),
    "answer and changed neighbour": Kind(_PARTLY),
    "neighbour sentence": Kind(_FULLY, 2, accepted=False),
    "wrong value": Kind(_NOT, accepted=False, like="short answer"),
    "wrong statement": Kind(_NOT, accepted=False, like="statement"),
    "changed sentence": Kind(_NOT, accepted=False, like="answering sentence"),
    "negated": Kind(_NOT, accepted=False, like="answering sentence"),
    "nobody knows": Kind(_NOT, 1, accepted=False),
    "answer of another question": Kind(_NOT, 1, accepted=False),
    "only points": Kind(grade=1, accepted=False),
    "empty talk": Kind(grade=1),
    "another passage": Kind(_NOT),
    "unanswerable": Kind(_NOT),
}
LIKE_WEIGHT = 4
"""How much likelier than any other a wrong answer is drawn that looks like the right one drawn."""
CONSTRUCTED = "constructed: "
"""How the kind of a made row begins."""
RIGHT = tuple(name for name, kind in KINDS.items() if kind.accepted)


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


class Answers:
    """Makes answers of all kinds, out of one side's material alone."""

    def __init__(
        self,
        materials: Sequence[Material],
        language: str,
        rng: random.Random,
        *,
        side: Side = lambda _: True,
        wordings: contrasts.Wordings = contrasts.WORDINGS,
    ) -> None:
        self._materials = [m for m in materials if m.answerable and (m.answers or m.stated)]
        self._values, self._rng, self._language = Values(materials), rng, language
        self._contrasts = Contrasts([], language, rng, wordings)
        # A sentence of empty talk is on one side of the split only, as any other text.
        self._empty = [talk for talk in WORDINGS[language]["empty_talk"] if side(talk)]

    def of(self, material: Material, near: Sequence[Material] = ()) -> list[Case]:
        """One answer of each kind that the material allows; `near` are similar passages."""
        made, passage = self._texts(material), material.passage
        elsewhere = without_answer(material, near)
        if elsewhere and made.keys() & RIGHT:
            right = self._rng.choice([name for name in RIGHT if made.get(name)])
            made["another passage"], passage = made[right], elsewhere[0].passage
        return [
            Case(
                material.question, text, passage if kind == "another passage" else material.passage,
                kind, material.language, material.group,
            )
            for kind, text in made.items() if text
        ]  # fmt: skip

    def _texts(self, material: Material) -> dict[str, str]:
        """Texts by kind; "" where one cannot be made."""
        if not material.answerable:
            value = self._values.for_unanswerable(material, self._rng)
            return {"unanswerable": self._phrased(material, value)} if value else {}
        if not (material.answers or material.stated):
            return {}
        made = self._of_values(material) | self._of_sentences(material)
        answer = made.get("answering sentence") or made["statement"]
        if material.answers and self._rng.random() < 0.5:
            answer = self._phrased(material, material.answers[0])
        made |= self._beside(material, answer) | self._foreign(material, answer)
        kinds = ("negated", "nobody knows", "only points")
        claim = ended(answer, self._language)
        twins = self._contrasts.of(material.question, claim, material.answers)
        made |= {twin.kind: twin.passage for twin in twins if twin.kind in kinds}
        echo = self._rng.choice(WORDINGS[self._language]["echoes"]).format(material.question)
        return made | {"empty talk": self._rng.choice([*self._empty, echo])}

    def _of_values(self, material: Material) -> dict[str, str]:
        """The short answer and a wrong one, alone, stated and both at once."""
        if not material.answers:
            return {}
        rng, value = self._rng, material.answers[0]
        made = {
            "short answer": value,
            "statement": wording.worded(material, value, rng, stated=True),
        }
        wrong = self._values.wrong(material, value, rng)
        if not wrong or not wording.is_brief(wrong):
            return made
        made["wrong value"] = wrong
        made["wrong statement"] = wording.worded(material, wrong, rng, stated=True)
        if wording.is_brief(value):
            both = wording.joined(value, wrong, self._language, rng)
            made["right and wrong value"] = self._phrased(material, both)
        return made

    def _of_sentences(self, material: Material) -> dict[str, str]:
        """A sentence that answers, whole, changed and cut; an expert's answer as a whole."""
        if not material.stated:
            return {}
        sentence = self._rng.choice(material.stated)
        if not material.answers:
            sentence = _joined(material.stated, self._language)
        return {
            "answering sentence": sentence,
            "changed sentence": self._changed(material, sentence) or "",
            "cut": _cut(sentence, self._language, self._rng.uniform(0.35, 0.6)),
        }

    def _beside(self, material: Material, answer: str) -> dict[str, str]:
        """A sentence of the passage that does not answer, alone and beside the answer."""
        if not material.asides:
            return {}
        aside = self._rng.choice(material.asides)
        changed = wording.renumbered(aside, material.passage, self._rng)
        return {
            "neighbour sentence": aside,
            "answer and neighbour": self._shuffled([answer, aside]),
            "answer and changed neighbour": self._shuffled([answer, changed]) if changed else "",
        }

    def _foreign(self, material: Material, answer: str) -> dict[str, str]:
        """What another question is answered with, and the answer among sentences of others."""
        other = self._other(material)
        unrelated = self._phrased(other, other.answers[0]) if other.answers else other.stated[0]
        answers_too = contains_answer(unrelated, material.answers)
        foreign = [*other.asides, *self._other(material).asides][:3]
        foreign.insert(self._rng.randint(1, 2), ended(answer, self._language))
        return {
            "answer of another question": "" if answers_too else unrelated,
            "buried": _joined(foreign, self._language) if len(foreign) == 4 else "",
        }

    def _phrased(self, material: Material, value: str) -> str:
        """The value alone, framed or as a statement."""
        draw = self._rng.random()
        if draw < 0.4:
            return value
        return wording.worded(material, value, self._rng, stated=draw < 0.8)

    def _changed(self, material: Material, sentence: str) -> str | None:
        """The sentence with another value in the answer's place, or another number."""
        held = [answer for answer in material.answers if answer in sentence]
        if not held:
            return wording.renumbered(sentence, material.passage, self._rng)
        value = max(held, key=len)
        wrong = self._values.wrong(material, value, self._rng)
        return sentence.replace(value, wrong) if wrong else None

    def _other(self, material: Material) -> Material:
        """Material of another group whose question asks for another kind of answer, if found.

        Without a passage at hand, nobody could tell a wrong year from the right one.
        """
        kind = wording.asked_for(material.question, material.language)
        for _ in range(40):
            other = self._rng.choice(self._materials)
            other_kind = wording.asked_for(other.question, other.language)
            if other.group != material.group and other_kind != kind:
                return other
        return next(other for other in self._materials if other.group != material.group)

    def _shuffled(self, texts: Sequence[str]) -> str:
        return _joined(self._rng.sample(texts, len(texts)), self._language)


def cases(
    materials: Sequence[Material],
    seed: int,
    most: int,
    wordings: contrasts.Wordings = contrasts.WORDINGS,
) -> list[Case]:
    """Answers that a critic should accept or refuse, at most `most` a kind and language.

    From questions with a brief answer that stands in a sentence of the passage.
    """
    made: list[Case] = []
    for language in ("en", "zh"):
        rng = random.Random(f"{seed} {language}")
        mine = [m for m in materials if m.language == language and m.stated and m.answers]
        mine = [material for material in mine if wording.is_brief(material.answers[0])]
        if len({material.group for material in mine}) < 2:
            continue
        answers = Answers(mine, language, rng, wordings=wordings)
        counts: dict[str, int] = {}
        for material in rng.sample(mine, len(mine)):
            for case in answers.of(material):
                counts[case.kind] = counts.get(case.kind, 0) + 1
                if counts[case.kind] <= most and KINDS[case.kind].accepted is not None:
                    made.append(case)
            if min(counts.values()) >= most:
                break
    return made


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
    Made only of groups for which `side` holds, foreign sentences included; `key` tells the groups
    as for relevance records. [No Retrieval] comes from `needs` (synthetic/retrieval). DataError
    for files that cannot be read.
    """
    materials = list(dict.fromkeys(read_material(folder, side, key)))
    labelled = natural(folder, side)
    rows: list[JudgementRow] = []
    for language in ("en", "zh"):
        rng = random.Random(f"{seed} {language}")
        mine = [material for material in materials if material.language == language]
        made = _made(mine, language, max_rows, side, rng)
        natural_rows = [row for row in labelled if row.language == language]
        natural_rows = rng.sample(natural_rows, len(natural_rows))
        own = [row for row in natural_rows if row.kind == "natural"]
        bare = [row for row in natural_rows if row.kind != "natural"]
        for task in ("support", "utility", "retrieval"):
            for of_kind, count in ((made, max_rows), (own, max_rows), (bare, max_rows // 8)):
                rows += balanced([row for row in of_kind if row.task == task], count, rng)
    return rows


def _made(
    materials: Sequence[Material], language: str, max_rows: int, side: Side, rng: random.Random
) -> list[JudgementRow]:
    """Rows of all three tasks from up to `max_rows` questions, every source in turn."""
    chosen = in_turn(materials, attrgetter("source"), rng)[:max_rows]
    if len({material.group for material in chosen if material.answerable}) < 2:
        return []
    passages = list({material.passage: material for material in materials}.values())
    index = WordNeighbours([material.passage for material in passages])
    nearest = index.nearest([material.question for material in chosen], 8)
    answers = Answers(materials, language, rng, side=side)
    rows: list[JudgementRow] = []
    for material, numbers in zip(chosen, nearest, strict=True):
        near = [passages[number] for number in numbers]
        rows += _judged(material, answers.of(material, near), rng)
        rows += _evidence_rows(material, near, materials, rng)
    return list(dict.fromkeys(rows))


def _judged(
    material: Material, cases: Sequence[Case], rng: random.Random
) -> Iterator[JudgementRow]:
    """One row of each label of support and of utility, its kind drawn among those made."""
    by_label: dict[tuple[Task, str], list[Case]] = defaultdict(list)
    for case in cases:
        kind = KINDS[case.kind]
        if kind.support:
            by_label["support", kind.support].append(case)
        if kind.grade:
            by_label["utility", f"[Utility:{kind.grade}]"].append(case)
    right = ""
    for (task, label), of_label in by_label.items():
        weights = [LIKE_WEIGHT if KINDS[case.kind].like == right else 1 for case in of_label]
        (case,) = rng.choices(of_label, weights)
        right = right or case.kind  # what is fully supported was made first
        texts = case.support if task == "support" else case.utility
        yield _row(material, task, texts, label, case.kind)


def balanced(rows: Sequence[JudgementRow], max_rows: int, rng: random.Random) -> list[JudgementRow]:
    """At most `max_rows` rows of one task, the first ones, as many of each label that occurs."""
    by_label: dict[str, list[JudgementRow]] = defaultdict(list)
    for row in rows:
        by_label[row.label].append(row)
    if not by_label:
        return []
    share = min(max_rows // len(by_label), *map(len, by_label.values()))
    labels = [label for label in LABELS[rows[0].task] if label in by_label]
    chosen = [row for label in labels for row in by_label[label][:share]]
    return rng.sample(chosen, len(chosen))


def without_answer(material: Material, near: Sequence[Material]) -> list[Material]:
    """Those of other passages that do not hold an answer."""
    return [
        other
        for other in near
        if other.passage != material.passage
        and not contains_answer(other.passage, material.answers)
        and (material.answers or other.group != material.group)
    ]


def _cut(text: str, language: str, share: float) -> str:
    if language == "zh":
        return text[: max(2, int(len(text) * share))]
    words = text.split()
    return " ".join(words[: max(2, int(len(words) * share))])


def _joined(texts: Sequence[str], language: str) -> str:
    return ("" if language == "zh" else " ").join(ended(text, language) for text in texts)


def _evidence_rows(
    material: Material, near: Sequence[Material], materials: Sequence[Material], rng: random.Random
) -> list[JudgementRow]:
    """The question with evidence that answers it, and with evidence that does not."""
    if not material.answerable:
        return [_evidence(material, material.passage, _SEARCH, "natural")]
    rest = _without(material, holding=False)
    whole, part = rng.random() < 0.75, _without(material, holding=True)
    evidence = material.passage if whole or not part else part
    rows = [_evidence(material, evidence, _GO_ON, "answering passage")]
    elsewhere = without_answer(material, near)
    draw = rng.random()
    if rest and draw < 0.45:
        return [*rows, _evidence(material, rest, _SEARCH, "answer removed")]
    if elsewhere and draw < 0.85:
        return [*rows, _evidence(material, elsewhere[0].passage, _SEARCH, "nearest passage")]
    other = rng.choice(materials)
    if other.group != material.group and not contains_answer(other.passage, material.answers):
        rows.append(_evidence(material, other.passage, _SEARCH, "another subject"))
    return rows


def _without(material: Material, *, holding: bool) -> str:
    """The passage's sentences that hold an answer, or those that hold none; "" without answers."""
    known = material.answers
    if not known:
        return ""
    parts = [s for s in sentences(material.passage) if contains_answer(s, known) == holding]
    text = ("" if material.language == "zh" else " ").join(parts)
    return "" if not holding and contains_answer(text, known) else text


def _evidence(material: Material, evidence: str, label: str, kind: str) -> JudgementRow:
    return _row(material, "retrieval", (material.question, evidence), label, kind)


def _row(
    material: Material, task: Task, texts: tuple[str, str], label: str, kind: str
) -> JudgementRow:
    made = kind if kind == "natural" else f"{CONSTRUCTED}{kind}"
    return JudgementRow(
        task, *texts, label, material.language, material.source, made, material.group
    )
