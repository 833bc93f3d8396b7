"""An answer without a language model: the best supported sentences, each cited."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graphs.text.citations import with_closed_code, with_marker, without_markers
from graphs.text.sentences import word_count
from graphs.text.units import quotable
from graphs.types import Language, Strip
from prompts import prompt

MAX_SENTENCES = 3
WITHIN = 0.5
"""Sentences this far below the best one say something else."""
MIN_SENTENCE_WORDS = 3

_MARKUP = re.compile(r"^(?:(?:[-*+•>|#]+|\d{1,3}[.)])\s+)+|(?<!\s)\s*+\|\s*+$")
# Quoted questions too: an example of asking answers nothing.
_ASKS = re.compile(r"[?？][\"'`”’」』）】》)\]}]*$")
_ENDED = re.compile(r"[。！？；.!?][\"'”’」』）】》)\]]*$")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the `n`-th strip (from 1); `score` is its strip's until its own is known."""

    n: int
    text: str
    score: float = 0.0
    strip_relevance: float | None = None


def candidate_sentences(knowledge: Sequence[Strip]) -> list[Sentence]:
    """What may be quoted: no questions, no fragments where there is anything longer.

    A sentence comes with the code, list or table that it introduces, and never without it.
    """
    found = [
        Sentence(n, text, strip.score, strip.relevance)
        for n, strip in enumerate(knowledge, start=1)
        for unit in quotable("\n".join(filter(None, [strip.lead, strip.text])))
        if (text := _plain(unit)) and not _ASKS.search(text) and not text.endswith((":", "："))
    ]
    long = [item for item in found if word_count(item.text) >= MIN_SENTENCE_WORDS]
    return long or found


def best_supported(
    candidates: Sequence[Sentence],
    scores: Sequence[float | None],
    floor: float,
    *,
    keep_best: bool,
) -> list[Sentence]:
    """At most three sentences, the best strip's first; none where none is supported.

    Sentences of one strip keep their order. A sentence's support is the mean of its own relevance
    and its strip's: alone it may lack its subject, and a good strip may hold sentences beside the
    point. Where its strip was not graded its own alone counts.
    """
    judged = [
        replace(item, score=_support(score, item.strip_relevance))
        for item, score in zip(candidates, scores, strict=True)
        if score is not None
    ]
    best_first = _unique(sorted(judged, key=lambda item: -item.score))
    if not best_first:
        return []
    bar = max(floor, best_first[0].score - WITHIN)
    chosen = [item for item in best_first if item.score >= bar][:MAX_SENTENCES]
    if not chosen and keep_best:
        chosen = best_first[:1]
    lead = list(dict.fromkeys(item.n for item in chosen))
    in_order = [item for item in dict.fromkeys(judged) if item in chosen]
    return sorted(in_order, key=lambda item: lead.index(item.n))


def with_each_part(
    chosen: Sequence[Sentence],
    candidates: Sequence[Sentence],
    scores: Mapping[str, Sequence[float | None]],
    floor: float,
) -> tuple[list[Sentence], list[str]]:
    """The chosen sentences with the best one for each part; parts that none answers.

    `scores` are the candidates' for each part. Where nothing is quoted at all, no part is named.
    """
    quoted, missing = list(chosen), list[str]()
    texts = {item.text for item in chosen}
    for part, row in scores.items():
        graded = [(score, -at) for at, score in enumerate(row) if score is not None]
        score, at = max(graded, default=(floor - 1, 0))
        if score < floor:
            missing.append(part)
        elif candidates[-at].text not in texts:
            quoted.append(replace(candidates[-at], score=score))
            texts.add(candidates[-at].text)
    return quoted, missing if quoted else []


def _support(relevance: float, strip_relevance: float | None) -> float:
    return relevance if strip_relevance is None else (relevance + strip_relevance) / 2


def first_sentences(candidates: Sequence[Sentence]) -> list[Sentence]:
    """Where nothing can be scored: the opening of the best strips."""
    opening = {item.n: item for item in reversed(candidates)}
    best = _unique(sorted(opening.values(), key=lambda item: -item.score))[:MAX_SENTENCES]
    return sorted(best, key=lambda item: item.n)


def compose(
    chosen: Sequence[Sentence], missing: Sequence[str] = (), language: Language = "en"
) -> list[str]:
    """The pieces of the answer; joined they are its text. Missing parts are its last paragraph."""
    gaps = ["", *(_gap_after(item.text) for item in chosen)]
    said = [gap + with_marker(item.text, item.n) for gap, item in zip(gaps, chosen, strict=False)]
    if not missing:
        return said
    parts = ("；" if language == "zh" else "; ").join(part.strip(" ?？") for part in missing)
    return [*said, "\n\n" + prompt("missing", language).render(parts=parts)]


def _gap_after(sentence: str) -> str:
    """What parts it from the next one; a line without an end mark keeps its line."""
    end = _ENDED.search(sentence)
    if end is None:
        return "\n"
    return " " if end[0][0].isascii() else ""


def _unique(found: Sequence[Sentence]) -> list[Sentence]:
    """The first of every wording: strips that overlap hold the same sentence."""
    first: dict[str, Sentence] = {}
    for item in found:
        first.setdefault(item.text.casefold(), item)
    return list(first.values())


def _plain(line: str) -> str:
    """The line without list, quote and table marks and footnotes; empty where no word is left."""
    text = without_markers(with_closed_code(_MARKUP.sub("", line.strip()))).strip()
    return text if any(character.isalnum() for character in text) else ""
