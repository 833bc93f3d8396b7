"""Context windows: what is returned around a hit, neighbours joined, no sentence twice."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.retrieval.index import Hit, Index
from graphs.types import Passage

# A passage of several chunks is named by the first and the last of them.
SEVERAL = re.compile(r"(.*)-(\d+)\.\.(\d+)")


@dataclass(frozen=True, slots=True)
class Window:
    """A found chunk and the positions, `first` to `last`, that are returned with it."""

    hit: Hit
    first: int
    last: int
    score: float

    @property
    def id(self) -> str:
        if self.first == self.last:
            return self.hit.id
        return f"{_version(self.hit)}-{self.first}..{self.last}"

    @property
    def chunk_ids(self) -> list[str]:
        return chunk_ids(self.id)


def windows(order: Sequence[tuple[Hit, float]], max_windows: int) -> list[Window]:
    """At most so many, best first; what stands in one already is not returned again.

    So hits of one block become one window of the best hit's score, and windows that would overlap
    share their chunks out.
    """
    taken: dict[str, set[int]] = {}
    chosen: list[Window] = []
    for hit, score in order:
        if len(chosen) == max_windows:
            break
        here = taken.setdefault(_version(hit), set())
        if hit.position in here:
            continue
        first = last = hit.position
        while first > hit.first and first - 1 not in here:
            first -= 1
        while last < hit.last and last + 1 not in here:
            last += 1
        here.update(range(first, last + 1))
        chosen.append(Window(hit, first, last, score))
    return chosen


def chunk_ids(passage_id: str) -> list[str]:
    """The chunks of which a passage was put together."""
    several = SEVERAL.fullmatch(passage_id)
    if several is None:
        return [passage_id]
    version, first, last = several.groups()
    return [f"{version}-{position}" for position in range(int(first), int(last) + 1)]


async def passages(index: Index, chosen: Sequence[Window]) -> list[Passage]:
    """The windows with their texts; chunks that went since are left out."""
    wide = {key for window in chosen if window.first != window.last for key in window.chunk_ids}
    rows = await index.columns(sorted(wide), ["lead", "text", "page"])
    made: list[Passage] = []
    for window in chosen:
        hit = window.hit
        parts = [rows[key] for key in window.chunk_ids if key in rows]
        made.append(
            Passage(
                id=window.id,
                text=rejoined((part["lead"], part["text"]) for part in parts) or hit.text,
                title=f"{hit.title} › {hit.heading}" if hit.heading else hit.title,
                source=hit.source,
                retrieval_score=window.score,
                page=parts[0]["page"] if parts else hit.page,
            )
        )
    return made


def _version(hit: Hit) -> str:
    """What the chunks of one reading of a document have in common."""
    return hit.id.rpartition("-")[0] or hit.id


def rejoined(chunks: Iterable[tuple[str, str]]) -> str:
    """The text of neighbouring chunks, each as (lead, text)."""
    return "".join(lead + text for lead, text in chunks).strip()
