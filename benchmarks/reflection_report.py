"""What reflection does and what it costs as a report in Markdown, made of its figures alone."""

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.evaluator_report import table
from benchmarks.reflection_questions import REFLECTING

Figures = dict[str, Any]

# Seconds an instance, table 6 of the CRAG paper: generation only.
PAPER = {"rag": 0.363, "crag": 0.512, "self_rag": 0.741, "self_crag": 0.908}
LANGUAGE = {"en": "English", "zh": "Chinese"}


def report(figures: Figures) -> str:
    """The sections for which there are figures."""
    parts = [_head(figures)]
    if asked := figures.get("questions"):
        parts += [_drafts(asked, name) for name in REFLECTING if name in asked["workflows"]]
        parts += [_beside(asked["workflows"])]
    if delays := figures.get("delays"):
        parts += [_delays(delays), _ratios(delays)]
    return "\n\n".join(parts) + "\n"


def _head(f: Figures) -> str:
    return f"""# Reflection, measured

    {f["command"]}

Written by that command from benchmarks/reflection.json, on {f["cores"]} CPU cores; `--only` and
`--workflows` measure a part anew. Evaluator and
critic `{f["evaluator"]}`; default options where none are named."""


def _drafts(asked: Figures, name: str) -> str:
    by_language: dict[str, Figures] = asked["workflows"][name]
    columns = list(by_language)
    rows = [[label, *(say(by_language[lang]) for lang in columns)] for label, say in COUNTS]
    opening = (
        f"""Questions of two parts whose answers stand in different sections of this handbook, asked
without a language model: the generator quotes, the evaluator judges, the knowledge base is
`docs/en` and `docs/zh`, and the web is off. The questions are the `{asked["half"]}` half of
benchmarks/two_part_en.json and benchmarks/two_part_zh.json, written before the workflow existed;
nothing was tuned on `test`. The second part of some has no answer in the handbook. A part counts as
answered where a fact noted for it beforehand stands in the text.

"""
        if name == REFLECTING[0]
        else ""
    )
    return f"""## {name}: what becomes of first drafts

{opening}{table([name, *(LANGUAGE[lang] for lang in columns)], rows)}

Support and utility are the critic's own, so they say what the critic believes; the facts say what
is so."""


def _beside(workflows: dict[str, dict[str, Figures]]) -> str:
    rows = []
    for name, by_language in workflows.items():
        for lang, f in by_language.items():
            moments = ("before", "after") if name in REFLECTING else ("after",)
            for when in moments:
                label = {"before": "first draft", "after": "answer"}[when]
                rows.append([
                    name, LANGUAGE[lang], label,
                    _of(f[f"parts_{when}"], f["answerable_parts"]),
                    _of(f[f"whole_{when}"], f["whole"]),
                    f"{f['characters'][when == 'after']:.0f}",
                    f"{f['scored_pairs']:.0f}",
                ])  # fmt: skip
    head = ["workflow", "language", "", "parts answered", "both parts", "characters",
            "pairs scored"]  # fmt: skip
    return f"""## Beside the other workflows

The same questions. Characters and pairs scored are means, the pairs those of the whole run.

{table(head, rows)}"""


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


def _of(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.0%})" if whole else "-"


def _pair(values: Sequence[float | None]) -> str:
    return " → ".join("-" if value is None else f"{value:.2f}" for value in values)


COUNTS: tuple[tuple[str, Callable[[Figures], str]], ...] = (
    ("questions", lambda f: str(f["questions"])),
    ("refused without a draft", lambda f: str(f["no draft"])),
    ("not judged", lambda f: str(f["not judged"])),
    ("first drafts accepted", lambda f: str(f["accepted"])),
    ("– both parts there", lambda f: str(f["accepted_whole"])),
    ("– second part has no answer", lambda f: str(f["accepted_unanswerable"])),
    ("first drafts rejected", lambda f: str(f["rejected"])),
    ("– improved (a fact came in, none was lost)", lambda f: str(f["improved"])),
    ("– left as they were", lambda f: str(f["left"])),
    ("–– both parts there already", lambda f: str(f["left_whole"])),
    ("–– second part has no answer", lambda f: str(f["left_unanswerable"])),
    ("– made worse (a fact was lost)", lambda f: str(f["worse"])),
    ("– refused in the end", lambda f: str(f["refused"])),
    ("parts answered by first drafts", lambda f: _of(f["parts_before"], f["answerable_parts"])),
    ("parts answered by answers", lambda f: _of(f["parts_after"], f["answerable_parts"])),
    ("both parts answered by first drafts", lambda f: _of(f["whole_before"], f["whole"])),
    ("both parts answered by answers", lambda f: _of(f["whole_after"], f["whole"])),
    ("support, mean", lambda f: _pair(f["support"])),
    ("utility grade, mean", lambda f: _pair(f["grade"])),
    ("characters, mean", lambda f: " → ".join(f"{mean:.0f}" for mean in f["characters"])),
    ("revisions, mean", lambda f: f"{f['revisions'] or 0:.2f}"),
    ("stopped by", lambda f: ", ".join(f"{why} {n}" for why, n in f["stopped_by"].items())),
    ("degraded", lambda f: str(f["degraded"])),
    ("pairs scored, mean", lambda f: f"{f['scored_pairs']:.0f}"),
)  # fmt: skip
