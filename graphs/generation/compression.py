"""Knowledge made shorter: its best sentences, or another text in each strip's place (RECOMP)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from graphs.grading.strips import as_judged
from graphs.text.sentences import sentence_spans, token_count
from graphs.types import Compression, Strip


def judged_sentences(strip: Strip, with_title: bool) -> list[str]:
    """The sentences of a strip as they are graded, in order."""
    return [
        as_judged(replace(strip, text=strip.text[start:end]), with_title)
        for start, end in sentence_spans(strip.text)
    ]


def best_sentences(
    knowledge: Sequence[Strip],
    scores: Mapping[str, float | None],
    ratio: float,
    *,
    with_title: bool,
) -> list[Strip]:
    """The strips with the best ceil(ratio * n) of their n sentences, in their order; at least one.

    `scores` are by the text that `judged_sentences` tells. The share is of all sentences together:
    a strip may lose none, or all, and then it is left out. What has no score is worth least.
    """
    places = [
        (_worth(scores.get(text)), n, place)
        for n, strip in enumerate(knowledge)
        for place, text in enumerate(judged_sentences(strip, with_title))
    ]
    most = math.ceil(round(ratio * len(places), 9))  # 0.1 * 30 is a little more than 3
    kept = {(n, place) for _, n, place in sorted(places, key=lambda item: -item[0])[:most]}
    shortened = [
        in_place_of(strip, _sentences_at(strip.text, [p for m, p in kept if m == n]))
        for n, strip in enumerate(knowledge)
    ]
    return [strip for strip in shortened if strip.text]


def in_place_of(strip: Strip, text: str) -> Strip:
    """The strip with a shorter text, its own remembered for citations; as it was if not shorter."""
    if text == strip.text or token_count(text) > token_count(strip.text):
        return strip
    return replace(strip, text=text, whole=strip.whole or strip.text)


def by_document(knowledge: Sequence[Strip]) -> list[list[Strip]]:
    """The strips of each document, documents in the order of their first strips."""
    documents: dict[str, list[Strip]] = {}
    for strip in knowledge:
        documents.setdefault(strip.document_id, []).append(strip)
    return list(documents.values())


def merged(strips: Sequence[Strip]) -> Strip:
    """The first of one document's strips with the text of them all and the best one's score."""
    return replace(
        strips[0],
        text="\n".join(strip.text for strip in strips),
        score=max(strip.score for strip in strips),
    )


def compression_of(
    before: Sequence[Sequence[Strip]], after: Sequence[Sequence[Strip]]
) -> Compression:
    """What it came to, in tokens."""
    return Compression(_tokens(before), _tokens(after))


def _tokens(groups: Sequence[Sequence[Strip]]) -> int:
    return sum(token_count(strip.text) for strips in groups for strip in strips)


def _worth(score: float | None) -> float:
    return -math.inf if score is None else score


def _sentences_at(text: str, places: Sequence[int]) -> str:
    """These sentences with the blanks that followed them; the whole text where all are named."""
    spans = sentence_spans(text)
    if len(places) == len(spans):
        return text
    ends = [start for start, _ in spans[1:]] + [len(text)]
    return "".join(text[spans[place][0] : ends[place]] for place in sorted(places)).rstrip()
