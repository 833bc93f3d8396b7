"""Records of a data folder: relevance records, judgements of the other tasks, and their split.

Judgements come in the critic rows of Self-RAG, {task, instruction, input, output: one token}.
"""

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

from evaluator.data import file_formats as formats
from evaluator.data.file_formats import Claim, DataRow, Format
from evaluator.data.text import contains_answer, language_of, sentences
from evaluator.errors import DataError
from evaluator.schema import ANSWER_MARK, LABELS, Task

CHUNK_CHARS = {"en": 900, "zh": 350}
"""Long documents are cut into chunks of whole sentences of about this length."""
HELD_BACK_PERCENT = 6
_LABELS = ("irrelevant", "relevant")


@dataclass(frozen=True, slots=True)
class Record:
    """A question, a passage and whether it answers; without a question it is a distractor."""

    source: str
    language: str
    question: str
    answers: tuple[str, ...]
    relevant: bool
    title: str
    passage: str


@dataclass(frozen=True, slots=True)
class JudgementRow:
    """Two texts and the reflection token (of LABELS[task]) that is right for them.

    `first` and `second` are what the worker is asked with: support takes `question [SEP] answer`
    and the evidence, utility the question and the answer, retrieval the question and the evidence
    at hand ("" for none). `source` names the data file, `kind` how the row was made ("natural"
    where people or the data set labelled it), and `group` what a split may not divide.
    """

    task: Task
    first: str
    second: str
    label: str
    language: str
    source: str
    kind: str
    group: str


USERS = ", users"
"""Ends the source of questions in users' own words."""

Key = Callable[[Record], str]
"""What a split of records may not divide."""
_Item = TypeVar("_Item")
_Row = TypeVar("_Row", Record, JudgementRow)


def by_article(record: Record) -> str:
    """The article, or the passage where it has no title."""
    return record.title or record.passage


def by_passage(record: Record) -> str:
    return record.passage


def held_back(group: str, percent: int) -> bool:
    """Whether a split of `percent` keeps this group (article, passage) for validation."""
    return int.from_bytes(sha256(group.encode()).digest()[:4], "big") % 100 < percent


def division(records: Sequence[Record], percent: int) -> Key:
    """By article where both sides then get a third of their share of questions, else by passage.

    A handbook has few titles: one side could stay empty.
    """
    questions = [record for record in records if record.question]
    held = sum(held_back(by_article(record), percent) for record in questions)
    most = len(questions) - len(questions) * (100 - percent) / 300
    return by_article if len(questions) * percent / 300 <= held <= most else by_passage


def split(records: Sequence[Record], percent: int) -> tuple[list[Record], list[Record]]:
    """Training and validation records, divided by `division`, `percent` held back."""
    return divided(records, division(records, percent), percent)


def divided(
    rows: Iterable[_Row], key: Callable[[_Row], str], percent: int
) -> tuple[list[_Row], list[_Row]]:
    """Training and validation rows, `percent` of the groups that `key` tells held back."""
    sides: tuple[list[_Row], list[_Row]] = ([], [])
    for row in rows:
        sides[held_back(key(row), percent)].append(row)
    return sides


def in_turn(rows: Sequence[_Item], part: Callable[[_Item], str], rng: random.Random) -> list[_Item]:
    """All rows, shuffled, one of each part after the other while they last."""
    by_part: dict[str, list[_Item]] = defaultdict(list)
    for row in rng.sample(rows, len(rows)):
        by_part[part(row)].append(row)
    rounds = zip_longest(*(by_part[name] for name in sorted(by_part)))
    return [row for round_ in rounds for row in round_ if row]


def read_folder(folder: Path) -> list[Record]:
    """All usable records of the folder's data files, held-out ones left out.

    DataError, naming file and line, for files that are broken, empty, mixed, wrongly labelled, of
    one class or contradictory; a file of another kind (no passages) is passed over.
    """
    records = [record for path in formats.data_files(folder) for record in read_file(path)]
    if not any(record.question for record in records):
        suffixes = ", ".join(f"*{suffix}" for suffix in formats.SUFFIXES)
        raise DataError(f"No labelled questions in {folder} (looked for {suffixes}, each or .gz).")
    return records


def read_file(path: Path) -> list[Record]:
    """One file's records; DataError as `read_folder` says."""
    known, rows = formats.recognised(path)
    read, source = _READERS.get(known), path.name.split(".")[0]
    records: list[Record] = []
    claims: list[Claim] = []
    for row in rows:
        of_row = read(row, source) if read else []
        records += of_row
        claims += [
            (row.where, (record.question, record.passage), _LABELS[record.relevant])
            for record in of_row
            if record.question
        ]
    labels = {label for _, _, label in claims}
    if known in (formats.PAIR, formats.CRITIC) and len(labels) == 1:
        raise DataError(
            f"{claims[0][0]}: every pair of this file from here on is labelled {labels.pop()}; "
            "both labels are needed."
        )
    formats.check_contradictions(claims, known.contradictions)
    return records


