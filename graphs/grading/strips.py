"""Knowledge strips: made from passages, selected by score, joined and repacked as knowledge."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from graphs.grading.actions import uses_documents
from graphs.grading.relevance import Relevance
from graphs.options import Context, Repack, StripMode
from graphs.state import Answer
from graphs.text.citations import without_blocks
from graphs.text.sentences import WORD, sentence_spans, token_count
from graphs.text.units import split_strips
from graphs.types import Passage, Strip, WebPage

Text = TypeVar("Text", Passage, Strip)


def evaluator_text(text: Passage | Strip, with_title: bool) -> str:
    """`title // text`, the paper's input for all sets but PopQA, which has no titles.

    A strip is read with what introduces it, and without blocks of code where it has prose: code
    repeats a question's words and answers nothing by itself.
    """
    whole = text.full_text if isinstance(text, Strip) else text.text
    if isinstance(text, Strip) and (prose := without_blocks(whole)).strip():
        whole = prose
    return f"{text.title} // {whole}" if with_title and text.title else whole


def strips_of(passages: Sequence[Passage], mode: StripMode) -> list[Strip]:
    """The strips of all passages, unscored, in document order."""
    return [
        Strip(
            id=f"{passage.id}#{place}",
            document_id=passage.id,
            text=unit.text,
            title=passage.title,
            source=passage.source,
            origin=passage.origin,
            position=(rank, place),
            retrieval_score=passage.retrieval_score,
            relevance=passage.relevance,
            similarity=passage.similarity if mode == "passage" else None,
            lead=unit.lead,
        )
        for rank, passage in enumerate(passages)
        for place, unit in enumerate(split_strips(passage.text, mode))
    ]


def paragraphs_of(pages: Sequence[WebPage]) -> list[Strip]:
    """A web page comes in paragraphs, each of which is a strip (CRAG, appendix B.3)."""
    return [
        Strip(
            id=f"web{rank}#{place}",
            document_id=page.url,
            text=text,
            title=page.title,
            source=page.url,
            origin="web",
            position=(rank, place),
        )
        for rank, page in enumerate(pages)
        for place, text in enumerate(page.paragraphs)
    ]


def with_relevance(texts: Sequence[Text], graded: Relevance) -> list[Text]:
    """The texts with relevance and similarity; one that could not be graded is left out."""
    rows = zip(texts, graded.best, graded.similarities, strict=True)
    return [
        replace(text, relevance=score, similarity=similarity)
        for text, score, similarity in rows
        if score is not None
    ]


def select(
    strips: Sequence[Strip], floor: float, most: int, *, keep_best: bool = False
) -> list[Strip]:
    """All strips in document order, the best `most` at or above `floor` marked as kept.

    Of equal texts the best alone can be kept. `keep_best` keeps the best strip even where all
    fall below the floor.
    """
    unique = _unique(sorted(strips, key=lambda strip: (-strip.score, strip.position)))
    selected_ids = [strip.id for strip in unique if strip.score >= floor][:most]
    if not selected_ids and keep_best:
        selected_ids = [strip.id for strip in unique[:1]]
    in_order = sorted(strips, key=lambda strip: strip.position)
    return [replace(strip, kept=strip.id in selected_ids) for strip in in_order]


def join(internal: Iterable[Strip], external: Iterable[Strip], budget_tokens: int) -> list[Strip]:
    """The kept strips, internal before external, without repeats, within the token budget.

    The best-scored strips get the budget; their order stays. The first of them always fits, cut
    to the budget if it must be.
    """
    selected = [strip for strip in [*internal, *external] if strip.kept]
    best_first = sorted(selected, key=lambda strip: (strip.origin == "web", -strip.score))
    known = {strip.id for strip in _unique(best_first)}
    unique = [strip for strip in selected if strip.id in known]
    chosen: dict[str, Strip] = {}
    left = budget_tokens
    for strip in sorted(unique, key=lambda strip: -strip.score):
        size = token_count(strip.text)
        if size <= left:
            chosen[strip.id] = strip
            left -= size
        elif not chosen:
            chosen[strip.id] = replace(strip, text=_cut(strip.text, budget_tokens))
            left = 0
    return [chosen[strip.id] for strip in unique if strip.id in chosen]


def _unique(strips: Iterable[Strip]) -> list[Strip]:
    """The strips that add a word to those before them, marks and case aside.

    The same page often comes in two forms, with other marks.
    """
    unique: list[tuple[Strip, set[str]]] = []
    for strip in strips:
        words = set(WORD.findall(strip.text.casefold()))
        if not any(words <= known for _, known in unique):
            unique.append((strip, words))
    return [strip for strip, _ in unique]


def _cut(text: str, budget_tokens: int) -> str:
    """The text's first sentences within the budget; of a longer first sentence its beginning."""
    fits = range(1, len(text) + 1)
    longest = bisect_right(fits, budget_tokens, key=lambda end: token_count(text[:end]))
    ends = [end for _, end in sentence_spans(text) if end <= longest]
    return text[: ends[-1] if ends else longest]


def knowledge_of(state: Answer, context: Context) -> list[Strip]:
    """Internal and external knowledge within the token budget, repacked."""
    internal = internal_knowledge(state, context.top_strips)
    joined = join(internal, state.get("web_strips", []), context.evidence_tokens)
    return repacked(joined, context.repack)


def internal_knowledge(state: Answer, top_strips: int) -> list[Strip]:
    """The refined strips; whole passages where nothing graded them (`rag`)."""
    action = state.get("action")
    if not uses_documents(action):
        return []
    if action is not None:
        return list(state.get("internal_strips", []))
    whole = strips_of(state.get("documents", []), "passage")
    return [replace(strip, kept=place < top_strips) for place, strip in enumerate(whole)]


def repacked(knowledge: Sequence[Strip], order: Repack) -> list[Strip]:
    """The same strips: as they stand (CRAG 4.4), best first, best last, or best at both ends.

    Strips 1 to 6, best first, have the order 1 3 5 6 4 2 of `sides` (arXiv 2407.01219, repacking).
    Of equal scores local strips and earlier places count as better, so that repacking twice changes
    nothing.
    """
    if order == "document":
        return list(knowledge)
    best_first = sorted(
        knowledge, key=lambda strip: (-strip.score, strip.origin == "web", strip.position)
    )
    if order == "forward":
        return best_first
    if order == "reverse":
        return best_first[::-1]
    return [*best_first[::2], *best_first[1::2][::-1]]
