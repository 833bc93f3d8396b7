"""Long answers segment by segment: a beam over passages (Self-RAG 3.3, "tree-decoding").

A path's score is the geometric mean of its segments' scores: among paths of one length it ranks as
their product does, and it does not put short answers before long ones or the other way round.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from langchain_core.language_models import BaseChatModel

from graphs.errors import GeneratorFailed, PortError
from graphs.generation.answer import EXTRACTIVE
from graphs.generation.extractive import candidate_sentences
from graphs.generation.prompts import DraftRequest, segment_messages, text_of, usage_of
from graphs.grading.relevance import best_place, mean_of, scores_of
from graphs.ports import Evaluator, ReflectiveGenerator, Services
from graphs.text.citations import with_closed_code, with_marker, without_markers
from graphs.text.sentences import plain, sentences
from graphs.types import Degraded, Draft, Extension, Judgement, Path, Segment, Strip, Usage

END = "END"


@dataclass(frozen=True, slots=True)
class Continuation:
    """What came of one passage: no segment where it has nothing to add, or a part failed."""

    segment: Segment | None
    usage: Usage
    degraded: tuple[Degraded, ...] = ()


async def segment_from(
    request: DraftRequest, passage: Strip, preceding: str, services: Services
) -> Continuation:
    """One more sentence from the passage that `preceding` does not hold."""
    try:
        if services.reflective is not None:
            continuation = await _by_reflective(request, passage, preceding, services.reflective)
        elif services.chat is not None:
            continuation = await _by_chat(request, passage, preceding, services.chat)
        else:
            continuation = await _quoted(request, passage, preceding, services.evaluator)
    except GeneratorFailed as error:
        again, degraded = Continuation(None, Usage()), error.degraded
        if (other := services.fallen_back) is not None:
            again = await segment_from(request, passage, preceding, other)
            degraded = error.answered_by(other.chat_name) if again.segment else degraded
        return replace(again, usage=error.usage + again.usage, degraded=(degraded, *again.degraded))
    except PortError as error:
        return Continuation(None, error.usage, (error.degraded,))
    previous = {plain(line) for line in sentences(preceding)}
    if continuation.segment is None or plain(continuation.segment.text) in {"", *previous}:
        return Continuation(None, continuation.usage)
    generator = services.chat_name if services.writes_by_model else EXTRACTIVE
    return replace(continuation, segment=replace(continuation.segment, generator=generator))


async def _by_reflective(
    request: DraftRequest, passage: Strip, preceding: str, reflective: ReflectiveGenerator
) -> Continuation:
    reply = await reflective.write(request.question, passage, preceding)
    segment = Segment(reply.text, passage, reply.judgement, reply.retrieval, reply.continues)
    return Continuation(segment, reply.usage)


async def _by_chat(
    request: DraftRequest, passage: Strip, preceding: str, chat: BaseChatModel
) -> Continuation:
    reply = await chat.ainvoke(segment_messages(request, passage, preceding))
    lines = [line for line in sentences(without_markers(text_of(reply))) if _letters_of(line)]
    ended = not lines or _letters_of(lines[0]) == END
    return Continuation(None if ended else Segment(lines[0], passage), usage_of(reply))


def _letters_of(line: str) -> str:
    """What is left of it without marks, for models that set `END` in bold or in brackets."""
    return "".join(filter(str.isalnum, line)).upper()


async def _quoted(
    request: DraftRequest, passage: Strip, preceding: str, evaluator: Evaluator
) -> Continuation:
    """The best sentence that is left, if it reaches the floor."""
    previous = {plain(line) for line in sentences(preceding)}
    left = [item for item in candidate_sentences([passage]) if plain(item.text) not in previous]
    graded = await scores_of([request.question], [item.text for item in left], evaluator)
    at = best_place(graded.best, request.floor)
    segment = None if at is None else Segment(left[at].text, passage)
    return Continuation(segment, graded.usage)


def cited_segment(segment: Segment, n: int) -> str:
    """Its text with the marker of its passage."""
    return with_marker(with_closed_code(segment.text), n)


def next_beam(paths: Sequence[Path], extensions: Sequence[Extension], width: int) -> list[Path]:
    """The best paths after one more segment; a path that nothing new follows is finished."""
    longer = [
        replace(
            paths[each.n],
            segments=(*paths[each.n].segments, each.segment),
            passages=(each.segment.strip,) if each.segment.continues else paths[each.n].passages,
        )
        for each in extensions
    ]
    followed = {each.n for each in extensions}
    ended = [replace(p, is_finished=True) for n, p in enumerate(paths) if n not in followed]
    beam = [path for path in (*longer, *ended) if path.segments]
    distinct = {path.text.casefold(): path for path in sorted(beam, key=lambda path: path.score)}
    return sorted(distinct.values(), key=lambda path: -path.score)[:width]


def drafts_of(paths: Sequence[Path]) -> list[Draft]:
    """Each path as a draft, every segment cited with its passage."""
    return [_draft(path, n) for n, path in enumerate(paths, start=1) if path.segments]


def _draft(path: Path, n: int) -> Draft:
    knowledge = list({segment.strip.id: segment.strip for segment in path.segments}.values())
    places = {strip.id: place for place, strip in enumerate(knowledge, start=1)}
    pieces = [cited_segment(segment, places[segment.strip.id]) for segment in path.segments]
    glue = "" if pieces[0][-1:] in "。！？；" else " "
    return Draft(
        glue.join(pieces),
        tuple(knowledge),
        n,
        generator=path.segments[0].generator,
        judgement=_mean(path.segments),
        critique_score=path.score,
        budget_exhausted=any(segment.budget_exhausted for segment in path.segments),
    )


def _mean(segments: Sequence[Segment]) -> Judgement | None:
    """What the segments' judgements come to; None where a critic has failed to judge one."""
    judged = [segment.judgement for segment in segments if segment.judgement]
    if len(judged) < len(segments):
        return None
    return Judgement(
        relevance=mean_of(each.relevance for each in judged),
        support=mean_of(each.support for each in judged),
        utility=mean_of(each.utility for each in judged),
        likelihood=mean_of(each.likelihood for each in judged),
    )
