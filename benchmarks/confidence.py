"""Confidence and quotations: figures that slope, shift and bars of the confidence rest on.

    selfcrag ingest FOLDER...; selfcrag serve
    python -m benchmarks.confidence ask NAME QUESTIONS [--url URL]    (adds to confidence.json)
    python -m benchmarks.confidence                                  (fits, writes confidence.md)

QUESTIONS are JSON lines of question, language, covered and either `gold`, a pattern for the fact
(benchmarks/answers.jsonl), or `answer`, the text of the entry that answers (rows that
evaluator/data/manuals.py makes). By `gold` an answer is right that holds the fact, by `answer` one
of which half is quoted out of the entry: stricter, for other entries may answer, too. Rows hold
figures alone. `before` is the same question with the quotations that came before: strips within 1.0
of the best grade, by relevance alone.
"""

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from graphs.reflection import confidence as shipped
from graphs.reflection.confidence import standing_of
from graphs.text.citations import without_markers
from graphs.types import Citation, Strip

FIGURES = Path(__file__).with_suffix(".json")
FITTED = ("answers, tuned half", "manuals of training's packages")
"""Slope and shift are fitted on these; weight and margin of quotations were chosen on the first."""
Row = dict[str, Any]


def asked(client: httpx.Client, name: str, question: Row) -> Row:
    """One question by `self_crag`, without the web, as figures."""
    options = {"web": "never", "deadline_ms": 120_000}
    reply = client.post("/ask", json={"question": question["question"], "options": options})
    body = reply.raise_for_status().json()
    kept = ("id", "document_id", "similarity")
    strips = [
        Strip(text="", title="", source="", origin="internal", position=(0, 0),
              **{key: strip[key] for key in kept})
        for strip in body["strips"]
    ]  # fmt: skip
    return {
        "set": name,
        "language": question["language"],
        "covered": question["covered"],
        "answered": bool(body["citations"]),
        "right": bool(body["citations"]) and is_right(question, body),
        "characters": len(body["answer"]),
        "standing": standing_of([Citation(**each) for each in body["citations"]], strips),
    }


def is_right(question: Row, body: Row) -> bool:
    if question.get("gold"):
        return re.search(question["gold"], body["answer"], re.I) is not None
    entry = _letters(question.get("answer", ""))
    ends = ((each["start"], each["end"]) for each in body["sentences"])
    said = [_letters(without_markers(body["answer"][start:end])) for start, end in ends]
    quoted = sum(len(text) for text in said if text[:60] in entry)
    return bool(question["covered"]) and 2 * quoted >= sum(map(len, said)) > 0


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def fit(rows: Sequence[Row]) -> tuple[float, float]:
    """Slope and shift of the logistic regression of right answers on their standing."""
    fitted = [row for row in rows if row["standing"] is not None and row["set"] in FITTED]
    regression = LogisticRegression(C=1e6).fit(
        [[row["standing"]] for row in fitted], [row["right"] for row in fitted]
    )
    return float(regression.coef_[0, 0]), float(regression.intercept_[0])


def report(rows: Sequence[Row]) -> str:
    return "\n".join([*_quotations(rows), *_confidence(rows)]) + "\n"


def _quotations(rows: Sequence[Row]) -> Iterator[str]:
    yield "# Quotations and confidence of `self_crag`\n"
    yield "Covered questions before and after units were ordered by relevance and similarity:\n"
    yield "| set | language | questions | right before | right now | gained | lost | characters |"
    yield "|---|---|---|---|---|---|---|---|"
    for (name, language), cell in _cells([row for row in rows if row["covered"]]):
        both = [(row["before"]["right"], row["right"]) for row in cell if "before" in row]
        before, now = (sum(each) for each in zip(*both, strict=True))
        lengths = [median(row["characters"] for row in it) for it in (
            [row["before"] for row in cell], cell)]  # fmt: skip
        yield (
            f"| {name} | {language} | {len(cell)} | {before} | {now} | {both.count((False, True))} "
            f"| {both.count((True, False))} | {lengths[0]:.0f} -> {lengths[1]:.0f} |"
        )


def _confidence(rows: Sequence[Row]) -> Iterator[str]:
    judged = [row for row in rows if row["standing"] is not None]
    fitted = [row for row in judged if row["set"] in FITTED]
    slope, shift = fit(rows)
    yield (
        f"\nFitted on {len(fitted)} answers: slope {slope:.1f}, shift {shift:.2f}. AUC: right "
        "answers against others. Then right answers by the verdict that the confidence allows.\n"
    )
    yield "| set | language | answers | right | AUC | supported | partly | unsupported |"
    yield "|---|---|---|---|---|---|---|---|"
    unseen = [row for row in judged if row["set"] not in FITTED]
    for (name, language), cell in [
        *_cells(judged), (("fitted on", "both"), fitted), (("not fitted on", "both"), unseen)
    ]:  # fmt: skip
        right = np.array([row["right"] for row in cell])
        standing = np.array([row["standing"] for row in cell])
        likely = 1 / (1 + np.exp(-(shipped.SLOPE * standing + shipped.SHIFT)))
        bars = (np.inf, shipped.SUPPORTED, shipped.PARTLY, -np.inf)
        bands = [right[(likely >= low) & (likely < high)] for high, low in pairwise(bars)]
        shares = " | ".join(f"{band.sum()}/{len(band)}" for band in bands)
        auc = roc_auc_score(right, standing)
        yield f"| {name} | {language} | {len(cell)} | {right.mean():.2f} | {auc:.3f} | {shares} |"


def _cells(rows: Sequence[Row]) -> list[tuple[tuple[str, str], list[Row]]]:
    names = sorted({(row["set"], row["language"]) for row in rows})
    return [
        (name, [row for row in rows if (row["set"], row["language"]) == name]) for name in names
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command")
    ask = commands.add_parser("ask")
    ask.add_argument("name")
    ask.add_argument("questions", type=Path)
    ask.add_argument("--url", default="http://127.0.0.1:8000")
    chosen = parser.parse_args()
    rows: list[Row] = json.loads(FIGURES.read_text("utf-8"))
    if chosen.command == "ask":
        lines = chosen.questions.read_text("utf-8").splitlines()
        with httpx.Client(base_url=chosen.url, timeout=180, trust_env=False) as client:
            rows += [asked(client, chosen.name, json.loads(line)) for line in lines]
        FIGURES.write_text(
            "[\n" + ",\n".join(f" {json.dumps(row)}" for row in rows) + "\n]\n", "utf-8"
        )
    FIGURES.with_suffix(".md").write_text(report(rows), "utf-8")


if __name__ == "__main__":
    main()
