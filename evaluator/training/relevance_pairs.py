"""Training and validation pairs: a question's answering text beside what only looks like it."""

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, count
from typing import Literal

from evaluator.data.hard_negatives import WordNeighbours, terms
from evaluator.data.records import CHUNK_CHARS, Record
from evaluator.data.synthetic.contrasts import Contrast, Contrasts, entries, filled, versioned
from evaluator.data.synthetic.wording import framed, is_brief, statement
from evaluator.data.text import contains_answer, sentences

View = Literal["whole", "chunk", "strip", "statement"]

VIEW_SHARES: dict[View, float] = {"whole": 0.3, "chunk": 0.15, "strip": 0.25, "statement": 0.3}
FAQ_SHARE = 0.3
"""Of the statements that no rule can word and the passage has no short clause for."""
UNENDED_SHARE = 0.3
"""Of the statements: those without the mark at the end."""
_SHORT = {"en": 90, "zh": 40}
"""Characters of a clause that can stand for a statement."""
_CLAUSES = re.compile(r"(?<=[,;:，；：])\s*")
TITLE_MARK = " // "
TITLE_SHARE = 0.5
HEADING_SHARE = 0.3
"""Of the questions: those whose passages stand under a heading, a question they answer or its
words, as in manuals and FAQs."""
RANDOM_SHARE = 0.3
TWINS = 4
SEARCHED_SHARE, PARSED_SHARE = 0.3, 0.18
"""Of English questions: those as typed into a search engine, and those with a parsed passage."""
_SIGNS = re.compile(r"\s*([,;:()\[\]!?\"–—]|(?<!\d)[.](?=\s|$)|'s\b)\s*")
MANUAL_SHARE = 0.08
"""Questions about made entries of manuals, for each question of the data."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A labelled pair; `kind` says how it was made.

    Pairs of one question share `group`. `answer` is the answer as the passage has it, "" where the
    passage answers nothing, None where it is not known which words answer.
    """

    question: str
    passage: str
    relevant: bool
    language: str
    source: str
    kind: str
    group: int
    answer: str | None


