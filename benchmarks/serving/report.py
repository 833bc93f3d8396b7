"""The worker's measurement as a report in Markdown, made of its figures alone."""

from collections.abc import Callable
from typing import Any

from benchmarks.report import table
from benchmarks.serving.aims import aims
from benchmarks.serving.model import Figures


def report(figures: Figures) -> str:
    """All sections for which there are figures."""
    parts = [_head(figures), aims(figures)]
    sections: dict[str, Callable[[Any], str]] = {
        "grading": _grading, "repeated": _repeated, "padding": _padding,
        "cost": _cost, "load": _load, "overload": _overload, "hostile": _hostile,
        "killed": _killed, "fresh": _fresh,
    }  # fmt: skip
    parts += [write(figures[name]) for name, write in sections.items() if name in figures]
    parts.append(INTEGERS)
    return "\n\n".join(parts) + "\n"


def _head(figures: Figures) -> str:
    commands = "\n".join(f"    {command}" for command in figures["commands"])
    return f"""# The worker, measured

{commands}

Written by these commands from benchmarks/serving.json, on {figures["cores"]} CPU cores. Evaluator
`{figures["evaluator"]}`, backend {figures["backend"]}, {figures["batch_tokens"]:,} tokens a batch,
a queue of {figures["max_queued_pairs"]:,} pairs, the cache of scores turned off. Questions,
passages and strips are random words of the usual lengths, half English and half Chinese,
seed {figures["seed"]}. Other work on the same cores slows every figure in seconds; ratios are of
one run, both sides of each measured in turn."""


def _repeated(f: Figures) -> str:
    return f"""## A question asked again

A worker that keeps scores (20,000 of them, as it does by default) grades one question of
{f["pairs"]} pairs twice. The first time takes {f["forwards"][0]} forwards and {f["cpu_s"][0]:.3f}
CPU s, the second **{f["forwards"][1]}** forwards and {f["cpu_s"][1]:.3f} CPU s, both with the
client's own. The scores are {"the same" if f["same"] else "others"}. In all other sections none are
kept."""


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

The lengths of the texts decide it: padded to 512 tokens, 40 rows are 20,480 tokens, and 40 of these
pairs are some 3,600, 5.8 times fewer. What is beyond that is the attention of long rows.

{_agreement(f)}"""


def _agreement(f: Figures) -> str:
    return (
        f"Largest difference of a score: {f['most_difference']:.1e}. Equal verdicts (label, and "
        f"side of every threshold): {f['equal_verdicts']:,} of {f['pairs']:,}."
    )


INTEGERS = """## Arithmetic in 8-bit integers

Arithmetic in 8-bit integers is not offered. It was tried on these weights, on a CPU
with AVX2, against fp32; the aims were 1.8 times as fast with 99.5 % equal actions:

- products with static activations of 7 bits, one scale a tensor: 1.44 times as fast, 61 of 72
  actions equal (84.7 %);
- smoothed, activations of 8 bits with a scale a channel: 47 to 48 of 48 actions equal (97.9 to
  100 %), scores up to 0.19 to 0.40 apart; 1.57 times as fast with fused attention.

What was won instead: relevance in fp32 takes 1 / 1.3 to 1 / 1.45 of the time, with the same scores,
since the graph leaves out joint layers and decoder where relevance does not need them."""


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
question takes {f["question_p50_s"]:.2f} s in the median, {f["question_p95_s"]:.2f} s at p95. None
is refused. One request of {f["full_pairs"]:,} pairs takes {f["full_s"]:.1f} s.

The model of a batch's cost was measured before and after: the same batches then took
{f["drift"]:.2f} times as long, and the mean of both is what counts."""


def _overload(f: Figures) -> str:
    statuses = ", ".join(f"{status}: {count:,}" for status, count in sorted(f["statuses"].items()))
    rows = [
        ["unloaded", _seconds(f["unloaded_p95_s"])],
        ["let in under overload", _seconds(f["admitted_p95_s"])],
        ["of these, after the first minute", _seconds(f["settled_p95_s"])],
        ["refused under overload", _seconds(f["refused_p95_s"])],
        ["afterwards", _seconds(f["afterwards_p95_s"])],
    ]
    answered = f["statuses"].get("200", 0) * f["pairs_per_request"] / (60 * f["minutes"])
    return f"""## Overload

{f["asked_pairs_per_s"]:,.0f} pairs a second, five times the {f["sustained_pairs_per_s"]:,.1f} that
the worker sustains, for {f["minutes"]:g} minutes in requests of {f["pairs_per_request"]} pairs.
Answers by status:
{statuses}; 429 without `Retry-After`: {f["refused_without_retry_after"]}. Meanwhile it scored
{answered:,.1f} pairs a second; where that is much less than it sustains, other work had the cores.

{table(("requests", "p95"), rows)}

The slowest of those let in took {_seconds(f["admitted_most_s"])}: the queue fills as for a burst
before it closes, and who waits in it by then is answered. Medians: unloaded
{_seconds(f["unloaded_p50_s"])}, let in {_seconds(f["admitted_p50_s"])}.

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


def _killed(f: Figures) -> str:
    return f"""## A worker killed while it computes

Two workers behind one client are asked {f["requests"]} requests of 10 passages at once. One is
killed with SIGKILL while {f["open"]} are open: {f["answered"]} are answered, {f["same"]} of them
with the scores of a worker alone."""


def _fresh(f: Figures) -> str:
    again = ", ".join(f"{seconds:.1f}" for seconds in f["again_s"])
    return f"""## A fresh machine

`python -m benchmarks.service.first_answer --from-clone`, at commit {f["commit"]}: a clean
clone, `make run` without pip's cache. It downloads {f["packages"]} packages of
{f["download_mb"]:.0f} MB together, which take {f["installed_mb"]:.0f} MB installed. From nothing to
`GET /health/ready` it takes {f["first_s"]:.0f} s, the index's speed counted in; started again
{again} s."""
