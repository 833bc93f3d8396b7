"""Synthetic judgements: rows for support, utility and retrieval from questions with passages."""

import random
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

from evaluator.data.hard_negatives import WordNeighbours
from evaluator.data.records import JudgementRow, Key, by_article, in_turn
from evaluator.data.synthetic import answers, contrasts
from evaluator.data.synthetic.answers import WORDINGS, Values
from evaluator.data.synthetic.contrasts import Contrasts
from evaluator.data.synthetic.material import Material, Side, ended, natural, read_material
from evaluator.data.text import contains_answer, sentences
from evaluator.schema import ANSWER_MARK, LABELS, Task

_FULLY, _PARTLY, _NOT = LABELS["support"]
_SEARCH, _, _GO_ON = LABELS["retrieval"]
_Made = tuple[str, str, str, str]  # answer, passage, label, kind


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
        made = _made(mine, max_rows, side, rng)
        own = [row for row in labelled if row.language == language and row.kind == "natural"]
        bare = [row for row in labelled if row.language == language and row.kind != "natural"]
        for task in ("support", "utility", "retrieval"):
            for of_kind, count in ((made, max_rows), (own, max_rows), (bare, max_rows // 8)):
                rows += balanced([row for row in of_kind if row.task == task], count, rng)
    return rows


def _made(
    materials: Sequence[Material], max_rows: int, side: Side, rng: random.Random
) -> list[JudgementRow]:
    """Rows of all three tasks from up to `max_rows` questions, every source in turn."""
    chosen = in_turn(materials, attrgetter("source"), rng)[:max_rows]
    if len({material.group for material in chosen}) < 2:
        return []
    passages = list({material.passage: material for material in materials}.values())
    index = WordNeighbours([material.passage for material in passages])
    nearest = index.nearest([material.question for material in chosen], 8)
    support = Support(materials, rng)
    utility = Utility([m for m in materials if m.answerable], side, rng)
    rows: list[JudgementRow] = []
    for material, numbers in zip(chosen, nearest, strict=True):
        near = [passages[number] for number in numbers]
        rows += [*support.rows(material, near), *_evidence_rows(material, near, materials, rng)]
        rows += utility.rows(material)
    return list(dict.fromkeys(rows))


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
            value = self._values.for_unanswerable(material, self._rng)
            form = self._rng.choice(("short", "framed", "stated")) if value else ""
            text = self.claim(material, form, value) if value else None
            rows = [(text, material.passage, _NOT, "unanswerable")] if text else []
            return [_support(material, *row) for row in rows]
        form = self._form(material)
        right = self.claim(material, form, None)
        if right is None:
            return []
        if not material.answers or (material.asides and self._rng.random() < 0.5):
            made = self._of_two(material, form, right, near)
        else:
            made = self._of_one(material, form, right, near)
        return [_support(material, *row) for row in made]

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
            sentence = self._rng.choice(material.stated) if material.stated else None
            if sentence is None or value is None:
                return sentence
            held = [answer for answer in material.answers if answer in sentence]
            return sentence.replace(max(held, key=len), value) if held else None
        value = value or right
        if form == "short":
            return value
        return answers.worded(material, value, self._rng, stated=form == "stated")

    def _of_one(
        self, material: Material, form: str, right: str, near: Sequence[Material]
    ) -> list[_Made]:
        passage = material.passage
        made = [(right, passage, _FULLY, "right answer")]
        wrong = self._values.wrong(material, material.answers[0], self._rng)
        if wrong and answers.is_brief(wrong) and answers.is_brief(material.answers[0]):
            both = answers.joined(material.answers[0], wrong, material.language, self._rng)
            text = self.claim(material, form, both)
            if text:
                made.append((text, passage, _PARTLY, "right and wrong value"))
        draw = self._rng.random()
        denied = self._denied(material, right) if draw < 0.2 else None
        if denied:
            return [*made, denied]
        text = self.claim(material, form, wrong) if wrong and draw < 0.75 else None
        if text:
            return [*made, (text, passage, _NOT, "swapped answer")]
        elsewhere = without_answer(material, near)
        if elsewhere and draw < 0.9:
            return [*made, (right, elsewhere[0].passage, _NOT, "another passage")]
        other = _other(material, self._materials, self._rng)
        text = self.claim(other, self._form(other), None)
        if text and not contains_answer(text, material.answers):
            made.append((text, passage, _NOT, "answer to another question"))
        return made

    def _denied(self, material: Material, right: str) -> _Made | None:
        """A statement that nobody knows, or the right one negated."""
        claim = ended(right, material.language)
        contrasted = Contrasts([], material.language, self._rng)
        twins = contrasted.of(material.question, claim, material.answers)
        said = [twin for twin in twins if twin.kind in ("nobody knows", "negated")]
        if not said:
            return None
        twin = self._rng.choice(said)
        return twin.passage, material.passage, _NOT, twin.kind

    def _of_two(
        self, material: Material, form: str, right: str, near: Sequence[Material]
    ) -> list[_Made]:
        passage = material.passage
        true = self._rng.choice(material.asides) if material.asides else ""
        pair = self._both(right, true, material.language)
        made = [(pair, passage, _FULLY, "two right sentences" if true else "right answer")]
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
        return answers.renumbered(self._rng.choice(material.stated), material.passage, self._rng)

    def _false(self, material: Material, near: Sequence[Material]) -> tuple[str, str]:
        """A sentence that the passage does not hold, and how it was made."""
        changed = [
            text
            for aside in material.asides
            if (text := answers.renumbered(aside, material.passage, self._rng))
        ]
        if changed and self._rng.random() < 0.7:
            return self._rng.choice(changed), "changed sentence"
        others = [other for other in near if other.group != material.group and other.asides]
        is_near = others and self._rng.random() < 0.5
        other = others[0] if is_near else _other(material, self._materials, self._rng)
        pool = other.asides or other.stated
        return (self._rng.choice(pool) if pool else ""), "foreign sentence"

    def _both(self, one: str, two: str, language: str) -> str:
        texts = [text for text in (one, two) if text]
        self._rng.shuffle(texts)
        return _joined(texts, language)


def without_answer(material: Material, near: Sequence[Material]) -> list[Material]:
    """Those of other passages that do not hold an answer."""
    return [
        other
        for other in near
        if other.passage != material.passage
        and not contains_answer(other.passage, material.answers)
        and (material.answers or other.group != material.group)
    ]


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
        other = self._another(material)
        made = [
            (5, *self._complete(material)),
            (4, self._diluted(material), "diluted"),
            (3, *self._poor(material, other)),
            (2, self._beside_the_point(material), "same subject"),
            (1, *self._useless(material, other)),
        ]
        return [
            _row(material, "utility", (material.question, text), f"[Utility:{grade}]", kind)
            for grade, text, kind in made
            if text
        ]

    def _answer(self, material: Material, *, short: bool = True) -> str:
        """The answer in words: short, framed, as a statement or in its sentence."""
        sentence = self._rng.choice(material.stated) if material.stated else ""
        if sentence and (not material.answers or self._rng.random() < 0.4):
            return sentence
        value, draw = material.answers[0], self._rng.random()
        if short and draw < 0.4:
            return value
        return answers.worded(material, value, self._rng, stated=draw < 0.8)

    def _complete(self, material: Material) -> tuple[str, str]:
        if material.answers and material.stated and self._rng.random() < 0.3:
            value = answers.framed(material.answers[0], material.language, self._rng)
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
            text, part = self._rng.choice(material.stated), self._rng.uniform(0.35, 0.6)
            if material.language == "zh":
                return text[: max(2, int(len(text) * part))], "cut"
            words = text.split()
            return " ".join(words[: max(2, int(len(words) * part))]), "cut"
        foreign = [*other.asides, *self._another(material).asides][:3]
        if len(foreign) < 3:
            return "", "buried"
        foreign.insert(self._rng.randint(1, 2), self._answer(material, short=False))
        return _joined(foreign, material.language), "buried"

    def _beside_the_point(self, material: Material) -> str:
        count = min(len(material.asides), self._rng.choice((1, 1, 2)))
        return _joined(self._rng.sample(material.asides, count), material.language)

    def _useless(self, material: Material, other: Material) -> tuple[str, str]:
        talks, draw = self._empty[material.language], self._rng.random()
        if draw > 0.75:
            kind, name = self._rng.choice((("nobody", "nobody knows"), ("pointers", "only points")))
            wording = self._rng.choice(contrasts.WORDINGS[material.language][kind])
            return contrasts.filled(wording, material.question, material.language), name
        if draw < 0.1:
            echo = self._rng.choice(WORDINGS[material.language]["echoes"])
            return echo.format(material.question), "empty talk"
        if talks and draw < 0.3:
            count = min(len(talks), self._rng.choice((1, 1, 2)))
            return _joined(self._rng.sample(talks, count), material.language), "empty talk"
        return self._answer(other), "answer to another question"

    def _another(self, material: Material) -> Material:
        """Material whose question asks for another kind of answer.

        Without a passage at hand, nobody could tell a wrong year from the right one.
        """
        kind = answers.asked_for(material.question, material.language)
        return _other(material, self._materials, self._rng, kind)


def _other(
    material: Material, materials: Sequence[Material], rng: random.Random, kind: str | None = None
) -> Material:
    """Material of another group, whose question does not ask for `kind` if some is found."""
    for _ in range(40):
        other = rng.choice(materials)
        asked = answers.asked_for(other.question, other.language)
        if other.group != material.group and asked != kind and (other.answers or other.stated):
            return other
    return next(other for other in materials if other.group != material.group)


def _joined(texts: Sequence[str], language: str) -> str:
    return ("" if language == "zh" else " ").join(ended(text, language) for text in texts)


def _evidence_rows(
    material: Material,
    near: Sequence[Material],
    materials: Sequence[Material],
    rng: random.Random,
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


def _support(material: Material, answer: str, passage: str, label: str, kind: str) -> JudgementRow:
    first = f"{material.question}{ANSWER_MARK}{answer}"
    return _row(material, "support", (first, passage), label, kind)


def _evidence(material: Material, evidence: str, label: str, kind: str) -> JudgementRow:
    return _row(material, "retrieval", (material.question, evidence), label, kind)


def _row(
    material: Material, task: Task, texts: tuple[str, str], label: str, kind: str
) -> JudgementRow:
    made = kind if kind == "natural" else f"constructed: {kind}"
    return JudgementRow(
        task, *texts, label, material.language, material.source, made, material.group
    )
