"""The measurement's report in Markdown, made of its figures alone."""

from benchmarks.evaluator.ratchet import changes, kept
from benchmarks.report import Figures, filled


def report(figures: Figures) -> str:
    """All sections for which there are figures."""
    before, manuals = figures.get("before"), figures.get("manuals", {})
    compared = changes(before, kept(figures, "")) if before else []
    return filled(
        "evaluator/report.md.j2",
        figures,
        groups=[name.removesuffix(" selective") for name in manuals if " selective" in name],
        changes=compared,
        higher=sum(it.now > it.before for it in compared),
        lower=sum(it.now < it.before for it in compared),
    )
