"""What was aimed at for the worker, beside what was measured."""

from collections.abc import Callable
from typing import Any

from benchmarks.report import table
from benchmarks.serving.model import Figures

_AIMS: list[tuple[str, str, str, Callable[[Any], str]]] = [
    ("grading", "CPU seconds one by one, to the worker's", ">= 9", lambda f: f"{f['ratio']:.1f}"),
    ("grading", "largest difference of a score", "1e-5", lambda f: f"{f['most_difference']:.1e}"),
    ("grading", "equal verdicts", "all", lambda f: f"{f['equal_verdicts']} of {f['pairs']}"),
    ("padding", "of a request alone, p95", "<= 15 %", lambda f: f"{f['alone']['p95']:.1%}"),
    ("padding", "of a batch under load, p95", "<= 15 %", lambda f: f"{f['together']['p95']:.1%}"),
    ("load", "share of what the batches' cost allows", ">= 85 %", lambda f: f"{f['share']:.0%}"),
    ("overload", "answers neither 200 nor 429", "0", lambda f: str(_others(f["statuses"]))),
    ("overload", "429 without Retry-After", "0", lambda f: str(f["refused_without_retry_after"])),
    ("overload", "p95 of those let in, to the unloaded p95", "<= 2",
     lambda f: _times(f["admitted_p95_s"], f["unloaded_p95_s"])),
    ("overload", "of those, after the first minute", "<= 2",
     lambda f: _times(f["settled_p95_s"], f["unloaded_p95_s"])),
    ("overload", "memory in the second half, MB a minute", "0", lambda f: _slope(f["memory"])),
    ("repeated", "forwards for a question asked again", "0", lambda f: str(f["forwards"][1])),
    ("hostile", "neighbours without their usual scores", "0",
     lambda f: str(sum(not line["neighbour_same"] for line in f))),
    ("killed", "requests answered when a worker is killed", "all",
     lambda f: f"{f['same']} of {f['requests']}"),
    ("fresh", "MB that `make run` downloads", "< 400", lambda f: f"{f['download_mb']:.0f}"),
    ("fresh", "seconds to a start, once installed", "<= 20",
     lambda f: f"{max(f['again_s']):.1f}"),
]  # fmt: skip


def aims(figures: Figures) -> str:
    """A line an aim, of the sections there are."""
    rows = [
        [section, what, wanted, seen(figures[section])]
        for section, what, wanted, seen in _AIMS
        if section in figures
    ]
    return table(("", "what", "aim", "seen"), rows)


def _others(statuses: dict[str, int]) -> int:
    return sum(count for status, count in statuses.items() if status not in ("200", "429"))


def _times(one: float | None, other: float) -> str:
    return "-" if one is None else f"{one / other:.2f}"


def _slope(memory: Figures) -> str:
    slope = memory.get("slope_mb_per_minute")
    return "-" if slope is None else f"{slope:+.2f}"
