"""The worker's measurement as a report in Markdown, made of its figures alone."""

from collections.abc import Callable
from typing import Any

from benchmarks.evaluator_report import table
from benchmarks.serving_model import Figures


def report(figures: Figures) -> str:
    """All sections for which there are figures."""
    parts = [_head(figures)]
    sections: dict[str, Callable[[Any], str]] = {
        "grading": _grading, "forms": _forms, "padding": _padding, "cost": _cost, "load": _load,
        "overload": _overload, "hostile": _hostile,
    }  # fmt: skip
    parts += [write(figures[name]) for name, write in sections.items() if name in figures]
    return "\n\n".join(parts) + "\n"


def _head(figures: Figures) -> str:
    return f"""# The worker, measured

    {figures["command"]}

Written by that command from benchmarks/serving.json; it took {figures["minutes"]:g} minutes on
{figures["cores"]} CPU cores. Evaluator `{figures["evaluator"]}`, backend {figures["backend"]}, \
{figures["batch_tokens"]:,} tokens a batch,
a queue of {figures["max_queued_pairs"]:,} pairs, the cache of scores turned off. Questions,
passages and strips are random words of the usual lengths, half English and half Chinese,
seed {figures["seed"]}."""


def _grading(f: Figures) -> str:
    return f"""## One question graded

10 passages in one request and 30 strips in another, against one row at a time padded to
{f["padded_to"]} tokens with the same weights. CPU seconds are user and system time of the whole
process, worker and client together; both ways are taken in turn in one run, medians.

| | CPU s |
| --- | --- |
| the worker | {f["worker_cpu_s"]:.3f} |
| one by one | {f["one_by_one_cpu_s"]:.3f} |
| **ratio** | **{f["ratio"]:.1f}** |

{_agreement(f)}"""


def _agreement(f: Figures) -> str:
    return (
        f"Largest difference of a score: {f['most_difference']:.1e}. Equal verdicts (label, and "
        f"side of every threshold): {f['equal_verdicts']:,} of {f['pairs']:,}."
    )


def _forms(f: Figures) -> str:
    if not f:
        return """## Two forms of the weights

Not measured: only one form of the weights was given (`--other` names a second)."""
    return f"""## Two forms of the weights

The same passages and strips, tokenized before the clock starts; the second form is
`{f["second"]}`. The first takes {f["first_s"]:.3f} s, the second {f["second_s"]:.3f} s: it is
**{f["ratio"]:.2f}** times as fast.

{_agreement(f)}"""


def _padding(f: Figures) -> str:
    shares = ("p50", "p95", "most")
    rows = [
        ["a request alone", *(f"{f['alone'][share]:.1%}" for share in shares)],
        [f"a batch, {f['at_once']} questions at once",
         *(f"{f['together'][share]:.1%}" for share in shares)],
    ]  # fmt: skip
    return f"""## Padding

The share of computed tokens that pad, over {f["requests"]:,} requests of 10 passages or 30 strips.
With {f["at_once"]} questions at once it is {f["together"]["all"]:.1%} of all tokens.

{table(("", *shares), rows)}"""


def _cost(f: Figures) -> str:
    widths = sorted({point["width"] for point in f["grid"]})
    counts = sorted({point["rows"] for point in f["grid"]})
    took = {(point["rows"], point["width"]): point["s"] for point in f["grid"]}
    rows = [
        [str(count), *(_milliseconds(took.get((count, width))) for width in widths)]
        for count in counts
    ]
    fixed, a_row, a_token, squared = (number * 1e6 for number in f["coefficients"])
    return f"""## What a batch costs

Milliseconds of a batch by its rows and its width in tokens, medians:

{table(("rows", *map(str, widths)), rows)}

Least squares of the relative errors: microseconds = {fixed:.0f} + {a_row:.1f} rows
+ {a_token:.2f} rows width + {squared:.5f} rows width². It is off by {f["error_p50"]:.0%} in the
median and {f["error_most"]:.0%} at most."""


def _milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.1f}"


def _load(f: Figures) -> str:
    return f"""## Many questions at once

{f["questions"]} questions of 10 passages and 30 strips, {f["at_once"]} at a time, over HTTP to a
worker in a process of its own; the clients share its cores. It scores **{f["pairs_per_s"]:,.0f}**
pairs a second. By the model above the same pairs, all known at once, could be
{f["allowed_pairs_per_s"]:,.0f} a second: the worker reaches **{f["share"]:.0%}** of that. A
question takes {f["question_p50_s"]:.2f} s in the median, {f["question_p95_s"]:.2f} s at p95."""


def _overload(f: Figures) -> str:
    statuses = ", ".join(f"{status}: {count:,}" for status, count in sorted(f["statuses"].items()))
    rows = [
        ["unloaded", _seconds(f["unloaded_p95_s"])],
        ["admitted under overload", _seconds(f["admitted_p95_s"])],
        ["refused under overload", _seconds(f["refused_p95_s"])],
        ["afterwards", _seconds(f["afterwards_p95_s"])],
    ]
    return f"""## Overload

{f["asked_pairs_per_s"]:,.0f} pairs a second, five times what the worker scored above, for
{f["minutes"]:g} minutes in requests of {f["pairs_per_request"]} pairs. Answers by status:
{statuses}; 429 without `Retry-After`: {f["refused_without_retry_after"]}.

{table(("requests", "p95"), rows)}

{_memory(f["memory"])}"""


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f} s"


def _memory(f: Figures) -> str:
    if not f:
        return "The worker's memory was not seen: it is read on Linux alone."
    text = f"Resident memory of the worker: {f['start_mb']:.0f} MB at the start, "
    text += f"{f['end_mb']:.0f} MB at the end, {f['most_mb']:.0f} MB at most"
    slope = f["slope_mb_per_minute"]
    return f"{text}." if slope is None else f"{text}; {slope:+.2f} MB a minute in the second half."


def _hostile(lines: list[Figures]) -> str:
    rows = [
        [f["what"], f["status"],
         f"{f['neighbour']}, {'its usual scores' if f['neighbour_same'] else 'other scores'}"]
        for f in lines
    ]  # fmt: skip
    return f"""## Hostile requests

Each is sent once while a neighbour asks for 8 pairs.

{table(("request", "answer", "neighbour"), rows)}"""
