"""Compress the knowledge before it is answered from (arXiv 2407.01219, summarisation)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from langchain_core.runnables.utils import gather_with_concurrency
from langgraph.runtime import Runtime

from graphs.errors import CompressorFailed, PortError
from graphs.generation.compression import (
    best_sentences,
    by_document,
    compression_of,
    in_place_of,
    judged_sentences,
    merged,
)
from graphs.generation.repack import repacked
from graphs.generation.summary import summary_of
from graphs.grading.relevance import relevance_of
from graphs.nodes.generate import knowledge_of
from graphs.ports import Services
from graphs.reflection.budget import calls_left, is_spent
from graphs.state import Context, Reflecting, State, asked, tunables
from graphs.types import Degraded, Draft, Strip, Usage

MOST_SUMMARIES_AT_ONCE = 8

Knowledge = Sequence[Sequence[Strip]]
"""What each candidate is drafted from, or the one knowledge of a workflow without candidates."""


@dataclass(frozen=True, slots=True)
class Compressed:
    knowledge: Knowledge
    usage: Usage = field(default_factory=Usage)
    degraded: tuple[Degraded, ...] = ()


async def compress(state: State, runtime: Runtime[Context], *, services: Services) -> Reflecting:
    """Shorter knowledge for the candidates, or for the answer; as it was where that fails.

    A candidate of which nothing is left is none.
    """
    context, candidates = tunables(runtime), state.get("candidates", [])
    before: Knowledge = [draft.knowledge for draft in candidates]
    before = before or [knowledge_of(state, context)]
    is_over = is_spent(state.get("usage", Usage()), context)
    # Each knowledge is still to be drafted from.
    spare = 0 if is_over else calls_left(state, context) - len(before)
    try:
        found = await _compressed(asked(state), before, context, services, spare)
    except PortError as error:
        found = Compressed(before, degraded=(Degraded(error.component, str(error)),))
    after = [repacked(strips, context.repack) for strips in found.knowledge]
    changed: Reflecting = {
        "compression": compression_of(before, after),
        "usage": found.usage,
        "degraded": list(found.degraded),
    }
    if candidates:
        return {**changed, "candidates": _refilled(candidates, after)}
    return {**changed, "knowledge": after[0]}


def _refilled(candidates: Sequence[Draft], knowledge: Knowledge) -> list[Draft]:
    filled = [
        replace(draft, knowledge=tuple(strips))
        for draft, strips in zip(candidates, knowledge, strict=True)
        if strips
    ]
    return [replace(draft, n=n) for n, draft in enumerate(filled, start=1)]


async def _compressed(
    question: str, knowledge: Knowledge, context: Context, services: Services, spare: int
) -> Compressed:
    """In the way the run chose, with at most `spare` calls of the language model.

    Raises CompressorFailed or EvaluatorFailed.
    """
    if context.compress == "extractive":
        return await _extracted(question, knowledge, context, services)
    if context.compress == "abstractive":
        return await _summarised(question, knowledge, context, services, max(0, spare))
    return await _by_model(question, knowledge, context, services)


async def _extracted(
    question: str, knowledge: Knowledge, context: Context, services: Services
) -> Compressed:
    """The best sentences, graded in one request. Raises EvaluatorFailed."""
    titled = context.grade_titles
    texts = list(
        dict.fromkeys(
            text for strips in knowledge for s in strips for text in judged_sentences(s, titled)
        )
    )
    graded = await relevance_of(question, texts, services.evaluator, by_parts=context.grade_parts)
    scores = dict(zip(texts, graded.best, strict=True))
    unscored = sum(score is None for score in scores.values())
    told = f"{unscored} sentences of the knowledge could not be graded."
    return Compressed(
        [
            best_sentences(strips, scores, context.compress_ratio, with_title=titled)
            for strips in knowledge
        ],
        graded.usage,
        (Degraded("evaluator", told),) if unscored else (),
    )


async def _summarised(
    question: str, knowledge: Knowledge, context: Context, services: Services, most: int
) -> Compressed:
    """A summary for each document, or nothing; one that is not written leaves its strips whole.

    So do documents after the first `most`. A document that several candidates hold is summarised
    once. Raises CompressorFailed.
    """
    chat = services.chat
    if chat is None:
        raise CompressorFailed("There is no language model to summarise the knowledge.")
    apart = [by_document(strips) for strips in knowledge]
    documents = list(dict.fromkeys(merged(strips) for each in apart for strips in each))[:most]
    told = await gather_with_concurrency(
        MOST_SUMMARIES_AT_ONCE,
        *(summary_of(question, each, context.compress_ratio, chat) for each in documents),
    )
    texts = {each: said.text for each, said in zip(documents, told, strict=True)}

    def shorter(strips: list[Strip]) -> list[Strip]:
        text = texts.get(merged(strips))
        if text is None:
            return strips
        return [in_place_of(merged(strips), text)] if text else []

    return Compressed(
        [[strip for strips in each for strip in shorter(strips)] for each in apart],
        sum((said.usage for said in told), Usage()),
        tuple(dict.fromkeys(entry for said in told for entry in said.degraded)),
    )


async def _by_model(
    question: str, knowledge: Knowledge, context: Context, services: Services
) -> Compressed:
    """By a local language model, which is asked for one candidate after another.

    Raises CompressorFailed.
    """
    compressor = services.compressors.get(context.compress)
    if compressor is None:
        raise CompressorFailed(f"There is no model to compress by {context.compress}.")
    shorter: list[list[Strip]] = []
    for strips in knowledge:
        texts = [strip.text for strip in strips]
        told = await compressor.compress(question, texts, context.compress_ratio) if texts else ()
        pairs = zip(strips, told, strict=True)
        shorter.append([in_place_of(strip, text) for strip, text in pairs if text.strip()])
    return Compressed(shorter)
