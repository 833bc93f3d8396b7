"""The report of the overhead in Markdown, made of its figures alone."""

from statistics import median, quantiles

from benchmarks.report import Figures, filled

SMALL = "1 passage"
AIMS = (("POST /ask", 1.5), ("POST /ask, stream", 2.2))
STOPPED_WITHIN_MS = 100


def report(figures: Figures) -> str:
    """All sections for which there are figures."""
    runs = figures["first"]["runs"] if "first" in figures else []
    return filled(
        "service/overhead.md.j2",
        figures,
        aims=AIMS,
        stopped_within_ms=STOPPED_WITHIN_MS,
        first_ms=[1000 * run["first_step_s"] for run in runs],
        share=max((run["first_step_s"] / run["run_s"] for run in runs), default=0.0),
        median=median,
        ratio=_ratio,
        beyond=_beyond,
    )


def _beyond(ms: list[float], base: list[float]) -> list[float]:
    return [one - other for one, other in zip(ms, base, strict=True)]


def _ratio(ms: list[float], base: list[float]) -> str:
    return f"{median(one / other for one, other in zip(ms, base, strict=True)):.2f}"


def spread(ms: list[float]) -> dict[str, float]:
    """Milliseconds in the middle, at p95, and the most."""
    p95 = quantiles(ms, n=20, method="inclusive")[-1] if len(ms) > 1 else ms[0]
    return {"p50": median(ms), "p95": p95, "most": max(ms)}
