"""Tells a data file's format by its rows' fields, and reads the judgements of critic rows."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluator.data.critic_rows import critique_of
from evaluator.data.judgements import Judgement
from evaluator.data.rows import HELD_OUT, Row, data_files, read_rows
from evaluator.errors import DataError
from evaluator.model.text import is_chinese


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of rows: the fields that tell it, and those it cannot do without.

    A field written `a|b` may have either name. `contradictions` is the share of pairs labelled
    both ways that a file may hold: published sets of generated questions hold a few.
    """

    name: str
    needs: tuple[str, ...]
    contradictions: float = 0.0


CRITIC = Format("critic", ("task", "instruction", "output"))
SNIPPETS = Format("snippets", ("question", "snippets"), 0.01)
LABELLED = Format("ARES-like", ("question", "passage|document", "context_relevant"), 0.01)
ANSWERED = Format("SQuAD-like", ("question", "passage", "answerable"), 0.01)
SUBJECT = Format("PopQA-like", ("question", "answers|possible_answers"), 0.01)
PAIR = Format("pair", ("question", "passage", "label"))
DISTRACTOR = Format("passage", ("passage",))
OTHER = Format("other", ())
"""Nothing to train on, such as questions without passages: passed over."""


def format_of(raw: dict[str, Any]) -> Format:
    """The format these fields speak of, whether or not all it needs is there."""
    fields = raw.keys()
    telling = [
        (CRITIC, len(fields & {"task", "instruction", "output"}) > 1),
        (SNIPPETS, "snippets" in fields),
        (LABELLED, bool(fields & {"context_relevant", "answer_faithful", "answer_relevant"})),
        (ANSWERED, "answerable" in fields),
        (SUBJECT, bool(fields & {"prop", "s_wiki_title"})),
        (PAIR, "label" in fields and bool(fields & {"question", "passage"})),
        (DISTRACTOR, "passage" in fields and "question" not in fields),
    ]
    return next((known for known, is_told in telling if is_told), OTHER)


def recognised(path: Path) -> tuple[Format, Iterator[Row]]:
    """The file's format and its rows; DataError at the first row that differs or lacks a field."""
    rows = read_rows(path)
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path} is empty: its list holds no rows.")
    known = format_of(first.raw)
    if known is OTHER and {"question", "passage"} <= first.raw.keys():
        raise DataError(
            f"{first.where}: nothing says whether the passage answers the question (answerable, "
            "context_relevant or label)."
        )
    return known, _checked(first, rows, known)


def _checked(first: Row, rows: Iterator[Row], known: Format) -> Iterator[Row]:
    _check_fields(first, known)
    yield first
    for row in rows:
        own = format_of(row.raw)
        if own is not known:
            if own is OTHER:  # the one field that told its format may be what is missing
                _check_fields(row, known)
            raise DataError(
                f"{row.where} differs: its fields are of the format {own.name}, those of the rows "
                f"before it {known.name}. Give each format a file of its own."
            )
        _check_fields(row, known)
        yield row


def _check_fields(row: Row, known: Format) -> None:
    for field in known.needs:
        if not any(name in row.raw for name in field.split("|")):
            raise DataError(
                f"{row.where} lacks {field.replace('|', ' or ')}, which {known.name} rows need."
            )


def check_contradictions(
    claims: Iterable[tuple[str, Hashable, str]], most_share: float = 0.0
) -> None:
    """Refuse pairs labelled both ways; a claim is (where, pair, label).

    Raises DataError naming both places of the first such pair.
    """
    first: dict[Hashable, tuple[str, str]] = {}
    both: list[str] = []
    for where, pair, label in claims:
        earlier, before = first.setdefault(pair, (where, label))
        if before != label:
            both.append(
                f"{where} labels as {label} what {earlier} labels as {before}: keep one of them."
            )
    if len(both) > most_share * len(first):
        raise DataError(both[0])


def check_classes(claims: Sequence[tuple[str, Hashable, str]]) -> None:
    """Refuse pairs that are all of one label: nothing can be learned from them."""
    labels = {label for _, _, label in claims}
    if len(labels) == 1:
        raise DataError(
            f"{claims[0][0]}: every pair of this file from here on is labelled {labels.pop()}; "
            "both labels are needed."
        )


def read_judgements(folder: Path, held_out: tuple[str, ...] = HELD_OUT) -> list[Judgement]:
    """The folder's critic rows about support, utility and retrieval, held-out files left out.

    Rows about relevance are records (`evaluator.records.read_folder`). A retrieval row keeps its
    question and evidence alone: what a model wrote before or after is not known when the worker
    is asked. Raises DataError as `read_folder` does.
    """
    found: list[Judgement] = []
    for path in data_files(folder, held_out):
        known, rows = recognised(path)
        if known is CRITIC:
            found += _judgements(rows, path.name.split(".")[0])
    return found


def _judgements(rows: Iterable[Row], source: str) -> list[Judgement]:
    found: list[Judgement] = []
    claims: list[tuple[str, Hashable, str]] = []
    for row in rows:
        critique = critique_of(row)
        # The whole input is compared: sentences of one answer share question and evidence.
        pair = (critique.task, critique.question, str(row.raw.get("input")).strip())
        claims.append((row.where, pair, critique.label))
        if critique.task == "relevance":
            continue
        first, second = critique.pair
        language = "zh" if is_chinese(f"{first} {second}") else "en"
        group = critique.evidence or critique.question
        found.append(
            Judgement(critique.task, first, second, critique.label, language, source, "natural",
                      group)
        )  # fmt: skip
    check_contradictions(claims)
    return found
