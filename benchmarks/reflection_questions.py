"""Two-part questions, and what reflection made of the first draft of each."""

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from app.schemas.ask import AskResponse
from benchmarks.reflection_runs import Asker, Told
from graphs.reflection.scores import grade_of
from graphs.text.citations import without_markers
from graphs.types import Critique

FOLDER = Path(__file__).parent
LANGUAGES = ("en", "zh")
REFLECTING = ("self_rag", "self_crag")
KINDS = ("accepted", "improved", "left", "worse", "refused", "no draft", "not judged")

Row = dict[str, Any]
Half = Literal["dev", "test"]


@dataclass(frozen=True)
class TwoParts:
    """`facts` holds for each part what shows it is answered, any of them; None: nothing can."""

    question: str
    parts: tuple[str, ...]
    facts: tuple[tuple[str, ...] | None, ...]

    @property
    def answerable(self) -> frozenset[int]:
        return frozenset(n for n, facts in enumerate(self.facts) if facts is not None)

    def answered_by(self, text: str) -> frozenset[int]:
        """The parts that the text answers, markers and case aside."""
        plain = without_markers(text).casefold()
        return frozenset(
            n
            for n, facts in enumerate(self.facts)
            if any(says(plain, fact) for fact in facts or ())
        )


def says(text: str, fact: str) -> bool:
    """Whether the fact stands there as it is: "20 s" is not said by "120 s"."""
    return re.search(rf"(?<!\d){re.escape(fact)}", text) is not None


def questions(language: str, half: Half, folder: Path = FOLDER) -> list[TwoParts]:
    rows = json.loads((folder / f"two_part_{language}.json").read_text("utf-8"))[half]
    return [
        TwoParts(
            row["question"],
            tuple(row["parts"]),
            tuple(None if facts is None else tuple(facts) for facts in row["facts"]),
        )
        for row in rows
    ]


def kind_of(response: AskResponse, before: frozenset[int], after: frozenset[int]) -> str:
    """What became of the first draft, by the facts in it and in the answer."""
    if response.stopped_by == "no_evidence":
        return "refused" if response.critique else "no draft"
    if not response.critique:
        return "not judged"
    if response.critique[0].accepted:
        return "accepted"
    if before - after:
        return "worse"
    return "improved" if after - before else "left"


def best_of(critique: Sequence[Critique]) -> Critique:
    """That of the answer: the draft of highest score is kept, the earlier where they are equal."""
    return max(critique, key=lambda one: (one.score, -one.round))


def row_of(asked: TwoParts, told: Told) -> Row:
    """One question's outcome, with everything it is judged by."""
    response, first = told.response, told.first_draft
    before, after = asked.answered_by(first), asked.answered_by(response.answer)
    critique = response.critique
    return {
        "question": asked.question,
        "answerable": len(asked.answerable),
        "kind": kind_of(response, before, after),
        "before": sorted(before),
        "after": sorted(after),
        "first": first,
        "answer": response.answer,
        "criticism": [one.criticism for one in critique],
        "judged": [_judged(one) for one in (critique[0], best_of(critique))] if critique else [],
        "rounds": len(critique),
        "stopped_by": response.stopped_by,
        "degraded": [entry.component for entry in response.degraded],
        "scored_pairs": response.usage.scored_pairs,
    }


def _judged(critique: Critique) -> Row:
    grade = None if critique.utility is None else grade_of(critique.utility)
    return {"support": critique.support, "grade": grade}


async def rows_of(asker: Asker, workflow: str, asked: Iterable[TwoParts]) -> list[Row]:
    return [row_of(one, await asker.ask(workflow, one.question)) for one in asked]


def summary(rows: Sequence[Row]) -> Row:
    """The counts of one workflow and language."""
    kinds = Counter(row["kind"] for row in rows)
    accepted = [row for row in rows if row["kind"] == "accepted"]
    left = [row for row in rows if row["kind"] == "left"]
    drafted = [row for row in rows if row["judged"]]
    return {
        "questions": len(rows),
        **{kind: kinds[kind] for kind in KINDS},
        "rejected": sum(kinds[kind] for kind in ("improved", "left", "worse", "refused")),
        "accepted_whole": sum(_is_whole(row) for row in accepted),
        "accepted_unanswerable": sum(row["answerable"] < 2 for row in accepted),
        "left_whole": sum(_is_whole(row) for row in left),
        "left_unanswerable": sum(row["answerable"] < 2 for row in left),
        "answerable_parts": sum(row["answerable"] for row in rows),
        "parts_before": sum(len(row["before"]) for row in rows),
        "parts_after": sum(len(row["after"]) for row in rows),
        "whole": sum(row["answerable"] == 2 for row in rows),
        "whole_before": sum(row["before"] == [0, 1] for row in rows),
        "whole_after": sum(row["after"] == [0, 1] for row in rows),
        "support": [_mean(row["judged"][n]["support"] for row in drafted) for n in (0, 1)],
        "grade": [_mean(row["judged"][n]["grade"] for row in drafted) for n in (0, 1)],
        "characters": [_mean(len(row[which]) for row in rows) for which in ("first", "answer")],
        "stopped_by": dict(Counter(row["stopped_by"] for row in rows).most_common()),
        "degraded": sum(bool(row["degraded"]) for row in rows),
        "revisions": _mean(row["rounds"] - 1 for row in drafted),
        "scored_pairs": _mean(row["scored_pairs"] for row in rows),
    }  # fmt: skip


def _is_whole(row: Row) -> bool:
    return bool(row["after"] == [0, 1])


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.fmean(known), 3) if known else None
