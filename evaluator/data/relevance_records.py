"""Relevance records of a data folder: a question, a passage, and whether it answers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from evaluator.data import file_formats as formats
from evaluator.data.file_formats import HELD_OUT, Claim, DataRow, Format, data_files
from evaluator.data.judgements import critic_row
from evaluator.data.text import contains_answer, language_of, sentences
from evaluator.errors import DataError

CHUNK_CHARS = {"en": 900, "zh": 350}
"""Long documents are cut into chunks of whole sentences of about this length."""
_LABELS = ("irrelevant", "relevant")


@dataclass(frozen=True, slots=True)
class Record:
    """One question with one passage and whether that passage answers it.

    `question` is empty for a passage that is only a distractor.
    """

    source: str
    language: str
    question: str
    answers: tuple[str, ...]
    relevant: bool
    title: str
    passage: str


Key = Callable[[Record], str]
"""What a split of records may not divide."""


def by_article(record: Record) -> str:
    """The article, or the passage where it has no title."""
    return record.title or record.passage


def by_passage(record: Record) -> str:
    return record.passage


def read_folder(folder: Path, held_out: tuple[str, ...] = HELD_OUT) -> list[Record]:
    """All usable records of the folder's data files, held-out ones left out.

    Raises DataError, naming file and line, for files that are broken, empty, mixed, wrongly
    labelled, of one class where their format has two, or that contradict themselves; a file of
    another kind (questions without passages) is passed over.
    """
    records: list[Record] = []
    for path in data_files(folder, held_out):
        records += read_file(path)
    if not any(record.question for record in records):
        suffixes = ", ".join(f"*{suffix}" for suffix in formats.SUFFIXES)
        raise DataError(f"No labelled questions in {folder} (looked for {suffixes}, each or .gz).")
    return records


def read_file(path: Path) -> list[Record]:
    """One file's records; DataError as `read_folder` says."""
    known, rows = formats.recognised(path)
    source = path.name.split(".")[0]
    records: list[Record] = []
    claims: list[Claim] = []
    for row in rows:
        of_row = _records(row, known, source)
        records += of_row
        claims += [
            (row.where, (record.question, record.passage), _LABELS[record.relevant])
            for record in of_row
            if record.question
        ]
    if known in (formats.PAIR, formats.CRITIC):
        formats.check_classes(claims)
    formats.check_contradictions(claims, known.contradictions)
    return records


def digests(folder: Path, held_out: tuple[str, ...] = HELD_OUT) -> dict[str, str]:
    """SHA-256 of each data file, by name."""
    files = data_files(folder, held_out)
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in files}


def _records(row: DataRow, known: Format, source: str) -> list[Record]:
    readers = {
        formats.SNIPPETS: _from_snippets,
        formats.LABELLED: _from_labels,
        formats.ANSWERED: _from_answers,
        formats.SUBJECT: _from_subject,
        formats.PAIR: _from_pair,
        formats.CRITIC: _from_critic,
        formats.DISTRACTOR: _distractors,
    }
    return readers[known](row, source) if known in readers else []


def _from_answers(row: DataRow, source: str) -> list[Record]:
    question, passage = row.text("question"), row.text("passage")
    answers = row.answers("answers")
    answerable = row.flag("answerable")
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
    question, snippets = row.text("question"), row.raw["snippets"]
    if not isinstance(snippets, list) or not all(isinstance(one, dict) for one in snippets):
        raise DataError(f"{row.where}: snippets must be a list of objects.")
    texts = [DataRow(row.where, snippet).text("text") for snippet in snippets[:3]]
    return [_whole(source, question, text, True, "") for text in texts]


def _from_subject(row: DataRow, source: str) -> list[Record]:
    """PopQA-like: a passage is relevant iff its page is the subject's (CRAG, weak labels)."""
    question = row.text("question")
    answers = row.answers("answers" if "answers" in row.raw else "possible_answers")
    subject = str(row.raw.get("s_wiki_title") or row.raw.get("subj") or "")
    subject = subject.replace("_", " ").strip().casefold()
    pages = row.raw.get("ctxs", [row.raw])
    if not isinstance(pages, list) or not all(isinstance(page, dict) for page in pages):
        raise DataError(f"{row.where}: ctxs must be a list of objects.")
    records: list[Record] = []
    for page in (DataRow(row.where, raw) for raw in pages):
        if not page.raw.keys() & {"passage", "document", "text"}:
            continue  # PopQA itself has questions only
        passage, title = page.text("passage", "document", "text"), page.title()
        relevant = not subject or not title or title.strip().casefold() == subject
        record = _whole(source, question, passage, relevant, title)
        records.append(_answered(record, answers))
    return records


def _from_pair(row: DataRow, source: str) -> list[Record]:
    """A labelled pair: CRAG's own files, or users' feedback with the answer they were given."""
    question, passage = row.text("question"), row.text("passage")
    score = row.raw.get("score")
    if score is not None and not (type(score) in (int, float) and -1 <= score <= 1):
        raise DataError(f"{row.where}: score must be a number from -1 to 1, not {score!r}.")
    record = _whole(source, question, passage, row.label(), row.title())
    has_answer = row.raw.get("answer") and (score is None or score > 0)
    return [_answered(record, (row.text("answer"),)) if has_answer else record]


def _from_critic(row: DataRow, source: str) -> list[Record]:
    critic = critic_row(row)
    if critic.task != "relevance":
        return []
    relevant = critic.label == "[Relevant]"
    return [_whole(source, critic.question, critic.evidence, relevant, "")]


def _whole(source: str, question: str, passage: str, relevant: bool, title: str) -> Record:
    return Record(source, language_of(passage), question, (), relevant, title, passage)


def _answered(record: Record, answers: tuple[str, ...]) -> Record:
    """The record with its answers, where its passage says one of them."""
    if record.relevant and contains_answer(record.passage, list(answers)):
        return replace(record, answers=answers)
    return record


def _distractors(row: DataRow, source: str) -> list[Record]:
    """A passage's opening, which says what it is about."""
    passage, title = row.text("passage"), str(row.raw.get("title") or "")
    chunks = chunked(passage, language_of(passage))[:1]
    return [_whole(source, "", chunk, False, title) for chunk in chunks]


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
