"""Draws what `bench` measured."""

from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter, StrMethodFormatter

from evaluator.bench.run import Speed

_COLOURS = ("#0072b2", "#e69f00")  # apart for colour-blind readers


def draw(speed: Speed, path: Path) -> None:
    """A PNG: pairs a second and the share of the peak over the batch size, a line a variant."""
    figure = Figure(figsize=(8, 6), layout="constrained")
    rates, shares = figure.subplots(2, 1, sharex=True)
    for variant, colour in zip(speed.variants, _COLOURS, strict=False):
        sizes = [point.batch_tokens for point in variant.points]
        rate = [point.pairs_per_s for point in variant.points]
        share = [point.peak_share for point in variant.points]
        rates.plot(sizes, rate, marker="o", color=colour, label=variant.name)
        shares.plot(sizes, share, marker="o", color=colour, label=variant.name)
    rates.set_title(
        f"{speed.evaluator}, {speed.options.task}: {speed.backend} {speed.precision}, "
        f"{speed.machine}"
    )
    rates.set_ylabel("pairs per second")
    shares.set_ylabel("share of the matrix product's rate")
    shares.set_xlabel("tokens of a batch, padding included (log scale)")
    shares.set_xscale("log", base=2)
    shares.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    shares.yaxis.set_major_formatter(PercentFormatter(1.0))
    for axes in (rates, shares):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    if len(speed.variants) > 1:
        rates.legend()
    figure.savefig(path, dpi=120)
