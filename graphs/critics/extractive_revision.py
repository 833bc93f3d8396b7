"""Revision without a language model: drop what is weak, add what answers the open parts."""

from collections.abc import Sequence
from dataclasses import replace

from graphs.critics.evaluator import COVERED
from graphs.generation.extractive import Sentence, candidate_sentences, compose
from graphs.grading.relevance import scores_of
from graphs.grading.strips import as_judged
from graphs.ports import Evaluator
from graphs.reflection.scores import plain
from graphs.text.citations import cited_numbers, without_markers
from graphs.text.sentences import sentences
from graphs.types import Draft, Judgement, Strip, Usage

MAX_ADDED = 3
"""Strips added to a draft for one open part."""

MAX_SEARCHED = 100
"""Unused strips looked through for the open parts, best first."""


async def strips_for(
    parts: Sequence[str], pool: Sequence[Strip], evaluator: Evaluator, floor: float
) -> tuple[list[Strip], Usage]:
    """For each part the unused strips that answer it best, with that score; none below the floor.

    Raises EvaluatorFailed.
    """
    looked = sorted(pool, key=lambda strip: -strip.score)[:MAX_SEARCHED]
    texts = [as_judged(strip, with_title=True) for strip in looked]
    rows, usage = await scores_of(parts, texts, evaluator)
    chosen: dict[str, Strip] = {}
    for grades in rows:
        known = [
            replace(strip, relevance=score, kept=True)
            for strip, score in zip(looked, grades, strict=True)
            if score is not None and score >= floor
        ]
        for strip in sorted(known, key=lambda strip: -strip.score)[:MAX_ADDED]:
            chosen.setdefault(strip.id, strip)
    return list(chosen.values()), usage


async def revise_extractively(
    draft: Draft, judgement: Judgement, added: Sequence[Strip], evaluator: Evaluator
) -> tuple[Draft, Usage]:
    """The draft without its weak sentences, with the best sentence for each open part.

    Raises EvaluatorFailed.
    """
    knowledge = [*draft.knowledge, *added]
    stays = [item for item in quoted_in(draft) if item.text not in judgement.weak]
    quotable = [i for i in candidate_sentences(knowledge) if i.text not in judgement.weak]
    texts = [item.text for item in quotable]
    rows, usage = await scores_of(judgement.uncovered, texts, evaluator)
    comes = []
    for grades in rows:
        best = max(
            ((score, -place) for place, score in enumerate(grades) if score is not None),
            default=(COVERED - 1, 0),
        )
        if best[0] >= COVERED:
            comes.append(quotable[-best[1]])
    return recomposed([*stays, *comes], knowledge), usage


def unused(draft: Draft, pool: Sequence[Strip]) -> list[Strip]:
    """Strips that the draft does not have yet, by place or by text."""
    places = {strip.id for strip in draft.knowledge}
    texts = {plain(strip.text) for strip in draft.knowledge}
    return [strip for strip in pool if strip.id not in places and plain(strip.text) not in texts]


def quoted_in(draft: Draft) -> list[Sentence]:
    """The draft's cited sentences as they were quoted."""
    found = []
    for line in sentences(draft.answer):
        numbers = [n for n in cited_numbers(line) if 1 <= n <= len(draft.knowledge)]
        if numbers:
            found.append(Sentence(numbers[0], without_markers(line).strip()))
    return found


def recomposed(chosen: Sequence[Sentence], knowledge: Sequence[Strip]) -> Draft:
    """The sentences as one answer, none twice, from that part of the knowledge which they cite."""
    once = list({plain(item.text): item for item in reversed(chosen)}.values())[::-1]
    numbers = list(dict.fromkeys(item.n for item in once))
    renumbered = [replace(item, n=numbers.index(item.n) + 1) for item in once]
    return Draft("".join(compose(renumbered)), tuple(knowledge[n - 1] for n in numbers))
