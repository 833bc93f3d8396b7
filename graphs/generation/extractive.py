"""An answer without a language model: the best strips, quoted and cited sentence by sentence."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graphs.grading.relevance import best_place, log_odds
from graphs.text.citations import with_closed_code, with_marker, without_markers
from graphs.text.prompt_injection import as_quotation
from graphs.text.sentences import plain, word_count
from graphs.text.units import quotable, split_strips
from graphs.types import Language, Strip
from prompts import prompt

MAX_STRIPS = 3
WITHIN = 1.0
"""Units this far below the best one, in log-odds, say something else."""
SIMILARITY_WEIGHT = 15.0
"""What a cosine of 1 adds to the log-odds of relevance where units compete to be quoted first."""
MAX_PIECE_WORDS = 120
"""Longer knowledge is quoted in pieces, each with its own grade."""
MAX_SENTENCES = 3
"""Of a run that is stopped before it can choose: the openings of the best strips."""
MIN_SENTENCE_WORDS = 3

_MARKUP = re.compile(r"^(?:(?:[-*+•>|#]+|\d{1,3}[.)])\s+)+|(?<!\s)\s*+\|\s*+$")
# Quoted questions too: an example of asking answers nothing.
_ASKS = re.compile(r"[?？][\"'`”’」』）】》)\]}]*$")
_ENDED = re.compile(r"[。！？；.!?][\"'”’」』）】》)\]]*$")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the `n`-th strip (from 1), with its strip's score."""

    n: int
    text: str
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Quotable:
    """What is quoted as a whole: a graded strip, or part of the `n`-th strip (from 1)."""

    n: int
    strip: Strip
    grade: float | None = None


def candidate_sentences(knowledge: Sequence[Strip]) -> list[Sentence]:
    """What may be quoted: no questions, no fragments where there is anything longer.

    A sentence comes with the code, list or table that it introduces, and never without it. A short
    one that opens a longer text is no fragment: "Yes."
    """
    candidates = [
        (Sentence(n, text, strip.score), opens and _ENDED.search(text) is not None)
        for n, strip in enumerate(knowledge, start=1)
        for unit, opens in _with_opening(quotable(strip.full_text))
        if (text := _plain(unit)) and not _ASKS.search(text) and not text.endswith((":", "："))
    ]
    long = [
        item for item, opens in candidates if opens or word_count(item.text) >= MIN_SENTENCE_WORDS
    ]
    return long or [item for item, _ in candidates]


def _with_opening(units: Sequence[str]) -> list[tuple[str, bool]]:
    """The units, and whether each is the first of several."""
    return [(unit, place == 0 and len(units) > 1) for place, unit in enumerate(units)]


def pieces_of(knowledge: Sequence[Strip]) -> list[Quotable]:
    """Graded strips as they are; passages that nothing graded, and long strips, as their strips.

    Only what holds something to quote, and more than its heading again.
    """
    pieces: list[Quotable] = []
    for n, strip in enumerate(knowledge, start=1):
        if strip.relevance is not None and word_count(strip.text) <= MAX_PIECE_WORDS:
            pieces.append(Quotable(n, strip, strip.relevance))
            continue
        units = split_strips(strip.full_text)
        pieces += [
            Quotable(n, replace(strip, text=unit.text, lead=unit.lead, similarity=None))
            for unit in units
        ]
    return [
        piece
        for piece in pieces
        if candidate_sentences([piece.strip]) and not _is_heading(piece.strip)
    ]


def _is_heading(strip: Strip) -> bool:
    """Whether it is one of the headings in its title, which is the path to it, and no more."""
    return plain(strip.full_text) in map(plain, strip.title.split("›"))


def best_pieces(pieces: Sequence[Quotable], floor: float) -> list[Quotable]:
    """The best pieces, best first; none where the best one is below the floor."""
    graded = [piece for piece in pieces if piece.grade is not None and piece.grade >= floor]
    best_first = sorted(graded, key=lambda piece: -_answerhood(piece))[:MAX_STRIPS]
    bar = _answerhood(best_first[0]) - WITHIN if best_first else 0.0
    return [piece for piece in best_first if _answerhood(piece) >= bar]


def with_each_part(
    chosen: Sequence[Quotable],
    pieces: Sequence[Quotable],
    grades: Mapping[str, Sequence[float | None]],
    floor: float,
) -> tuple[list[Quotable], list[str]]:
    """The chosen pieces with the best one for each part; parts that none answers.

    `grades` are the pieces' for each part. Where no part is answered, nothing is quoted.
    """
    quoted, missing = list(chosen), list[str]()
    for part, row in grades.items():
        if (at := best_place(row, floor)) is None:
            missing.append(part)
        elif pieces[at] not in quoted:
            quoted.append(pieces[at])
    if grades and len(missing) == len(grades):
        return [], []
    return quoted, missing if quoted else []


def quoted_sentences(pieces: Sequence[Quotable]) -> list[Sentence]:
    """The pieces' sentences, none twice."""
    return _unique(
        [
            replace(sentence, n=piece.n)
            for piece in pieces
            for sentence in candidate_sentences([piece.strip])
        ]
    )


def _answerhood(piece: Quotable) -> float:
    """The log-odds that the piece answers, its similarity counted once more."""
    grade = -1.0 if piece.grade is None else piece.grade
    return log_odds(grade) + SIMILARITY_WEIGHT * (piece.strip.similarity or 0.0)


def first_sentences(candidates: Sequence[Sentence]) -> list[Sentence]:
    """Where nothing can be scored: the opening of the best strips."""
    opening = {item.n: item for item in reversed(candidates)}
    best = _unique(sorted(opening.values(), key=lambda item: -item.score))[:MAX_SENTENCES]
    return sorted(best, key=lambda item: item.n)


def compose(
    chosen: Sequence[Sentence], missing: Sequence[str] = (), language: Language = "en"
) -> list[str]:
    """The pieces of the answer; joined they are its text. Missing parts are its last paragraph."""
    chosen = _with_heads_once(chosen)
    gaps = ["", *(_gap_after(item.text) for item in chosen)]
    texts = [gap + with_marker(item.text, item.n) for gap, item in zip(gaps, chosen, strict=False)]
    if not missing:
        return texts
    open_parts = (without_markers(part).strip(" ?？") for part in missing)
    parts = ("；" if language == "zh" else "; ").join(open_parts)
    return [*texts, "\n\n" + prompt("missing", language).render(parts=parts)]


def _with_heads_once(chosen: Sequence[Sentence]) -> list[Sentence]:
    """Rows that follow each other below the same head without it, but for the first."""
    shortened, above = list[Sentence](), ""
    for item in chosen:
        head, _, row = item.text.partition("\n")
        shortened.append(replace(item, text=row) if row and head == above else item)
        above = head if row else ""
    return shortened


def _gap_after(sentence: str) -> str:
    """What parts it from the next one; a line without an end mark keeps its line."""
    end = _ENDED.search(sentence)
    if end is None:
        return "\n"
    return " " if end[0][0].isascii() else ""


def _unique(items: Sequence[Sentence]) -> list[Sentence]:
    """The first of every wording: strips that overlap hold the same sentence."""
    first: dict[str, Sentence] = {}
    for item in items:
        first.setdefault(item.text.casefold(), item)
    return list(first.values())


def _plain(line: str) -> str:
    """The line without list, quote and table marks and footnotes; empty where no word is left."""
    closed = with_closed_code(_MARKUP.sub("", line.strip()))
    text = without_markers(as_quotation(closed)).strip()
    return text if any(character.isalnum() for character in text) else ""
