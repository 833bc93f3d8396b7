"""Source material of synthetic judgements: questions with the passage that answers them."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from evaluator.data import records
from evaluator.data.file_formats import data_files, read_rows
from evaluator.data.hard_negatives import terms
from evaluator.data.records import CHUNK_CHARS, JudgementRow, Key, Record, chunked
from evaluator.data.text import contains_answer, language_of, sentences
from evaluator.errors import DataError
from evaluator.schema import ANSWER_MARK

Side = Callable[[str], bool]
"""Whether a group belongs to the side of the split that rows are made for."""

_SENTENCE_CHARS = {"en": (25, 320), "zh": (8, 150)}
_VERDICTS = {"SUPPORTS", "REFUTES"}
_TOKENS = {
    "answer_faithful": ("[Fully supported]", "[No support / Contradictory]"),
    "answer_relevant": ("[Utility:5]", "[Utility:1]"),
    "context_relevant": ("[Continue to Use Evidence]", "[Retrieval]"),
}
_OPENING = re.compile(
    r"^(However|Moreover|Furthermore|In addition|Additionally|Also|Thus|Therefore|For example|"
    r"For instance|Finally|Meanwhile|"
    r"此外|另外|然而|但是|因此|所以|同时|同時|其中|后来|後來)[,，]\s*"
)
_LEFTOVER = re.compile(r"^[\s)）\]，,、；;:：.]+|[\s；;，,：:]+$")
_REFUSAL = re.compile(
    r"(?:document|passage|text|context|article|it) (?:does|did|do) not|no answer|"
    r"cannot be (?:answered|determined)|"
    r"not (?:explicitly )?(?:mentioned|stated|specified|provided)",
    re.I,
)
_BRACKETS = re.compile(r"\s?(\([^()]*\)|（[^（）]*）|\[[^\[\]]*\])")


@dataclass(frozen=True, slots=True)
class Material:
    """A question and a passage of about a chunk's length.

    `answers` are short answers, none where the passage does not answer or the data set gives only
    sentences; `stated` are sentences that answer, of the passage or of an ideal answer; `asides`
    the passage's other sentences.
    """

    question: str
    answers: tuple[str, ...]
    passage: str
    stated: tuple[str, ...]
    asides: tuple[str, ...]
    answerable: bool
    language: str
    source: str
    group: str


def read_material(folder: Path, side: Side, key: Key) -> list[Material]:
    """The folder's questions of one side, held-out files left out; DataError as read_folder."""
    materials: list[Material] = []
    for path in data_files(folder):
        source, fields = path.name.split(".")[0], _fields(path)
        if "snippets" in fields:
            made = (_from_snippets(row.raw, source, side) for row in read_rows(path))
        elif "answer_faithful" in fields:
            made = (_from_labels(row.raw, source) for row in read_rows(path))
        elif fields >= {"question", "passage", "answerable"}:
            made = (material_of(record, key) for record in records.read_file(path))
        else:
            continue
        materials += filter(None, made)
    return [material for material in materials if side(material.group)]


def natural(folder: Path, side: Side) -> list[JudgementRow]:
    """Support, utility and retrieval of rows whose data set labels their answers.

    Faithful answers are fully supported, others not at all; relevant answers are of grade 5,
    others of grade 1. Verdicts on a claim and cloze texts answer no question: they have no utility.
    Answers that say that the passage does not tell are left out: their labels contradict.
    """
    judgements: list[JudgementRow] = []
    for path in data_files(folder):
        source, fields = path.name.split(".")[0], _fields(path)
        if "answer_faithful" in fields:
            for row in read_rows(path):
                judgements += _labelled(row.raw, source, row.where)
        elif {"page", "position"} <= fields:
            for row, following in pairwise(read_rows(path)):
                if row.raw["page"] == following.raw["page"]:
                    judgements += _beside_each_other(row.raw, following.raw, source)
    return [judgement for judgement in judgements if side(judgement.group)]


def _beside_each_other(
    own: dict[str, Any], sibling: dict[str, Any], source: str
) -> Iterator[JudgementRow]:
    """Two entries of one page of a manual: each serves its own question and says its own words."""
    question, passage, language = own["question"], own["answer"], own["language"]
    about = (language, source, "natural", own["title"] or passage)
    right, wrong = (_opening(entry["answer"], language) for entry in (own, sibling))
    if not right or not wrong or wrong in passage:
        return
    yield JudgementRow("utility", question, right, "[Utility:5]", *about)
    yield JudgementRow("utility", question, wrong, "[Utility:1]", *about)
    for answer, label in ((right, "[Fully supported]"), (wrong, "[No support / Contradictory]")):
        yield JudgementRow("support", f"{question}{ANSWER_MARK}{answer}", passage, label, *about)


def _opening(answer: str, language: str) -> str:
    """The first sentences of an entry, of a usual length together; "" where there are none."""
    chunks = chunked(answer, language, _SENTENCE_CHARS[language][1])
    return chunks[0] if chunks and len(chunks[0]) >= _SENTENCE_CHARS[language][0] else ""


def _labelled(raw: Mapping[str, object], source: str, where: str) -> Iterator[JudgementRow]:
    question, passage = _text(raw, "question"), _text(raw, "passage") or _text(raw, "document")
    answer = _text(raw, "answer")
    if not question or not passage:
        raise DataError(f"{where}: question and passage must be texts that are not empty.")
    retrieval = _token(raw, "context_relevant", where)
    support = _token(raw, "answer_faithful", where)
    utility = _token(raw, "answer_relevant", where)
    if _REFUSAL.search(answer):
        answer = ""
    kind = "natural verdict" if answer in _VERDICTS else "natural"
    about = (language_of(passage), source, kind, passage)
    if answer and support:
        yield JudgementRow("support", f"{question}{ANSWER_MARK}{answer}", passage, support, *about)
    if answer in _VERDICTS or "@placeholder" in question:
        return
    if answer and utility:
        yield JudgementRow("utility", question, answer, utility, *about)
    if retrieval:
        yield JudgementRow("retrieval", question, passage, retrieval, *about)


