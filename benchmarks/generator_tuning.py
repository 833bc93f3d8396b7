"""What tuning a generator does: loss, held-out answers, and the contexts it was tuned on.

    python -m benchmarks.generator_tuning [--data FOLDER] [--work FOLDER] [--seeds 1 2 3]

For each seed a base model of two hundred thousand weights is trained from nothing on a small world
of our own, then tuned with LoRA on each context of arXiv 2407.01219, section 3.8, and each tuned
model is measured on each context of the same held-out rows. With `--data` the rows of published
sets are counted, and the shipped evaluator weaves reflection tokens into some of them. The bases
and finished runs in the work folder are used again. Figures: benchmarks/generator_tuning.md.
"""

import argparse
import json
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks import generator_tuning_world as world
from benchmarks.generator_tuning_report import page
from evaluator.data.file_formats import data_files
from evaluator.data.records import HELD_BACK_PERCENT, read_folder
from evaluator.inference.scorer import in_batches, load_scorer
from evaluator.settings import read_settings
from evaluator.tuning.contexts import split_rows
from evaluator.tuning.lora import TuneOptions, load_generator, measured_figures, tune
from evaluator.tuning.rows import TuningExample, TuningRow, messages_of, write_rows
from evaluator.tuning.self_rag import TOKENS, reflected_row, unwoven, woven

REPORT = Path(__file__).with_suffix(".md")
TUNED_ON = ("g", "gr", "r", "gg")
TESTED_ON = ("none", "g", "r", "gr")
TESTED_ROWS, TESTED_SEED, REFLECTED_ROWS = 400, 0, 60
OPTIONS = TuneOptions(
    epochs=4, learning_rate=3e-3, rank=32, alpha=64, dropout=0.0, batch_tokens=1000,
    warmup_steps=20, check_every=200, measured_rows=40,
)  # fmt: skip


def main(
    data: Path | None,
    work: Path,
    base_steps: int,
    count: int,
    arms: Sequence[str],
    seeds: Sequence[int],
) -> None:
    torch.set_num_threads(1)
    tested = world.rows(TESTED_ROWS, TESTED_SEED)
    figures: dict[str, Any] = {
        "rank": OPTIONS.rank, "rows": count, "base_steps": base_steps, "tested": TESTED_ROWS,
        "tested_seed": TESTED_SEED, "tested_on": TESTED_ON, "tuned_on": list(arms), "seeds": {},
        "published": published(data) if data else None,
    }  # fmt: skip
    for seed in seeds:
        figures["seeds"][seed] = of_seed(
            work / f"seed_{seed}", base_steps, count, arms, seed, tested
        )
        kept = json.dumps(figures, indent=1) + "\n"
        REPORT.with_suffix(".json").write_text(kept, encoding="utf-8")
        REPORT.write_text(page(json.loads(kept)), encoding="utf-8")
    say(f"{REPORT} written")


def of_seed(
    work: Path,
    base_steps: int,
    count: int,
    arms: Sequence[str],
    seed: int,
    tested: dict[str, list[TuningRow]],
) -> dict[str, Any]:
    """The seed decides the base, the rows to tune on and their order."""
    base, taught = work / f"base_{base_steps}", world.rows(count, seed)
    if not (base / "model.safetensors").exists():
        known = world.samples(world.rows(300, seed)["gr"])
        losses = world.base_model(base, known, base_steps, seed)
        say(f"base: loss {losses[0]:.2f} to {losses[-1]:.2f} in {base_steps} steps")
    figures: dict[str, Any] = {"table": {"b": measured(base, tested)}, "runs": {}}
    options = replace(OPTIONS, seed=seed)
    for name in arms:
        file = work / f"{name}.jsonl"
        write_rows(file, taught[name])
        tuned = tune([file], base, work / f"m_{name}", work / f"work_{name}", options, say)
        figures["runs"][name] = {
            "losses": tuned.story["loss"], "minutes": tuned.story["minutes"],
            "before": asdict(tuned.before), "after": asdict(tuned.after),
        }  # fmt: skip
        figures["table"][name] = measured(tuned.folder, tested)
    return figures


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def measured(folder: Path, tested: dict[str, list[TuningRow]]) -> dict[str, dict[str, float]]:
    network, tokenizer = load_generator(folder)
    figures = {}
    for name in TESTED_ON:
        asked = [
            TuningExample(messages_of(row), row.answer, row.answers, row.group)
            for row in tested[name]
        ]
        figures[name] = asdict(measured_figures(network, tokenizer, asked))
        say(f"{folder.name} on {name}: {figures[name]}")
    return figures


def published(data: Path) -> dict[str, Any]:
    """Rows of published sets, and Self-RAG rows that the shipped evaluator makes of some."""
    taught, held = split_rows(read_folder(data), "gr", 1, HELD_BACK_PERCENT)
    scorer, rng = load_scorer(read_settings()), random.Random(1)
    critic = partial(in_batches, scorer)
    some = rng.sample(taught, min(REFLECTED_ROWS, len(taught)))
    began = time.monotonic()
    made = [row for row in (reflected_row(each, critic, rng, 0.2) for each in some) if row]
    seconds = time.monotonic() - began
    alike = sum(woven(unwoven(row["output"])) == row["output"] for row in made)
    say(f"{len(made)} Self-RAG rows, {alike} parsed back")
    return {
        "taught": len(taught),
        "held": len(held),
        "asked": len(some),
        "made": len(made),
        "alike": alike,
        "seconds": round(seconds),
        "tokens": {token: sum(row["output"].count(token) for row in made) for token in TOKENS},
        "critic": scorer.name,
        "sets": ", ".join(path.name.split(".")[0] for path in data_files(data)),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--work", type=Path, default=Path(".selfcrag/generator_tuning"))
    parser.add_argument("--base-steps", type=int, default=800)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--contexts", nargs="+", choices=TUNED_ON, default=TUNED_ON)
    parser.add_argument("--seeds", nargs="+", type=int, choices=range(1, 100), default=range(1, 10))
    given = parser.parse_args()
    main(given.data, given.work, given.base_steps, given.rows, given.contexts, given.seeds)
