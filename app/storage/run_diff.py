"""What changed from one run to another, told from their traces alone."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal

from pydantic import BaseModel

Json = Mapping[str, Any]

_WORD = re.compile(r"[\u3400-\u9fff]\s*|[^\W\u3400-\u9fff]+\s*|[^\w\s]\s*|^\s+")
MAX_WORDS = 2000
"""Of each text; comparing takes their product in time."""


class Change(BaseModel):
    """`before` and `after` of what differs; null where one run does not have it."""

    name: str
    before: Any
    after: Any


class GradeChange(BaseModel):
    """A passage's grade in each run; null where it was not graded."""

    id: str
    title: str
    before: float | None
    after: float | None


class StripChange(BaseModel):
    """What became of a strip in each run; null where it was not there."""

    id: str
    text: str
    before: Literal["kept", "dropped"] | None
    after: Literal["kept", "dropped"] | None


class Words(BaseModel):
    """A piece of a text: in both, in the first alone, or in the second alone."""

    kind: Literal["same", "removed", "added"]
    text: str


class TextChange(BaseModel):
    name: str
    words: list[Words]


class RunDiff(BaseModel):
    """Empty lists and nulls where nothing changed; `took_ms` lists every step of either run."""

    runs: tuple[str, str]
    request: list[Change]
    decided: list[Change]
    path: list[Words]
    grades: list[GradeChange]
    strips: list[StripChange]
    drafts: list[TextChange]
    critique: list[Change]
    answer: list[Words]
    usage: list[Change]
    took_ms: list[Change]


def difference(first: Json, second: Json) -> RunDiff:
    """Two traces as `replay.trace` tells them; a run without an answer differs in all of it."""
    a, b = first["answer"] or {}, second["answer"] or {}
    return RunDiff(
        runs=(first["run_id"], second["run_id"]),
        request=_changes(_requested(first), _requested(second)),
        decided=_changes(_decided(first), _decided(second)),
        path=_unless_same(_pieces(_path(first), _path(second), " › ")),
        grades=_grades(a.get("documents", ()), b.get("documents", ())),
        strips=_strips(a.get("strips", ()), b.get("strips", ())),
        drafts=_drafts(a.get("candidates", ()), b.get("candidates", ())),
        critique=_changes(_critique(a), _critique(b)),
        answer=_unless_same(words(a.get("answer", ""), b.get("answer", ""))),
        usage=_changes(a.get("usage", {}), b.get("usage", {})),
        took_ms=_changes(a.get("timings_ms", {}), b.get("timings_ms", {}), all_of_them=True),
    )


def words(before: str, after: str) -> list[Words]:
    """One text after another, word by word; Chinese sign by sign."""
    return _pieces(_WORD.findall(before)[:MAX_WORDS], _WORD.findall(after)[:MAX_WORDS], "")


def _pieces(before: Sequence[str], after: Sequence[str], glue: str) -> list[Words]:
    pieces: list[Words] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            pieces.append(Words(kind="same", text=glue.join(before[a:b])))
            continue
        if b > a:
            pieces.append(Words(kind="removed", text=glue.join(before[a:b])))
        if d > c:
            pieces.append(Words(kind="added", text=glue.join(after[c:d])))
    return pieces


def _unless_same(pieces: list[Words]) -> list[Words]:
    return [] if all(piece.kind == "same" for piece in pieces) else pieces


def _changes(before: Json, after: Json, all_of_them: bool = False) -> list[Change]:
    return [
        Change(name=name, before=before.get(name), after=after.get(name))
        for name in dict.fromkeys([*before, *after])
        if all_of_them or before.get(name) != after.get(name)
    ]


def _requested(trace: Json) -> Json:
    request = trace["request"]
    options = {f"options.{name}": value for name, value in request.get("options", {}).items()}
    bounds = {f"thresholds.{name}": value for name, value in trace["thresholds"].items()}
    models = {f"models.{k}": v for k, v in ((trace["answer"] or {}).get("models") or {}).items()}
    question = {"question": request["question"], "workflow": trace["workflow"]}
    return question | options | bounds | models


def _decided(trace: Json) -> Json:
    answer = trace["answer"] or {}
    names = ("standalone_question", "action", "rewritten_query", "stopped_by")
    decision = (answer.get("retrieval") or {}).get("decision")
    return {"status": trace["status"], "retrieval": decision} | {n: answer.get(n) for n in names}


def _path(trace: Json) -> list[str]:
    """The steps in the order in which they began."""
    return [
        "/".join(event["data"]["path"])
        for event in trace["events"]
        if event["name"] == "step" and event["data"]["phase"] == "start"
    ]


def _sides(
    before: Iterable[Json], after: Iterable[Json], key: str
) -> Iterator[tuple[str, Json, Json]]:
    """What has the same `key` in both runs; empty where one run does not have it."""
    first, second = ({entry[key]: entry for entry in side} for side in (before, after))
    for name in dict.fromkeys([*first, *second]):
        yield name, first.get(name, {}), second.get(name, {})


def _grades(before: Iterable[Json], after: Iterable[Json]) -> list[GradeChange]:
    return [
        GradeChange(id=name, title=(a or b)["title"], before=a.get("score"), after=b.get("score"))
        for name, a, b in _sides(before, after, "id")
        if a.get("score") != b.get("score")
    ]


def _strips(before: Iterable[Json], after: Iterable[Json]) -> list[StripChange]:
    return [
        StripChange(id=name, text=(a or b)["text"], before=_fate(a), after=_fate(b))
        for name, a, b in _sides(before, after, "id")
        if _fate(a) != _fate(b)
    ]


def _fate(strip: Json) -> Literal["kept", "dropped"] | None:
    if not strip:
        return None
    return "kept" if strip["kept"] else "dropped"


def _drafts(before: Iterable[Json], after: Iterable[Json]) -> list[TextChange]:
    changes = (
        TextChange(
            name=f"draft {n}", words=_unless_same(words(a.get("answer", ""), b.get("answer", "")))
        )
        for n, a, b in _sides(before, after, "n")
    )
    return [change for change in changes if change.words]


def _critique(answer: Json) -> Json:
    return {
        f"round {entry['round']} {name}": entry[name]
        for entry in answer.get("critique", ())
        for name in ("relevance", "support", "utility", "score", "criticism", "accepted")
    }
