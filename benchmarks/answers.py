"""Answers over manuals that nobody of this project wrote: what each stage keeps of the gold fact.

    selfcrag ingest FOLDER...; selfcrag serve        (the packages named below, unpacked)
    python -m benchmarks.answers [--url URL] [--half tuned|reported|both] [--settings rag ...]
                                 [--before FILE: figures of the weights that are replaced]

Questions stand in benchmarks/answers.jsonl: 60 a language over Debian's git-doc, python3.11-doc,
sqlite3-doc and debian-faq-zh-cn, maint-guide-zh-cn, debian-reference-zh-cn, gimp-help-zh-cn,
written from the documents before any answer was seen. `gold` is a pattern for the fact, `open` for
the words of the part that the documents leave open. Half of them may be looked at while tuning.
Figures go to benchmarks/answers.json, the report to benchmarks/answers.md.
"""

import argparse
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from hashlib import sha256
from itertools import product
from math import comb
from pathlib import Path
from typing import Any

import httpx
from sklearn.metrics import roc_auc_score

from benchmarks.evaluator.ratchet import ALPHA, digits, sign_test

HERE = Path(__file__).parent
FIGURES = HERE / "answers.json"
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "rag": ("rag", {}),
    "crag": ("crag", {}),
    "self_crag": ("self_crag", {}),
    "crag, no refinement": ("crag", {"ablation": {"refinement": False}}),
    "crag, balanced": ("crag", {"preset": "balanced"}),
}
"""Workflow and options by what the report calls them."""
NOT_FOUND = re.compile(
    r"not found|do(?:es)? not (?:say|tell)|no(?:thing| passage)|未找到|没有找到", re.I
)


HEAD = ("language", "setting", "retrieved", "kept", "answered", "something else said",
        "open part named", "abstained", "s", "pairs")  # fmt: skip
Asked = dict[str, Any]
"""One question's way through one setting, by whether the gold fact was there."""