class Pairs:
    """Makes pairs out of records of one language, each question with its own negatives."""

    def __init__(self, records: Sequence[Record], language: str, seed: int) -> None:
        mine = [r for r in records if r.language == language]
        self._language = language
        self._rng = random.Random(f"{seed} {language}")
        self._passages = list({r.passage: r for r in mine}.values())
        self._questions = list({(r.question, r.passage): r for r in mine if r.question}.values())
        self._positives: dict[str, set[str]] = defaultdict(set)
        self._names: dict[str, set[str]] = defaultdict(set)
        self._articles: dict[str, list[int]] = defaultdict(list)
        self._asked: dict[str, list[Record]] = defaultdict(list)
        for record in self._questions:
            if record.relevant:
                self._asked[record.passage].append(record)
                self._positives[record.question].add(record.passage)
                self._names[record.passage] |= {record.title, *record.answers[:1]} - {""}
        for number, record in enumerate(self._passages):
            if record.title:
                self._articles[record.title].append(number)
        names = sorted(set().union(*self._names.values()) if self._names else ())
        self._contrasts = Contrasts(names, language, self._rng)
        index = WordNeighbours([record.passage for record in self._passages])
        self._by_words = index.nearest([record.question for record in self._questions], 12)

    def all(self) -> list[Pair]:
        """Every question's pairs once, in the records' order, then those of made manuals."""
        groups, pairs = count(), list[Pair]()
        for number, record in enumerate(self._questions):
            pairs += self._of_question(number, record, next(groups))
        for _ in range(round(MANUAL_SHARE * len(self._questions))):
            pairs += self._of_manual(next(groups))
        return pairs

    def _of_question(self, number: int, record: Record, group: int) -> list[Pair]:
        view: View = "whole"
        if not record.relevant or record.answers:  # else nothing tells which sentences answer
            (view,) = self._rng.choices(list(VIEW_SHARES), list(VIEW_SHARES.values()))
        same = (record.question, False, self._language, record.source)
        shown = self._shown_for(record)
        if not record.relevant:
            text = self._viewed(record.passage, "whole", ())
            return [_pair(same, shown(record, text), "unanswerable", group)]
        text = self._viewed(record.passage, view, record.answers, opens=True)
        if view == "statement":
            text = self._stated(record) or text
        answer = max((a for a in record.answers if a in text), key=len, default=None)
        positive = replace(
            _pair(same, shown(record, text), "positive", group), relevant=True, answer=answer
        )
        pairs = [
            _pair(same, shown(other, self._beside(other, view)), kind, group)
            for kind, other in self._negatives(number, record)
        ]
        pairs += [
            _pair(same, shown(record, beside), "same passage", group)
            for beside in self._of_same_passage(record, view)
        ]
        for twin in self._twins(record, text):
            made = _pair(same, shown(record, twin.passage), twin.kind, group)
            pairs.append(replace(made, question=twin.question))
        return [positive, *pairs]

    def _shown_for(self, record: Record) -> Callable[[Record, str], str]:
        """How texts of a question are shown: under their title, a heading, both or neither."""
        titled, headed = (self._rng.random() < share for share in (TITLE_SHARE, HEADING_SHARE))

        def shown(other: Record, text: str) -> str:
            names = [other.title if titled else "", self._heading(other, record) if headed else ""]
            title = " › ".join(filter(None, names))
            return f"{title}{TITLE_MARK}{text}" if title else text

        return shown

    def _of_same_passage(self, record: Record, view: View) -> Iterator[str]:
        """Sentences beside the answer, and what another question about it is answered with."""
        parts = sentences(record.passage)
        rest = [p for p in parts if len(p) > 15 and not contains_answer(p, record.answers)]
        if view != "whole" and len(parts) >= 3 and rest:
            yield self._rng.choice(rest)
        if view == "statement" and (stated := self._stated_beside(record)):
            yield stated

    def _twins(self, record: Record, text: str) -> list[Contrast]:
        """Made wrong twins of the answering text, TWINS at most."""
        if not record.answers:
            return []
        names = sorted(self._names[record.passage])
        twins = self._contrasts.of(record.question, text, record.answers, names)
        return self._rng.sample(twins, min(TWINS, len(twins)))

    def _heading(self, other: Record, record: Record) -> str:
        """A question about the passage, the one that is asked if it is about it, or its words."""
        same = other.passage == record.passage
        records = [record] if same else self._asked.get(other.passage)
        if not records:
            return ""
        question = self._rng.choice(records).question
        return question if self._rng.random() < 0.5 else filled("{title}", question, self._language)

    def _negatives(self, number: int, record: Record) -> list[tuple[str, Record]]:
        chosen = [("words", other) for other in self._allowed(self._by_words[number], record)[:3]]
        siblings = self._articles.get(record.title, [])
        chosen += [("same article", other) for other in self._allowed(siblings, record)[:1]]
        if self._rng.random() < RANDOM_SHARE:
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

    def _beside(self, other: Record, view: View) -> str:
        """What is seen of a passage that does not answer; a statement of what it does answer."""
        about = self._asked.get(other.passage)
        stated = self._stated(self._rng.choice(about)) if view == "statement" and about else ""
        return stated or self._viewed(other.passage, view, ())

    def _stated_beside(self, record: Record) -> str:
        """What answers another question about the passage, or "" where nothing does."""
        about = [r for r in self._asked.get(record.passage, ()) if r.question != record.question]
        stated = self._stated(self._rng.choice(about)) if about else ""
        return "" if contains_answer(stated, record.answers) else stated

    def _stated(self, record: Record) -> str:
        """The answer in a few words: a statement, a clause or an entry of a FAQ, or ""."""
        value = record.answers[0] if record.answers else ""
        if not value:
            return ""
        stated = statement(record.question, value, self._language)
        if not stated or self._rng.random() < 0.3:
            stated = self._clause(record, value) or stated
        if stated and self._rng.random() < UNENDED_SHARE:
            return stated.rstrip(" .。")
        if not stated and is_brief(value) and self._rng.random() < FAQ_SHARE:
            return f"{record.question} {framed(value, self._language, self._rng)}"
        return stated or ""

    def _clause(self, record: Record, value: str) -> str:
        """The fewest clauses of one sentence that hold the answer and what the question names."""
        words = set(terms(record.question))
        joint = "" if self._language == "zh" else " "
        clauses: list[tuple[int, int, str]] = []
        for sentence in sentences(record.passage):
            if value not in sentence:
                continue
            parts = _CLAUSES.split(sentence)
            least = len(words & set(terms(sentence))) * 0.7
            for first, last in combinations(range(len(parts) + 1), 2):
                run = joint.join(parts[first:last])
                shared = len(words & set(terms(run)))
                if value in run and len(run) <= _SHORT[self._language] and shared >= max(1, least):
                    clauses.append((-shared, len(run), run))
        return min(clauses)[2].strip(" ,;:，；：") if clauses else ""

    def _viewed(
        self, passage: str, view: View, answers: Sequence[str], *, opens: bool = False
    ) -> str:
        """The passage or a window of its sentences: around an answer where answers are given, or
        its opening."""
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
        if not answers and opens:
            middle = 0
        first = max(0, middle - self._rng.randrange(size))
        window = _window(parts, middle, range(first, first + size), limit)
        return ("" if self._language == "zh" else " ").join(window)

    def _of_manual(self, group: int) -> list[Pair]:
        """A question about one of several neighbouring parameters, alone or with its neighbours."""
        rng, joint = self._rng, self._rng.choice(["\n", "\n\n", " "])
        made = entries(self._language, rng, 5)
        if rng.random() < 0.3:
            version, other = (f"{n}.{rng.randint(0, 9)}" for n in rng.sample(range(1, 25), 2))
            entry = versioned(made[0], version, self._language, rng)
            wrong = [replace(entry, text=entry.text.replace(version, other))]
        else:
            entry, wrong = made[0], []
        wrong += made[1:3]
        window = [entry.text, *(each.text for each in made[3 : 3 + 2 * rng.randint(0, 1)])]
        rng.shuffle(window)
        same = (entry.question, False, self._language, "manual")
        positive = replace(
            _pair(same, joint.join(window), "positive", group), relevant=True, answer=entry.value
        )
        return [
            positive,
            *(_pair(same, each.text, "neighbour parameter", group) for each in wrong),
            _pair(same, entry.bare, "answer removed", group),
            _pair(same, entry.question, "only points", group),
        ]


