"""What reflection costs as a report in Markdown, made of its figures alone."""

from collections.abc import Sequence
from typing import Any

from benchmarks.report import table

Figures = dict[str, Any]

# Seconds an instance, table 6 of the CRAG paper: generation only.
PAPER = {"rag": 0.363, "crag": 0.512, "self_rag": 0.741, "self_crag": 0.908}


def report(figures: Figures) -> str:
    """All sections."""
    delays = figures["delays"]
    return "\n\n".join([_head(figures), _delays(delays), _ratios(delays)]) + "\n"


def _head(f: Figures) -> str:
    return f"""# Reflection, measured

    {f["command"]}

Written by that command from benchmarks/reflection.json, on {f["cores"]} CPU cores, with the
evaluator `{f["evaluator"]}`; default options where none are named. What becomes of first drafts is
on [a page of its own](first_drafts.md)."""


def _delays(f: Figures) -> str:
    judged = [row for row in f["rows"] if row["critic"] == "llm"]
    others = [row for row in f["rows"] if row["critic"] != "llm"]
    return f"""## Delays of a language model

A chat endpoint on loopback answers every call after d = {f["delay_s"]:g} s, and never twice alike.
Options force the action, and bars that no draft reaches force the revisions; criticism is the
evaluator's, whose cache of scores is turned off. The web answers at once. Delays waited for are the
time in which at least one call was under way, over d (the largest of all runs). The bound is
1.15 x ceiling x d plus the measured time in which retrieval or grading was under way. Seconds are
medians of {f["times"]} runs in each language, the cases taken in turn.

{_delay_table(others)}

{_untouched(others)}{_judged(judged)}"""


def _judged(rows: Sequence[Figures]) -> str:
    if not rows:
        return ""
    return f"""

A language model as the critic: judging the drafts, side by side, is one delay more before the first
is chosen, and a revision costs two, its own and that of the judgement with the next criticism.

{_delay_table(rows)}"""


def _delay_table(rows: Sequence[Figures]) -> str:
    told = [
        [
            row["workflow"], row["way"], str(row["revisions"]), str(row["calls"]),
            f"{row['path']:.2f}", str(row["ceiling"]), f"{row['elapsed_s']:.2f}",
            f"{row['grading_s']:.2f}", f"{row['bound_s']:.2f}", f"{row['within']} of {row['runs']}",
        ]
        for row in rows
    ]  # fmt: skip
    head = ["workflow", "way", "revisions", "calls", "delays waited for", "ceiling", "elapsed s",
            "grading, retrieval s", "bound s", "runs within"]  # fmt: skip
    return table(head, told)


def _untouched(rows: Sequence[Figures]) -> str:
    alone = [row for row in rows if not row["looks_up"]]
    if not alone:
        return ""
    return "A question that needs no retrieval: " + "; ".join(
        f"`{row['workflow']}` made {row['calls']} call and {row['searches']} searches"
        for row in alone
    ) + "."  # fmt: skip


def _ratios(f: Figures) -> str:
    first = [
        row
        for row in f["rows"]
        if not row["revisions"] and row["looks_up"] and row["critic"] != "llm"
    ]
    base = first[0]["elapsed_s"]
    rows = [
        [
            row["workflow"], row["way"], f"{row['elapsed_s']:.2f}",
            f"{row['elapsed_s'] / base:.2f}", f"{PAPER[row['workflow']] / PAPER['rag']:.2f}",
        ]
        for row in first
    ]  # fmt: skip
    head = ["workflow", "way", "elapsed s", "times rag", "the paper's times RAG"]
    return f"""## Beside the paper's ratios

First drafts of the table above, none revised, over `rag` of the same run. The paper (CRAG, table 6)
times generation alone, one passage after another: RAG 0.363 s, CRAG 0.512 s, Self-RAG 0.741 s,
Self-CRAG 0.908 s.

{table(head, rows)}"""
