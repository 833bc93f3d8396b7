"""Units of a text: what is read together, as a sentence with the code or list that it introduces.

Text comes as the chunker makes it: paragraphs and entries are lines, list items begin with a dash
or a number, rows of a table have bars, and code stands between fences.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from graphs.options import StripMode
from graphs.text.sentences import IDEOGRAPHS, sentence_spans, word_count

# About 60 subword tokens: short enough to be about one thing, long enough to be understood alone.
STRIP_WORDS = 70
FIXED_WORDS, MIN_TAIL_WORDS = 50, 10
GROUP = 3
MAX_UNIT_WORDS = 120
"""With more words, what a sentence introduces is cut and told with the sentence as its lead."""
MAX_LEAD_WORDS = 40

_WORD = re.compile(rf"[{IDEOGRAPHS}]|[^\s{IDEOGRAPHS}]+")
_FENCE = re.compile(r"^\s*```")
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)、])\s+\S")
_ROW = re.compile(r"\S?\s\|\s")
_INTRODUCES = re.compile(r"[:：]\s*$")

Kind = Literal["prose", "code", "list", "table"]


@dataclass(frozen=True, slots=True)
class StripUnit:
    """A piece of a text; `lead` is what introduces it where that stands before it, else ""."""

    text: str
    lead: str = ""


@dataclass(frozen=True, slots=True)
class _Block:
    """Neighbouring lines of one kind: [start, end) of the text."""

    kind: Kind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Span:
    start: int
    end: int
    lead: str = ""


def split_strips(text: str, mode: StripMode = "sentences") -> list[StripUnit]:
    """Knowledge strips in reading order (CRAG 4.4).

    sentences: one or two sentences are one strip, longer text is cut every few sentences by
    length; code, lists and tables stay with what introduces them. groups: every three sentences.
    words: every 50 words, a tail under 10 joins the strip before. passage: the whole text.
    """
    if mode == "passage":
        return [StripUnit(text.strip())] if text.strip() else []
    if mode == "words":
        return [StripUnit(piece) for piece in _fixed_windows(text)]
    if mode == "groups":
        spans = sentence_spans(text)
        groups = [spans[at : at + GROUP] for at in range(0, len(spans), GROUP)]
        return [StripUnit(text[group[0][0] : group[-1][1]]) for group in groups]
    return [StripUnit(text[span.start : span.end], span.lead) for span in _units(text)]


def quotable(text: str) -> list[str]:
    """What may be quoted of a text: sentences with what they introduce, items, rows with the head.

    Code that nothing introduces is no answer.
    """
    pieces: list[str] = []
    introduces = False
    for block in _blocks(text):
        piece = text[block.start : block.end]
        if block.kind == "prose":
            pieces += [piece[start:end] for start, end in sentence_spans(piece)]
        elif pieces and (introduces or block.kind == "code"):
            pieces[-1] += f"\n{piece}"
        elif block.kind == "list":
            pieces += _lines(text, block)
        elif block.kind == "table":
            head, *rows = _lines(text, block)
            pieces += [f"{head}\n{row}" for row in rows]
        introduces = block.kind == "prose" and _INTRODUCES.search(piece) is not None
    return pieces


def _lines(text: str, block: _Block) -> list[str]:
    return text[block.start : block.end].splitlines()


def _units(text: str) -> list[_Span]:
    units: list[_Span] = []
    prose: list[tuple[int, int]] = []  # sentences that no block of another kind has parted
    for block in _blocks(text):
        if block.kind == "prose":
            prose += [
                (block.start + start, block.start + end)
                for start, end in sentence_spans(text[block.start : block.end])
            ]
            continue
        units += _of_prose(text, prose)
        prose = []
        units = _joined(text, units, block)
    return units + _of_prose(text, prose)


def _blocks(text: str) -> Iterator[_Block]:
    """The text's lines by their kind; a row alone is prose that happens to hold a bar."""
    lines: list[_Block] = []
    start, in_code = 0, False
    for line in text.splitlines(keepends=True):
        is_fence = _FENCE.match(line) is not None
        kind: Kind = "prose"
        if in_code or is_fence:
            kind = "code"
        elif _ITEM.match(line):
            kind = "list"
        elif _ROW.search(line):
            kind = "table"
        in_code ^= is_fence
        if line.strip():
            lines.append(_Block(kind, start, start + len(line.rstrip())))
        start += len(line)
    for kind, of_kind in groupby(lines, key=lambda line: line.kind):
        group = list(of_kind)
        is_row_alone = kind == "table" and len(group) == 1
        yield _Block("prose" if is_row_alone else kind, group[0].start, group[-1].end)


def _of_prose(text: str, spans: Sequence[tuple[int, int]]) -> list[_Span]:
    groups = [spans] if 0 < len(spans) <= 2 else _grouped_by_length(text, spans)
    return [_Span(group[0][0], group[-1][1]) for group in groups]


def _joined(text: str, units: list[_Span], block: _Block) -> list[_Span]:
    """The block with the unit that introduces it, or in parts that have it as their lead."""
    before = units[-1] if units else None
    introduced = before is not None and (
        block.kind == "code" or _INTRODUCES.search(text[before.start : before.end])
    )
    words = word_count(text[block.start : block.end])
    if introduced and before is not None:
        if word_count(text[before.start : before.end]) + words <= MAX_UNIT_WORDS:
            return [*units[:-1], replace(before, end=block.end)]
        last = sentence_spans(text[before.start : before.end])[-1]
        lead = text[before.start + last[0] : before.start + last[1]]
        lead = lead if word_count(lead) <= MAX_LEAD_WORDS else ""
    else:
        lead = ""
    return units + _parts(text, block, lead)


def _parts(text: str, block: _Block, lead: str) -> list[_Span]:
    """Code whole, items and rows in runs of about STRIP_WORDS; a table's head leads its rows."""
    if block.kind == "code":
        return [_Span(block.start, block.end, lead)]
    lines = [
        (block.start + line.start(), block.start + line.end())
        for line in re.finditer(r"\S[^\n]*", text[block.start : block.end])
    ]
    groups = _grouped_by_length(text, lines)
    head = text[slice(*lines[0])] if block.kind == "table" else ""
    return [
        _Span(group[0][0], group[-1][1], "\n".join(filter(None, [lead, head if at else ""])))
        for at, group in enumerate(groups)
    ]


def _grouped_by_length(text: str, spans: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Sentences in runs of about STRIP_WORDS."""
    return _runs(text, spans, lambda size, length: size + length / 2 <= STRIP_WORDS)


def _runs(
    text: str, spans: Sequence[tuple[int, int]], fits: Callable[[float, float], bool]
) -> list[list[tuple[int, int]]]:
    """Runs of as many spans as fit, by the words so far and their own.

    A short last run joins the one before.
    """
    groups: list[list[tuple[int, int]]] = []
    size = 0.0
    for start, end in spans:
        length = word_count(text[start:end])
        if groups and fits(size, length):
            groups[-1].append((start, end))
            size += length
        else:
            groups.append([(start, end)])
            size = length
    if len(groups) > 1 and size < MIN_TAIL_WORDS:
        groups[-2:] = [groups[-2] + groups[-1]]
    return groups


def _fixed_windows(text: str) -> list[str]:
    words = [match.span() for match in _WORD.finditer(text)]
    windows = _runs(text, words, lambda size, length: size + length <= FIXED_WORDS)
    return [text[window[0][0] : window[-1][1]] for window in windows]