def _window(parts: Sequence[str], middle: int, places: range, limit: int) -> list[str]:
    """The middle part and those around it, the nearest first, as long as they fit `limit` chars."""
    window, chars = [parts[middle]], len(parts[middle])
    for i in [*range(middle - 1, places.start - 1, -1), *range(middle + 1, places.stop)]:
        if i >= len(parts) or chars + len(parts[i]) > limit:
            continue
        window = [parts[i], *window] if i < middle else [*window, parts[i]]
        chars += len(parts[i])
    return window


def _pair(same: tuple[str, bool, str, str], passage: str, kind: str, group: int) -> Pair:
    question, relevant, language, source = same
    return Pair(question, passage, relevant, language, source, kind, group, "")


def pairs_of(records: Sequence[Record], seed: int, *, varied: bool = False) -> list[Pair]:
    """Pairs of all languages; `varied`: some questions in other case or without their mark."""
    pairs: list[Pair] = []
    for language in ("en", "zh"):
        if any(record.language == language and record.question for record in records):
            first = pairs[-1].group + 1 if pairs else 0
            mine = Pairs(records, language, seed).all()
            pairs += [replace(pair, group=pair.group + first) for pair in mine]
    if not varied:
        return pairs
    return [_varied(pair, random.Random(f"{seed} {pair.group}")) for pair in pairs]


def _varied(pair: Pair, rng: random.Random) -> Pair:
    """The pair with its question as somebody may type it; the same for a question's pairs.

    Of some English ones the passage has blanks around its signs, as parsed corpora have.
    """
    draw, question = rng.random(), as_typed(pair.question, rng)
    if pair.language != "en" or draw >= SEARCHED_SHARE:
        return replace(pair, question=question)
    pair = replace(pair, question=pair.question.lower().rstrip("?. "))
    if draw >= PARSED_SHARE:
        return pair
    title, mark, text = pair.passage.rpartition(TITLE_MARK)
    answer = pair.answer and _apart(pair.answer)
    return replace(pair, passage=f"{title}{mark}{_apart(text)}", answer=answer)


def _apart(text: str) -> str:
    return " ".join(_SIGNS.sub(r" \1 ", text).split(" ")).strip()


def as_typed(question: str, rng: random.Random) -> str:
    """The question as somebody may type it: other case, no mark at the end, a stray sign."""
    draw = rng.random()
    if draw < 0.15:
        question = question.lower()
    elif draw < 0.2:
        question = question.upper()
    draw = rng.random()
    if draw < 0.2:
        question = question.rstrip("?？.。 ")
    elif draw < 0.3:
        question += rng.choice([".", "。", "!", " 1", " 2", "…", " ??"])
    return question
