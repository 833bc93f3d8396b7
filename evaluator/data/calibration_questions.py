"""Calibration questions: labelled ones read from a file, or built from held-back records."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from operator import attrgetter
from pathlib import Path

from evaluator.data.file_formats import DataRow, read_rows
from evaluator.data.records import CHUNK_CHARS, Record, chunked, in_turn
from evaluator.data.text import contains_answer, language_of
from evaluator.errors import DataError

RETRIEVED = 10
STRIP_CHARS = {"en": 270, "zh": 90}
"""About 45 words, as the service cuts strips; two Chinese characters count as a word."""
_WHOLE, _FEEDBACK = "{question, passages, labels}", "{question, passage, label}"


@dataclass(frozen=True)
class LabelledQuestion:
    """A question, its passages as retrieved, and whether each answers it.

    `strips` are one or two sentences that hold the answer, `other_strips` some that do not. Sources
    count the same, however many questions each has.
    """

    question: str
    passages: list[str]
    labels: list[bool]
    strips: list[str] = field(default_factory=list)
    other_strips: list[str] = field(default_factory=list)
    source: str = ""

    @property
    def language(self) -> str:
        return language_of(self.question)

    @property
    def answered(self) -> bool:
        return any(self.labels)


def read_questions(path: Path) -> list[LabelledQuestion]:
    """Labelled questions of a data file, all of one form.

    {question, passages[], labels[], strips[]?, other_strips[]?} holds a whole question;
    {question, passage, label, title?} is one judgement, gathered with its question's others.
    DataError, naming file and line, for anything else, and where no or every question is answered.
    """
    rows = list(read_rows(path))
    form = _form(rows[0])
    for row in rows:
        if _form(row) != form:
            raise DataError(f"{row.where}: a row {_form(row)} among rows {form}.")
    questions = _gathered(rows) if form == _FEEDBACK else [_question(row) for row in rows]
    answered = sum(question.answered for question in questions)
    if answered in (0, len(questions)):
        missing = "with" if answered == 0 else "without"
        raise DataError(
            f"{path}: no question {missing} an answering passage among {len(questions)}; "
            "thresholds need both kinds."
        )
    return questions


def _form(row: DataRow) -> str:
    fields = row.raw.keys()
    whole, feedback = {"passages", "labels"} <= fields, {"passage", "label"} <= fields
    if "question" not in fields or whole == feedback:
        raise DataError(
            f"{row.where}: not a labelled question, neither {_WHOLE} nor {_FEEDBACK}. For questions"
            " with answers or sources, use `selfcrag evaluate FILE --calibrate`."
        )
    return _WHOLE if whole else _FEEDBACK


def _question(row: DataRow) -> LabelledQuestion:
    passages, labels = row.texts("passages"), row.raw["labels"]
    if not isinstance(labels, list) or not passages:
        raise DataError(f"{row.where}: passages and labels must be lists that are not empty.")
    if len(passages) != len(labels):
        raise DataError(f"{row.where}: {len(passages)} passages, but {len(labels)} labels.")
    return LabelledQuestion(
        row.text("question"),
        passages,
        [row.label(label) for label in labels],
        row.texts("strips"),
        row.texts("other_strips"),
    )


def _gathered(rows: Sequence[DataRow]) -> list[LabelledQuestion]:
    """One question for all judgements of the same words, in the order of the first ones."""
    judged: dict[str, dict[str, tuple[bool, str]]] = {}
    for row in rows:
        passage, title = row.text("passage"), row.raw.get("title")
        if title:  # as the service grades passages unless told not to
            passage = f"{row.text('title')} // {passage}"
        label = row.label(row.raw["label"])
        passages = judged.setdefault(row.text("question"), {})
        earlier, first = passages.setdefault(passage, (label, row.where))
        if earlier is not label:
            raise DataError(f"{row.where} labels the pair of {first} the other way.")
    return [
        LabelledQuestion(question, list(passages), [label for label, _ in passages.values()])
        for question, passages in judged.items()
    ]


def build_questions(
    records: Sequence[Record], seed: int, max_questions: int
) -> list[LabelledQuestion]:
    """Questions with their ten BM25-nearest passages; half have lost every passage that answers.

    Half of the pool is cut to chunks of one to six sentences, as an index holds them, and all of it
    stands under its titles, as the service shows it to the evaluator. A passage
    answers where it holds an answer string of the question's, or, of entries of manuals, which have
    none, where it is part of the question's entry. Every source gives as many questions; DataError
    where there are none. Needs bm25s.
    """
    usable = [record for record in records if record.relevant and _is_labelled(record)]
    if not usable:
        raise DataError(
            f"None of the {len(records)} held-back records holds an answer string, so no question "
            "can be built from them: give labelled questions with --questions instead of --data."
        )
    questions: list[LabelledQuestion] = []
    for language in ("en", "zh"):
        rng = random.Random(f"{seed} {language}")
        answerable = [record for record in usable if record.language == language]
        answerable = in_turn(answerable, attrgetter("source"), rng)[: max_questions // 2]
        if answerable:
            titles = _pool([r for r in records if r.language == language], language, rng)
            questions += _of_language(answerable, titles, rng)
    return questions


def _of_language(
    answerable: Sequence[Record], titles: Mapping[str, str], rng: random.Random
) -> Iterator[LabelledQuestion]:
    """Every second question of a source loses its gold."""
    mining = import_module("evaluator.data.hard_negatives")  # reading needs none of what it needs
    pool, met = list(titles), Counter[str]()
    neighbours = mining.WordNeighbours(pool).nearest([r.question for r in answerable], 40)
    for record, places in zip(answerable, neighbours, strict=True):
        near = [pool[place] for place in places]
        met[record.source] += 1
        for built in _built(record, near, with_gold=met[record.source] % 2 == 1, rng=rng):
            shown = [f"{titles[t]} // {t}" if titles[t] else t for t in built.passages]
            yield replace(built, passages=shown)


def _pool(records: Sequence[Record], language: str, rng: random.Random) -> dict[str, str]:
    """The passages to retrieve from, half of them cut to chunks, with their titles."""
    pool: dict[str, str] = {}
    for passage, title in {record.passage: record.title for record in records}.items():
        if rng.random() < 0.5:
            chunks = chunked(passage, language, rng.randint(150, 600) // 2)
            pool |= dict.fromkeys(chunks, title)
        elif len(passage) <= 2 * CHUNK_CHARS[language]:
            pool[passage] = title
    return pool


def _is_labelled(record: Record) -> bool:
    """Whether it can be told which passages answer: by answer strings, or as a titled entry's."""
    return bool(record.question and (record.answers or record.title))