def read_judgements(folder: Path) -> list[JudgementRow]:
    """The folder's critic rows about support, utility and retrieval; DataError as `read_folder`.

    A retrieval row keeps its question and evidence alone: what a model wrote before or after is
    not known when the worker is asked.
    """
    judgements: list[JudgementRow] = []
    for path in formats.data_files(folder):
        known, rows = formats.recognised(path)
        if known is not formats.CRITIC:
            continue
        source, claims = path.name.split(".")[0], list[Claim]()
        for row in rows:
            critic = critic_row(row)
            # The whole input is compared: sentences of one answer share question and evidence.
            pair = (critic.task, critic.question, str(row.raw.get("input")).strip())
            claims.append((row.where, pair, critic.label))
            if critic.task != "relevance":
                first, second = critic.question, critic.evidence
                if critic.task == "support":
                    first += ANSWER_MARK + critic.answer
                if critic.task == "utility":
                    second = critic.answer
                language = language_of(f"{first} {second}")
                about = (language, source, "natural", critic.evidence or critic.question)
                judgements.append(JudgementRow(critic.task, first, second, critic.label, *about))
        formats.check_contradictions(claims)
    return judgements


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of each data file, by name."""
    files = formats.data_files(folder)
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in files}


def chunked(passage: str, language: str, chars: int = 0) -> list[str]:
    """Whole sentences gathered to chunks of about `chars`, CHUNK_CHARS by default."""
    chunks, current, max_chars = [], "", chars or CHUNK_CHARS[language]
    joint = "" if language == "zh" else " "
    for sentence in sentences(passage):
        if current and len(current) + len(sentence) > max_chars:
            chunks.append(current)
            current = ""
        current = f"{current}{joint}{sentence}".strip()
    return [*chunks, current] if current else chunks


def _from_answers(row: DataRow, source: str) -> list[Record]:
    question, passage = row.text("question"), row.text("passage")
    answers, answerable = row.answers("answers"), row.flag("answerable")
    if answerable and not any(answers):
        raise DataError(f"{row.where}: answerable, but without an answer.")
    language, title = language_of(passage), row.title()
    chunks = chunked(passage, language)
    if len(chunks) <= 2 or not answerable:
        return [Record(source, language, question, answers, answerable, title, passage)]
    holding = [chunk for chunk in chunks if any(answer in chunk for answer in answers)]
    return [Record(source, language, question, answers, True, title, c) for c in holding[:1]] + [
        Record(source, language, "", (), False, title, chunk) for chunk in chunks
    ]


def _from_labels(row: DataRow, source: str) -> list[Record]:
    """ARES-like; a row that leaves relevance open (null) may still speak of its answer."""
    passage, question = row.text("passage", "document"), row.text("question")
    if row.raw["context_relevant"] is None:
        return []
    return [_whole(source, question, passage, row.flag("context_relevant"), "")]


def _from_snippets(row: DataRow, source: str) -> list[Record]:
    question, snippets = row.text("question"), row.objects("snippets")
    return [_whole(source, question, snippet.text("text"), True, "") for snippet in snippets[:3]]


def _from_subject(row: DataRow, source: str) -> list[Record]:
    """PopQA-like: a passage is relevant iff its page is the subject's (CRAG, weak labels)."""
    question = row.text("question")
    answers = row.answers("answers" if "answers" in row.raw else "possible_answers")
    subject = str(row.raw.get("s_wiki_title") or row.raw.get("subj") or "")
    subject = subject.replace("_", " ").strip().casefold()
    records: list[Record] = []
    for page in row.objects("ctxs") if "ctxs" in row.raw else [row]:
        if not page.raw.keys() & {"passage", "document", "text"}:
            continue  # PopQA itself has questions only
        passage, title = page.text("passage", "document", "text"), page.title()
        relevant = not subject or not title or title.strip().casefold() == subject
        records.append(_answered(_whole(source, question, passage, relevant, title), answers))
    return records


def _from_pair(row: DataRow, source: str) -> list[Record]:
    """A labelled pair: CRAG's own files, or users' feedback with the answer they were given."""
    question, passage = row.text("question"), row.text("passage")
    score = row.raw.get("score")
    if score is not None and not (type(score) in (int, float) and -1 <= score <= 1):
        raise DataError(f"{row.where}: score must be a number from -1 to 1, not {score!r}.")
    record = _whole(source, question, passage, row.label(row.raw["label"]), row.title())
    has_answer = row.raw.get("answer") and (score is None or score > 0)
    return [_answered(record, (row.text("answer"),)) if has_answer else record]


def _from_section(row: DataRow, source: str) -> list[Record]:
    """An entry of a manual: its heading or question, what stands under it, the headings above.

    A user's question for it is a record of its own, and of a source of its own.
    """
    answer, language, title = row.text("answer"), row.text("language"), row.title()
    entry = Record(source, language, row.text("question"), (), True, title, answer)
    if not row.raw.get("user_question"):
        return [entry]
    question, facts = row.text("user_question"), row.answers("facts")
    return [entry, Record(f"{source}{USERS}", language, question, facts, True, title, answer)]


