"""Long answers segment by segment: a beam over passages (Self-RAG 3.3, "tree-decoding").

A path's score is the geometric mean of its segments' scores: among paths of one length it ranks as
their product does, and it does not put short answers before long ones or the other way round.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphs.grading.known import mean_of
from graphs.text.citations import with_closed_code, with_marker
from graphs.types import Draft, Judgement, Strip


@dataclass(frozen=True, slots=True)
class Segment:
    """One sentence or a few from one passage; `retrieval` is how much its model wants another.

    `continues`: it would rather go on with the passage at hand.
    """

    text: str
    strip: Strip
    judgement: Judgement | None = None
    retrieval: float | None = None
    continues: bool = False
    score: float = 0.0
    generator: str = ""
    for_want_of_calls: bool = False

    def cited(self, n: int) -> str:
        """Its text with the marker of its passage."""
        return with_marker(with_closed_code(self.text), n)


@dataclass(frozen=True, slots=True)
class Path:
    """An unfinished answer, and the passages that its next segment may come from."""

    passages: tuple[Strip, ...]
    segments: tuple[Segment, ...] = ()
    is_finished: bool = False

    @property
    def text(self) -> str:
        """What has been said, without markers."""
        return " ".join(segment.text for segment in self.segments)

    @property
    def score(self) -> float:
        """Geometric mean of what the segments score, 0 where one of them scores nothing."""
        return math.prod(max(s.score, 0.0) for s in self.segments) ** (
            1 / max(1, len(self.segments))
        )

    def asks(self, threshold: float) -> bool:
        """Whether its last segment wants to be followed by another retrieval."""
        last = self.segments[-1] if self.segments else None
        wants = last is not None and not last.continues and (last.retrieval or 0.0) > threshold
        return wants and not self.is_finished


@dataclass(frozen=True, slots=True)
class Extension:
    """A segment that the `n`-th path of the beam may go on with."""

    n: int
    segment: Segment


def extended(paths: Sequence[Path], extensions: Sequence[Extension], width: int) -> list[Path]:
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
    found = [path for path in (*longer, *ended) if path.segments]
    distinct = {path.text.casefold(): path for path in sorted(found, key=lambda path: path.score)}
    return sorted(distinct.values(), key=lambda path: -path.score)[:width]


def drafts_of(paths: Sequence[Path]) -> list[Draft]:
    """Each path as a draft, every segment cited with its passage."""
    return [_draft(path, n) for n, path in enumerate(paths, start=1) if path.segments]


def _draft(path: Path, n: int) -> Draft:
    knowledge = list({segment.strip.id: segment.strip for segment in path.segments}.values())
    places = {strip.id: place for place, strip in enumerate(knowledge, start=1)}
    pieces = [segment.cited(places[segment.strip.id]) for segment in path.segments]
    glue = "" if pieces[0][-1:] in "。！？；" else " "
    return Draft(
        glue.join(pieces),
        tuple(knowledge),
        n,
        generator=path.segments[0].generator,
        judgement=_mean(path.segments),
        score=path.score,
        for_want_of_calls=any(segment.for_want_of_calls for segment in path.segments),
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