def _token(raw: Mapping[str, object], field: str, where: str) -> str:
    """The reflection token of a labelled field, "" where it is null or absent."""
    value = raw.get(field)
    if value not in (True, False, None):
        raise DataError(f"{where}: {field} must be true, false or null.")
    right, wrong = _TOKENS[field]
    return "" if value is None else right if value else wrong


def material_of(record: Record, key: Key) -> Material | None:
    """A record with a question as material, its passage cut to a chunk; None where that fails."""
    answers = tuple(answer for answer in record.answers if record.relevant and answer.strip(" .。"))
    passage = _chunk(record, answers)
    if not record.question or not passage:
        return None
    present = tuple(answer for answer in answers if contains_answer(passage, [answer]))
    parts = _whole(sentences(passage), record.language)
    holding = [part for part in parts if any(answer in part for answer in present)]
    stated = _nearest(record.question, holding)
    asides = tuple(part for part in parts if not contains_answer(part, present))
    about = (record.relevant, record.language, record.source, key(record))
    return Material(record.question, present, passage, stated, asides, *about)


def _chunk(record: Record, answers: Sequence[str]) -> str:
    """The passage's first chunk, of a relevant record the first that answers, else ""."""
    if not record.relevant:
        return chunked(record.passage, record.language)[0]
    is_chunk = len(record.passage) <= 1.3 * CHUNK_CHARS[record.language]
    chunks = [record.passage] if is_chunk else chunked(record.passage, record.language)
    return next((chunk for chunk in chunks if contains_answer(chunk, answers)), "")


def _nearest(question: str, parts: Sequence[str]) -> tuple[str, ...]:
    """Those that share most words with the question; none where none shares any."""
    words = set(terms(question))
    shared = [len(words & set(terms(part))) for part in parts]
    return tuple(part for part, n in zip(parts, shared, strict=True) if n == max(shared) and n > 0)


def _from_labels(raw: Mapping[str, object], source: str) -> Material | None:
    """A labelled row whose answer occurs in its passage; verdicts and cloze texts do not serve."""
    question, answer = _text(raw, "question"), _text(raw, "answer").strip(" \"'.")
    passage = _text(raw, "passage") or _text(raw, "document")
    if not (raw.get("answer_faithful") and raw.get("answer_relevant") and answer):
        return None
    if answer in _VERDICTS or "@placeholder" in question or len(answer) > 120:
        return None
    record = Record(source, language_of(passage), question, (answer,), True, "", passage)
    material = material_of(record, records.by_passage)
    return material if material and material.stated else None


def _from_snippets(raw: dict[str, Any], source: str, side: Side) -> Material | None:
    """A question with an ideal answer; its snippets of this side together are the passage."""
    question, ideal = _text(raw, "question"), raw.get("ideal_answer") or []
    snippets = _snippets(raw, side)
    if not question or not ideal or not snippets:
        return None
    passage = " ".join(snippets)[:1500]
    stated = [s for s in sentences(str(ideal[0])) if _covered(s, passage)]
    if not stated:
        return None
    known = _exact_answers(raw)
    answers = tuple(a for a in known if any(a in sentence for sentence in stated))
    asides = [s for s in sentences(passage) if s not in stated and not contains_answer(s, known)]
    language = language_of(passage)
    texts = (answers, passage, _whole(stated, language), _whole(asides, language))
    return Material(question, *texts, True, language, source, snippets[0])


def _exact_answers(raw: dict[str, Any]) -> list[str]:
    groups = raw.get("exact_answer") if raw.get("type") == "factoid" else None
    return [str(answer) for group in groups or [] for answer in group]


def _snippets(raw: dict[str, Any], side: Side) -> list[str]:
    """The first snippets, those of this side; none where the first one is of the other."""
    texts = [_text(snippet, "text") for snippet in raw["snippets"][:3]]
    return [text for text in texts if text and side(text)] if texts and side(texts[0]) else []


def _covered(sentence: str, passage: str) -> bool:
    """Whether most of the sentence's longer words occur in the passage."""
    words = [word for word in re.findall(r"\w+", sentence.casefold()) if len(word) > 3]
    text = passage.casefold()
    return bool(words) and sum(word in text for word in words) >= 0.6 * len(words)


def _whole(parts: list[str], language: str) -> tuple[str, ...]:
    """Sentences of a usual length, without what ties them to the sentence before."""
    min_chars, max_chars = _SENTENCE_CHARS[language]
    trimmed = [_BRACKETS.sub("", _OPENING.sub("", part)).strip() for part in parts]
    trimmed = [_LEFTOVER.sub("", part) for part in trimmed]
    capital = [ended(part[:1].upper() + part[1:], language) for part in trimmed]
    return tuple(part for part in capital if min_chars <= len(part) <= max_chars)


def ended(text: str, language: str) -> str:
    """The text with a full stop, unless it has an end of its own."""
    return text if text[-1:] in '.!?。！？"”」' else text + ("。" if language == "zh" else ".")


def _fields(path: Path) -> set[str]:
    return next((set(row.raw) for row in read_rows(path)), set())


def _text(raw: object, field: str) -> str:
    value = raw.get(field) if isinstance(raw, dict) else None
    return value.strip() if isinstance(value, str) else ""