def _from_critic(row: DataRow, source: str) -> list[Record]:
    critic = critic_row(row)
    if critic.task != "relevance":
        return []
    return [_whole(source, critic.question, critic.evidence, critic.label == "[Relevant]", "")]


def _distractors(row: DataRow, source: str) -> list[Record]:
    """A passage's opening, which says what it is about."""
    passage, title = row.text("passage"), str(row.raw.get("title") or "")
    chunks = chunked(passage, language_of(passage))[:1]
    return [_whole(source, "", chunk, False, title) for chunk in chunks]


_READERS: dict[Format, Callable[[DataRow, str], list[Record]]] = {
    formats.SNIPPETS: _from_snippets,
    formats.LABELLED: _from_labels,
    formats.ANSWERED: _from_answers,
    formats.SUBJECT: _from_subject,
    formats.PAIR: _from_pair,
    formats.SECTION: _from_section,
    formats.CRITIC: _from_critic,
    formats.DISTRACTOR: _distractors,
}


def _whole(source: str, question: str, passage: str, relevant: bool, title: str) -> Record:
    return Record(source, language_of(passage), question, (), relevant, title, passage)


def _answered(record: Record, answers: tuple[str, ...]) -> Record:
    """The record with its answers, where its passage says one of them."""
    if record.relevant and contains_answer(record.passage, answers):
        return replace(record, answers=answers)
    return record


_TASKS: dict[str, Task] = {
    "retrieval": "retrieval", "multi_retrieval": "retrieval", "relevance": "relevance",
    "groundness": "support", "utility": "utility",
    "groudness": "support",  # as the published script spells it
}  # fmt: skip
_ALIASES = {
    "fullysupport": "[Fully supported]",
    "partiallysupport": "[Partially supported]",
    "nosupport": "[No support / Contradictory]",
    "contradictory": "[No support / Contradictory]",
}
_CONTINUE = "[Continue to Use Evidence]"
_MARKER = re.compile(
    r"^[ \t]*(task instruction|preceding sentences|evidence|output)[ \t]*[:：][ \t]*",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class CriticRow:
    """What one row judges; a text its task does not speak of is "" or unused."""

    task: Task
    question: str
    evidence: str
    answer: str
    label: str


def critic_row(row: DataRow) -> CriticRow:
    """The row's question, evidence and answer out of its texts, and its token.

    In the published rows `instruction` tells the critic what to do and `input` holds the texts
    behind "Task instruction:", "Evidence:" and "Output:". Where `input` does not spell "Task
    instruction:", `instruction` is the question, and an `input` without any of them is the
    answer (utility) or the evidence. Raises DataError with the row's place.
    """
    name = row.text("task").casefold()
    if name not in _TASKS:
        raise DataError(f"{row.where}: task must be one of {', '.join(_TASKS)}, not {name!r}.")
    task = _TASKS[name]
    texts = _parts(row.text("input") if row.raw.get("input") else "", task)
    question = texts.get("task instruction") or row.text("instruction")
    critic = CriticRow(
        task, question, texts.get("evidence", ""), texts.get("output", ""), _label(row, task)
    )
    if task in ("relevance", "support") and not critic.evidence:
        raise DataError(f"{row.where}: {name} needs its evidence (`Evidence: ...` in input).")
    if task in ("support", "utility") and not critic.answer:
        raise DataError(f"{row.where}: {name} needs its answer (`Output: ...` in input).")
    if critic.label == _CONTINUE and not critic.evidence:
        raise DataError(f"{row.where}: {_CONTINUE} needs the evidence that it speaks of.")
    return critic


def _parts(text: str, task: Task) -> dict[str, str]:
    """The input's parts by their markers; of a repeated marker the last one counts.

    Instructions often show examples with an "Output:" of their own, before the real one.
    """
    marks = {mark.group(1).casefold(): mark for mark in _MARKER.finditer(text)}
    first = next((m for m in _MARKER.finditer(text) if m.group(1)[0] in "tT"), None)
    if first is not None:
        marks["task instruction"] = first
    if not marks:
        return {"output" if task == "utility" else "evidence": text} if text else {}
    places = sorted(marks.items(), key=lambda item: item[1].start())
    ends = [mark.start() for _, mark in places[1:]] + [len(text)]
    return {
        name: text[mark.end() : end].strip() for (name, mark), end in zip(places, ends, strict=True)
    }


def _label(row: DataRow, task: Task) -> str:
    output = row.text("output")
    form = _form(output)
    label = next((token for token in LABELS[task] if _form(token) == form), _ALIASES.get(form))
    if label not in LABELS[task]:
        raise DataError(
            f"{row.where}: output must be one of {' '.join(LABELS[task])}, not {output!r}."
        )
    return label


def _form(token: str) -> str:
    return re.sub(r"\W+", "", token).casefold()
