"""The page of `benchmarks.generator_tuning`."""

from string import Template
from typing import Any

PAGE = Template("""# Tuning a generator

A demonstration of the machinery on a CPU, not of what a language model gains: a Llama of two
layers, trained from nothing to repeat facts of a small world, is tuned with LoRA (rank $rank) on
$rows rows of each context, in English and Chinese. Models and contexts are named as in arXiv
2407.01219, section 3.8: M_b is untuned, M_gr was tuned with one relevant and one random passage. A
random passage is about another kind of thing; chance decides which passage comes first.

    python -m benchmarks.generator_tuning --base-steps $base_steps --rows $rows \\
        --contexts $contexts$data

Seeds 1 (base, tuning) and 2 (held-out rows); tuning took $minutes minutes in all on one thread of a
busy machine. One seed: differences of a few hundredths mean nothing.

## Coverage / token F1 on $tested held-out rows

| | $head |
|---|$rule
$table

## Loss of a token, and F1 on rows that tuning held back

The first loss is the mean of the first fifty steps, and the last one that of the last steps.

| | first loss | last loss | F1 before | F1 after |
|---|---|---|---|---|
$runs
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


def page(figures: dict[str, Any]) -> str:
    """The report in Markdown, of what `generator_tuning.json` holds."""
    tested = figures["tested_on"]
    table = [
        f"| M_{name} | " + " | ".join(_cell(cells[on]) for on in tested) + " |"
        for name, cells in figures["table"].items()
    ]
    runs = [
        f"| M_{name} | {run['losses'][0][1]:.3f} | {run['losses'][-1][1]:.3f} "
        f"| {run['before']['f1']:.3f} | {run['after']['f1']:.3f} |"
        for name, run in figures["runs"].items()
    ]
    made = figures["published"]
    text = PAGE.substitute(
        figures,
        minutes=f"{sum(run['minutes'] for run in figures['runs'].values()):.0f}",
        contexts=" ".join(figures["runs"]),
        data=" --data FOLDER" if made else "",
        head=" | ".join(f"D_{name}" for name in tested),
        rule="---|" * len(tested),
        table="\n".join(table),
        runs="\n".join(runs),
    )
    if made:
        tokens = "\n".join(f"| `{token}` | {n} |" for token, n in made["tokens"].items())
        text += PUBLISHED.substitute({**made, "tokens": tokens})
    return text


def _cell(figures: dict[str, float]) -> str:
    return f"{figures['coverage']:.3f} / {figures['f1']:.3f}"
