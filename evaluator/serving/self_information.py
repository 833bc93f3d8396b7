"""Which parts of a text tell most: units of it, weighed by the self-information of their tokens."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

SPREAD = 0.25
"""How much more of the best text is kept than asked, and less of the worst (delta tau, 4.2)."""

_CLAUSE_END = re.compile(r"[，、；：。！？…\n]+[”’」』）】》]*|[,;:.!?]+[\"')\]]*(?=\s|$)")
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Token:
    """[start, end) in the text, and its self-information, -log p, in nats."""

    start: int
    end: int
    nats: float


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of a text that is kept or left out whole; `nats` is the mean over its tokens."""

    start: int
    end: int
    nats: float
    tokens: int


def clauses(text: str) -> list[Span]:
    """Spans between marks, each with the mark that ends it, outer blanks aside."""
    cuts = [0, *(match.end() for match in _CLAUSE_END.finditer(text)), len(text)]
    spans = (_trimmed(text, a, b) for a, b in pairwise(cuts))
    return [span for span in spans if span]


def words(text: str, tokens: Sequence[Token]) -> list[Span]:
    """Spans of whole words, and between ideographs, which no blank parts, of the model's tokens."""
    found: list[Span] = []
    for token in tokens:
        span = _trimmed(text, token.start, token.end)
        if span is None:
            continue
        if found and (span[0] < found[-1][1] or _is_one_word(text, found[-1], span)):
            found[-1] = (found[-1][0], max(span[1], found[-1][1]))
        else:
            found.append(span)
    return found


def _is_one_word(text: str, left: Span, right: Span) -> bool:
    around = text[left[1] - 1 : right[0] + 1]
    return left[1] == right[0] and not _HAN.search(around)


def _trimmed(text: str, start: int, end: int) -> Span | None:
    piece = text[start:end]
    if not piece.strip():
        return None
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())


def weighed(spans: Sequence[Span], tokens: Sequence[Token]) -> list[Unit]:
    """Each span with the tokens that begin in it; of one that no token begins in, nothing known."""
    units, place = list[Unit](), 0
    for start, end in spans:
        mine: list[float] = []
        while place < len(tokens) and tokens[place].start < end:
            if tokens[place].end > start:
                mine.append(tokens[place].nats)
            place += 1
        units.append(Unit(start, end, sum(mine) / len(mine) if mine else 0.0, len(mine)))
    return units


def minus(alone: Sequence[Token], asked: Sequence[Token]) -> list[Token]:
    """How much less surprising each token is once the question is known."""
    return [
        replace(one, nats=one.nats - other.nats) for one, other in zip(alone, asked, strict=True)
    ]


def fitting(units: Sequence[Unit], ratio: float) -> list[Unit]:
    """The most telling units in their order, as many as come nearest to this share of the tokens.

    At least one, unless the share is 0; of equal ones the earlier.
    """
    budget = ratio * sum(unit.tokens for unit in units)
    chosen: list[Unit] = []
    taken = 0.0
    for unit in sorted(units, key=lambda unit: -unit.nats):
        if chosen and taken + unit.tokens / 2 > budget:
            break
        if ratio > 0:
            chosen.append(unit)
        taken += unit.tokens
    return sorted(chosen, key=lambda unit: unit.start)


def kept(text: str, units: Sequence[Unit]) -> str:
    """The units joined: with what stood between them, or a blank where a gap held one."""
    joined, last = "", None
    for unit in units:
        if last is not None:
            gap = text[last.end : unit.start]
            joined += gap if not gap.strip() else " " * any(map(str.isspace, gap))
        joined += text[unit.start : unit.end]
        last = unit
    return joined


def mean_nats(tokens: Sequence[Token]) -> float:
    return sum(token.nats for token in tokens) / max(1, len(tokens))


def shares(surprise: Sequence[float], ratio: float) -> list[float]:
    """The share kept of each text: of the least surprising one most, SPREAD more than `ratio`."""
    count = len(surprise)
    if count < 2 or ratio >= 1:
        return [ratio] * count
    ranks = {
        place: rank for rank, place in enumerate(sorted(range(count), key=surprise.__getitem__))
    }
    told = [ratio + SPREAD * (1 - 2 * ranks[place] / (count - 1)) for place in range(count)]
    return [min(1.0, max(0.0, share)) for share in told]
