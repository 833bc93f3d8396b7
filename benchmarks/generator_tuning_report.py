"""The page of `benchmarks.generator_tuning`."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from string import Template
from typing import Any

import numpy as np
from scipy.stats import t  # type: ignore[import-untyped]

PAGE = Template("""# Tuning a generator

A demonstration of the machinery on a CPU, not of what a language model gains: a Llama of two
layers, trained from nothing to repeat facts of a small world, is tuned with LoRA (rank $rank) on
$rows rows of each context, in English and Chinese. Models and contexts are named as in arXiv
2407.01219, section 3.8: M_b is untuned, M_gr was tuned with one relevant and one random passage. A
random passage is about another kind of thing; chance decides which passage comes first.

    python -m benchmarks.generator_tuning --base-steps $base_steps --rows $rows \\
        --contexts $contexts --seeds $seeds$data

A seed decides the base, the rows to tune on and their order; all models answer the same $tested
held-out rows (seed $tested_seed). Tuning took $minutes minutes in all on one thread of a busy
machine. Intervals are 95 % t intervals over the $runs seeds.

## Token F1 on $tested held-out rows

| | $head |
|---|$rule
$table

## Differences in token F1, seed by seed

An interval without zero is a difference beyond the chance of seeds.

$finding

| | $head |
|---|$rule
$differences

## Coverage on the same rows

| | $head |
|---|$rule
$coverage

## Loss of a token, and F1 on rows that tuning held back

Means over the seeds. The first loss is the mean of the first fifty steps, and the last one that of
the last steps.

| | first loss | last loss | F1 before | F1 after | seeds whose F1 rose |
|---|---|---|---|---|---|
$losses
""")
PUBLISHED = Template("""
## Rows of published sets

Sets: $sets. Rows of the context gr: $taught to tune on, $held held back. Of
$asked of them the shipped evaluator ($critic) made $made Self-RAG rows in
$seconds s; $alike were parsed back to their parts exactly.

| token | times |
|---|---|
$tokens
""")

BASE = "b"


def page(figures: dict[str, Any]) -> str:
    """The report in Markdown, of what `generator_tuning.json` holds."""
    seeds, tested = list(figures["seeds"].values()), figures["tested_on"]
    arms = figures["tuned_on"]
    models = [BASE, *arms]
    text = PAGE.substitute(
        figures,
        minutes=f"{sum(run['minutes'] for seed in seeds for run in seed['runs'].values()):.0f}",
        contexts=" ".join(arms),
        seeds=" ".join(figures["seeds"]),
        runs=len(seeds),
        data=" \\\n        --data FOLDER" if figures["published"] else "",
        head=" | ".join(f"D_{name}" for name in tested),
        rule="---|" * len(tested),
        table=_rows(seeds, models, tested, "f1"),
        coverage=_rows(seeds, models, tested, "coverage"),
        differences="\n".join(_difference_rows(seeds, arms, tested)),
        finding=_finding(seeds),
        losses="\n".join(_loss_row(name, [seed["runs"][name] for seed in seeds]) for name in arms),
    )
    if made := figures["published"]:
        tokens = "\n".join(f"| `{token}` | {n} |" for token, n in made["tokens"].items())
        text += PUBLISHED.substitute({**made, "tokens": tokens})
    return text


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half of its 95 % t interval, 0 of a single value."""
    if len(values) < 2:
        return float(np.mean(values)), 0.0
    error = float(np.std(values, ddof=1)) / len(values) ** 0.5
    return float(np.mean(values)), float(t.ppf(0.975, len(values) - 1)) * error


def _rows(
    seeds: Sequence[Mapping[str, Any]], models: Sequence[str], tested: Sequence[str], of: str
) -> str:
    lines = []
    for name in models:
        cells = [
            "{:.3f} ± {:.3f}".format(*interval([seed["table"][name][on][of] for seed in seeds]))
            for on in tested
        ]
        lines.append(f"| M_{name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _difference_rows(
    seeds: Sequence[Mapping[str, Any]], arms: Sequence[str], tested: Sequence[str]
) -> list[str]:
    pairs = [*((one, BASE) for one in arms), *((b, a) for a, b in combinations(arms, 2))]
    lines = []
    for one, other in pairs:
        found = [interval(_differences(seeds, one, other, on)) for on in tested]
        cells = [f"{mean:+.3f} ± {half:.3f}" for mean, half in found]
        lines.append(f"| M_{one} − M_{other} | {' | '.join(cells)} |")
    return lines


def _differences(seeds: Sequence[Mapping[str, Any]], one: str, other: str, on: str) -> list[float]:
    tables = [seed["table"] for seed in seeds]
    return [table[one][on]["f1"] - table[other][on]["f1"] for table in tables]


def _finding(seeds: Sequence[Mapping[str, Any]]) -> str:
    """The paper's finding, shown or denied, where both models were tuned."""
    if not {"g", "gr"} <= seeds[0]["table"].keys() or len(seeds) < 2:
        return ""
    found = _differences(seeds, "gr", "g", "gr")
    mean, half = interval(found)
    shown = "is shown" if mean - half > 0 else "is denied" if mean + half < 0 else "is not shown"
    above = sum(value > 0 for value in found)
    price, spread = interval(_differences(seeds, "gr", "g", "g"))
    return (
        f"The paper's finding, M_gr above M_g on D_gr, {shown} here: {mean:+.3f} ± {half:.3f},\n"
        f"above in {above} of {len(found)} seeds. On the relevant passage alone, D_g, the"
        f" difference is {price:+.3f} ± {spread:.3f}."
    )


def _loss_row(name: str, runs: Sequence[Mapping[str, Any]]) -> str:
    first, last = (np.mean([run["losses"][at][1] for run in runs]) for at in (0, -1))
    before, after = ([run[when]["f1"] for run in runs] for when in ("before", "after"))
    risen = sum(b > a for a, b in zip(before, after, strict=True))
    means = " | ".join(f"{value:.3f}" for value in (first, last, np.mean(before), np.mean(after)))
    return f"| M_{name} | {means} | {risen} of {len(runs)} |"