def _built(
    record: Record, near: Sequence[str], *, with_gold: bool, rng: random.Random
) -> list[LabelledQuestion]:
    gold = _gold(record, near)
    # What holds the answer's words elsewhere may answer or not: it is left out.
    others = [t for t in near if t not in gold and not contains_answer(t, record.answers)]
    passages = [t for t in near if t in gold or t in others] if with_gold else others
    passages = passages[:RETRIEVED]
    labels = [text in gold for text in passages]
    if not passages or any(labels) != with_gold:
        return []
    strips, beside = _strips(record.passage, record, rng)
    _, elsewhere = _strips(rng.choice(others), record, rng) if others else ([], [])
    other_strips = beside[:1] + elsewhere[:1]
    return [
        LabelledQuestion(record.question, passages, labels, strips[:1], other_strips, record.source)
    ]


def _gold(record: Record, near: Sequence[str]) -> list[str]:
    own = [text for text in near if text in record.passage]
    return [t for t in own if contains_answer(t, record.answers)] if record.answers else own


def _strips(passage: str, record: Record, rng: random.Random) -> tuple[list[str], list[str]]:
    """The passage's strips that hold an answer and those that do not, shuffled."""
    parts = chunked(passage, record.language, STRIP_CHARS[record.language])
    rng.shuffle(parts)
    holding = [part for part in parts if contains_answer(part, record.answers)]
    return holding, [part for part in parts if part not in holding]