def questions(half: str) -> list[dict[str, Any]]:
    """Those of one half, which the id alone decides."""
    lines = (HERE / "answers.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return [row for row in rows if half in ("both", half_of(row["id"]))]


def half_of(name: str) -> str:
    return "tuned" if sha256(name.encode()).digest()[0] % 2 else "reported"


def ask(client: httpx.Client, row: dict[str, Any], setting: str) -> Asked:
    workflow, chosen = SETTINGS[setting]
    options = {"web": "never", "deadline_ms": 120_000, **chosen}
    started = time.perf_counter()
    reply = client.post(
        "/ask", json={"question": row["question"], "workflow": workflow, "options": options}
    )
    reply.raise_for_status()
    body, seconds = reply.json(), time.perf_counter() - started

    def is_in(texts: Sequence[str]) -> bool:
        return bool(row["gold"]) and any(re.search(row["gold"], text, re.I) for text in texts)

    texts = [strip["text"] for strip in body["strips"]]
    missing = " ".join(body["missing"])
    opened = row.get("open")
    return Asked(
        id=row["id"],
        language=row["language"],
        kind=row["kind"],
        setting=setting,
        retrieved=is_in(texts),
        kept=is_in([strip["text"] for strip in body["strips"] if strip["kept"]]),
        answered=bool(body["citations"]) and is_in([body["answer"]]),
        abstained=body["verdict"] == "abstained",
        names_open=bool(opened) and _names(str(opened), missing, body["answer"]),
        verdict=body["verdict"],
        confidence=body["confidence"],
        stopped_by=body["stopped_by"],
        seconds=round(seconds, 3),
        pairs=body["usage"]["scored_pairs"],
        answer=body["answer"],
    )


def _names(opened: str, missing: str, answer: str) -> bool:
    """Whether the open part is named as not found, or all is."""
    said = [line for line in re.split(r"(?<=[.。\n])", answer) if NOT_FOUND.search(line)]
    return any(re.search(opened, text, re.I) for text in (missing, *said))


def lost_at(asked: Asked) -> str:
    """The stage that lost the gold fact; "" where none did."""
    for stage in ("retrieved", "kept", "answered"):
        if not asked[stage]:
            return stage
    return ""


def share(found: Sequence[bool]) -> str:
    return f"{sum(found)}/{len(found)} ({sum(found) / len(found):.0%})" if found else "-"


def compared(rows: Sequence[Asked], one: str, other: str) -> list[str]:
    """Whether one setting answers more covered questions than another: a sign test over pairs."""
    answered: dict[str, dict[str, bool]] = defaultdict(dict)
    seconds: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        seconds[row["setting"]].append(row["seconds"])
        if row["kind"] == "covered":
            answered[row["id"]][row["setting"]] = row["answered"]
    pairs = [(by[one], by[other]) for by in answered.values() if {one, other} <= by.keys()]
    if not pairs:
        return []
    gained, lost = (sum(a > b for a, b in pairs), sum(a < b for a, b in pairs))
    apart = gained + lost
    tails = 2 * sum(comb(apart, k) for k in range(min(gained, lost) + 1)) / 2**apart
    times = (sum(seconds[name]) / len(seconds[name]) for name in (one, other))
    ratio = next(times) / next(times)
    return [
        f"`{one}` beside `{other}`, over {len(pairs)} covered questions: {gained} answered by it "
        f"alone, {lost} by the other alone (sign test, p = {min(1.0, tails):.2f}), at {ratio:.1f} "
        "times the time.",
    ]


def accepted(rows: Sequence[Asked]) -> list[str]:
    """What the critic accepts of answers with the fact, and of covered ones without."""
    judged = [
        row for row in rows
        if row["kind"] == "covered" and row["setting"] == "self_crag" and not row["abstained"]
    ]  # fmt: skip
    return [
        f"Of `self_crag`'s answers {said} the fact the critic accepts "
        f"{share([row['stopped_by'] == 'accepted' for row in judged if row['answered'] == has])}."
        for said, has in (("with", True), ("without", False))
    ]


def promised(rows: Sequence[Asked]) -> list[str]:
    """What verdict and confidence promise of `self_crag`: the share of right answers behind each.

    Right is an answer with the fact; one to an uncovered question never is.
    """
    judged = [row for row in rows if row["setting"] == "self_crag" and not row["abstained"]]
    lines = ["", "## What verdict and confidence promise (`self_crag`)", ""]
    lines += ["| verdict | answers | with the fact |", "|---|---|---|"]
    for verdict in ("supported", "partly", "unsupported", "not_judged"):
        given = [row["answered"] for row in judged if row["verdict"] == verdict]
        lines.append(f"| {verdict} | {len(given)} | {share(given)} |")
    sure = sorted(
        (row for row in judged if row["confidence"] is not None),
        key=lambda row: -float(row["confidence"]),
    )
    lines += [
        "",
        "| most confident | answers | with the fact | confidence, mean |",
        "|---|---|---|---|",
    ]
    for quarter in (1, 2, 3, 4):
        first = sure[: round(len(sure) * quarter / 4)]
        if first:
            mean = sum(row["confidence"] for row in first) / len(first)
            right = share([row["answered"] for row in first])
            lines.append(f"| {quarter / 4:.0%} | {len(first)} | {right} | {mean:.2f} |")
    is_right = [row["answered"] for row in sure]
    if len(set(is_right)) == 2:
        auc = roc_auc_score(is_right, [row["confidence"] for row in sure])
        lines += ["", f"AUC of the confidence, right against other answers: {auc:.3f}."]
    return lines


def against(before: Sequence[Asked], rows: Sequence[Asked]) -> list[str]:
    """Covered questions answered and uncovered ones abstained from, beside other weights' answers.

    Weights that rank passages better may still grade too few of them Correct. One-sided sign test.
    """
    lines = ["", "## Against the weights before", ""]
    lines += ["| language | setting | kind | before | now | gained : lost |  |", "|---" * 7 + "|"]
    named = {(row["id"], row["setting"]): row for row in before}
    for language, setting, (kind, stage) in product(
        ("en", "zh"), SETTINGS, (("covered", "answered"), ("uncovered", "abstained"))
    ):
        now = [
            row for row in rows
            if (row["language"], row["setting"], row["kind"]) == (language, setting, kind)
            and (row["id"], setting) in named
        ]  # fmt: skip
        if now:
            pairs = [named[row["id"], setting][stage] for row in now], [row[stage] for row in now]
            gained, lost, chance = sign_test(*map(digits, pairs))
            verdict = "fell" if chance < ALPHA else ""
            shares = " | ".join(map(share, pairs))
            lines.append(
                f"| {language} | {setting} | {kind}: {stage} | {shares} | {gained} : {lost} "
                f"| {verdict} |"
            )
    return lines


def report(rows: Sequence[Asked], half: str, before: Sequence[Asked] = ()) -> str:
    by_cell: dict[tuple[str, str], list[Asked]] = defaultdict(list)
    for row in rows:
        by_cell[row["language"], row["setting"]].append(row)
    lines = [
        "# Answers over foreign manuals",
        "",
        f"Half: {half}. Of covered questions: gold fact in the ten passages, in the kept evidence,",
        "in the answer, or an answer without it; of half covered ones the open part named; of",
        "uncovered ones abstained. Whether an answer with the fact is right, nobody has read.",
        "Grades are kept between the settings of a question: pairs, not seconds, tell the cost.",
        "",
        f"| {' | '.join(HEAD)} |",
        "|---" * len(HEAD) + "|",
    ]
    for (language, setting), cell in sorted(by_cell.items()):
        of = {
            kind: [r for r in cell if r["kind"] == kind]
            for kind in ("covered", "half", "uncovered")
        }
        stages = [
            share([r[stage] for r in of["covered"]]) for stage in ("retrieved", "kept", "answered")
        ]
        other = share([not r["answered"] and not r["abstained"] for r in of["covered"]])
        mean = [sum(r[name] for r in cell) / len(cell) for name in ("seconds", "pairs")]
        cells = [language, setting, *stages, other, share([r["names_open"] for r in of["half"]])]
        cells += [share([r["abstained"] for r in of["uncovered"]])]
        cells += [f"{mean[0]:.2f}", f"{mean[1]:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *compared(rows, "self_crag", "rag"), *compared(rows, "crag", "rag")]
    lines += compared(rows, "crag", "crag, no refinement")
    lines += compared(rows, "crag, balanced", "crag")
    lines += ["", *accepted(rows), *promised(rows)]
    lines += against(before, rows) if before else []
    lines += ["", "## What lost the fact", ""]
    lines += [
        f"- {row['id']}, {row['setting']}: {lost_at(row)}: {' '.join(row['answer'].split())[:160]}"
        for row in rows
        if row["kind"] == "covered" and lost_at(row)
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--half", choices=("tuned", "reported", "both"), default="reported")
    parser.add_argument("--settings", nargs="*", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--out", type=Path, default=FIGURES)
    parser.add_argument("--before", type=Path, help="figures of other weights to compare with")
    chosen = parser.parse_args()
    before = json.loads(chosen.before.read_text("utf-8")) if chosen.before else []
    rows: list[Asked] = []
    with httpx.Client(base_url=chosen.url, timeout=180, trust_env=False) as client:
        for row, setting in product(questions(chosen.half), chosen.settings):
            rows.append(ask(client, row, setting))
            sys.stderr.write(
                f"{rows[-1]['id']} {rows[-1]['setting']} {lost_at(rows[-1]) or 'found'}\n"
            )
            chosen.out.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")
    chosen.out.with_suffix(".md").write_text(report(rows, chosen.half, before), "utf-8")


if __name__ == "__main__":
    main()
