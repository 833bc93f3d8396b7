"""Training and validation pairs: positives, mined negatives, whole passages and strips."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from evaluator.data.hard_negatives import Meaning, WordNeighbours, nearest_by_meaning
from evaluator.data.records import CHUNK_CHARS, Record
from evaluator.data.text import contains_answer, sentences

View = Literal["whole", "chunk", "strip"]

VIEW_SHARES: dict[View, float] = {"whole": 0.45, "chunk": 0.2, "strip": 0.35}
TITLE_SHARE = 0.5
NATURAL = ("en_nq_gold",)
"""Sources of natural search-engine wording, repeated because they are few."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A labelled pair; `kind` says how it was made."""

    question: str
    passage: str
    relevant: bool
    language: str
    source: str
    kind: str


class Pairs:
    """Makes pairs out of records of one language, each question with its own negatives."""

    def __init__(
        self, records: Sequence[Record], language: str, seed: int, meaning: Meaning | None
    ) -> None:
        mine = [r for r in records if r.language == language]
        self._language = language
        self._rng = random.Random(seed)
        self._passages = list({r.passage: r for r in mine}.values())
        self._questions = list({(r.question, r.passage): r for r in mine if r.question}.values())
        self._positives: dict[str, set[str]] = defaultdict(set)
        self._articles: dict[str, list[int]] = defaultdict(list)
        for record in self._questions:
            if record.relevant:
                self._positives[record.question].add(record.passage)
        for number, record in enumerate(self._passages):
            if record.title:
                self._articles[record.title].append(number)
        index = WordNeighbours([record.passage for record in self._passages])
        self._by_words = index.nearest([record.question for record in self._questions], 12)
        self._by_meaning = self._mined_by_meaning(meaning) if meaning else {}

    def _mined_by_meaning(self, meaning: Meaning) -> dict[int, list[int]]:
        """Neighbours by MiniLM among titled passages: those of encyclopaedic questions."""
        numbers = [i for i, record in enumerate(self._questions) if record.title]
        passages = [i for i, record in enumerate(self._passages) if record.title]
        if not numbers:
            return {}
        near = nearest_by_meaning(
            meaning.vectors([self._questions[i].question for i in numbers]),
            meaning.vectors([meaning_text(self._passages[i]) for i in passages]),
            10,
        )
        return {
            i: [passages[place] for place in places]
            for i, places in zip(numbers, near, strict=True)
        }

    def all(self, *, hard_only: bool = False) -> list[Pair]:
        """Every question's pairs once (natural ones three times), in the records' order."""
        pairs: list[Pair] = []
        for number, record in enumerate(self._questions):
            for _ in range(3 if record.source in NATURAL and not hard_only else 1):
                pairs += self._of_question(number, record, hard_only)
        return pairs

    def _of_question(self, number: int, record: Record, hard_only: bool) -> list[Pair]:
        view: View = "whole"
        if not record.relevant or record.answers:  # else nothing tells which sentences answer
            (view,) = self._rng.choices(list(VIEW_SHARES), list(VIEW_SHARES.values()))
        titled = self._rng.random() < TITLE_SHARE
        if not record.relevant:
            chosen = [(record, self._viewed(record.passage, "whole", ()), "unanswerable")]
        else:
            chosen = [(record, self._viewed(record.passage, view, record.answers), "positive")]
            chosen += [
                (other, self._viewed(other.passage, view, ()), kind)
                for kind, other in self._negatives(number, record, hard_only)
            ]
            parts = sentences(record.passage)
            rest = [p for p in parts if len(p) > 15 and not contains_answer(p, record.answers)]
            if view != "whole" and len(parts) >= 3 and rest:
                chosen.append((record, self._rng.choice(rest), "same passage"))
        return [
            Pair(
                record.question,
                f"{shown.title} // {text}" if titled and shown.title else text,
                kind == "positive",
                self._language,
                record.source,
                kind,
            )
            for shown, text, kind in chosen
        ]

    def _negatives(self, number: int, record: Record, hard_only: bool) -> list[tuple[str, Record]]:
        chosen = [("words", other) for other in self._allowed(self._by_words[number], record)[:2]]
        alike = self._by_meaning.get(number, [])
        chosen += [("meaning", other) for other in self._allowed(alike, record)[:1]]
        siblings = self._articles.get(record.title, [])
        if self._rng.random() < 0.5:
            chosen += [("same article", other) for other in self._allowed(siblings, record)[:1]]
        if not hard_only and self._rng.random() < 0.4:
            anywhere = [self._rng.randrange(len(self._passages))]
            chosen += [("random", other) for other in self._allowed(anywhere, record)]
        return chosen

    def _allowed(self, numbers: Sequence[int], record: Record) -> list[Record]:
        """These passages in random order, without those that answer the question."""
        shuffled = [self._passages[i] for i in self._rng.sample(numbers, len(numbers))]
        positives = self._positives[record.question]
        return [
            other
            for other in shuffled
            if other.passage not in positives and not contains_answer(other.passage, record.answers)
        ]

    def _viewed(self, passage: str, view: View, answers: Sequence[str]) -> str:
        """The passage or a window of its sentences; around an answer where answers are given."""
        limit = CHUNK_CHARS[self._language]
        if view == "whole" and len(passage) <= 1.3 * limit:
            return passage
        parts = sentences(passage)
        sizes = {"whole": len(parts), "chunk": self._rng.randint(3, 6)}
        size = sizes.get(view, self._rng.randint(1, 2))
        holding = [i for i, part in enumerate(parts) if any(answer in part for answer in answers)]
        if answers and not holding:
            return passage
        middle = self._rng.choice(holding) if holding else self._rng.randrange(len(parts))
        first = max(0, middle - self._rng.randrange(size))
        window, chars = [parts[middle]], len(parts[middle])
        for i in [*range(middle - 1, first - 1, -1), *range(middle + 1, first + size)]:
            if i >= len(parts) or chars + len(parts[i]) > limit:
                continue
            window = [parts[i], *window] if i < middle else [*window, parts[i]]
            chars += len(parts[i])
        return ("" if self._language == "zh" else " ").join(window)


def meaning_text(record: Record) -> str:
    """The passage as MiniLM reads it: its title first, where it has one."""
    return f"{record.title}. {record.passage}" if record.title else record.passage


def pairs_of(
    records: Sequence[Record], seed: int, meaning: Meaning | None, *, hard_only: bool = False
) -> list[Pair]:
    """Pairs of all languages; English negatives are mined by meaning too where it is given."""
    pairs: list[Pair] = []
    for language in ("en", "zh"):
        if any(record.language == language and record.question for record in records):
            near = meaning if language == "en" else None
            pairs += Pairs(records, language, seed, near).all(hard_only=hard_only)
    rng, count = random.Random(seed), 0 if hard_only else len(pairs) // 100
    questions = [record for record in records if record.question]
    for record in rng.choices(questions, k=count):
        # Against passages of another source, the other language included.
        other = rng.choice(records)
        if other.source != record.source:
            pairs.append(
                Pair(record.question, other.passage, False, record.language, record.source,
                     "elsewhere")
            )  # fmt: skip
    return pairs
