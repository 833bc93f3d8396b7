"""`selfcrag-evaluator tune`: rows, reflection tokens, LoRA and measures of a generator."""

import json
import random
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import typer

from evaluator.data.records import HELD_BACK_PERCENT
from evaluator.errors import EvaluatorError
from evaluator.terminal import needs, timed, when_interrupted

app = typer.Typer(no_args_is_help=True)

Context = Literal["none", "g", "r", "gr", "gg"]
Rows = Annotated[list[Path], typer.Argument(help="Files of rows, *.jsonl.", dir_okay=False)]
NewFile = Annotated[Path, typer.Option(help="A new file of JSON lines.", dir_okay=False)]
Seed = Annotated[int, typer.Option(help="Random seed.")]


@app.command()
def contexts(
    data: Annotated[Path, typer.Argument(help="Folder of records, as `train` reads them.")],
    out: NewFile,
    context: Annotated[
        Context, typer.Option(help="Passages beside the question: relevant (g) or random (r).")
    ] = "gr",
    seed: Seed = 1,
) -> None:
    """Write questions with passages and answers, in one of the contexts of arXiv 2407.01219."""
    _refuse_existing(out)
    with when_interrupted(f"{out} was not written"):
        read_folder = import_module("evaluator.data.records").read_folder
        building = import_module("evaluator.tuning.contexts")
        sides = building.split_rows(read_folder(data), context, seed, HELD_BACK_PERCENT)
        written = import_module("evaluator.tuning.rows").write_rows(out, [*sides[0], *sides[1]])
        typer.echo(f"{written} rows in {out}, {len(sides[1])} of them for measuring")


@app.command()
def reflect(
    file: Annotated[Path, typer.Argument(help="Rows of question, passages and answer.")],
    out: NewFile,
    irrelevant: Annotated[
        float, typer.Option(min=0, max=1, help="Share of rows with an irrelevant passage.")
    ] = 0.2,
    seed: Seed = 1,
) -> None:
    """Add the evaluator's reflection tokens to the answers: Self-RAG rows."""
    _refuse_existing(out)
    with when_interrupted(f"{out} was not written"):
        weaving, rows = (import_module(f"evaluator.tuning.{n}") for n in ("self_rag", "rows"))
        inference = import_module("evaluator.inference.scorer")
        scorer = inference.load_scorer(import_module("evaluator.settings").read_settings())
        if missing := {"relevance", "support", "utility", "retrieval"} - set(scorer.tasks):
            raise EvaluatorError(f"{scorer.name} was not trained for {', '.join(sorted(missing))}.")
        critic, rng = partial(inference.in_batches, scorer), random.Random(seed)
        known = rows.read_tuning_rows(file)
        made = [weaving.reflected_row(row, critic, rng, irrelevant) for row in known]
        written = rows.write_rows(out, [row for row in made if row])
        typer.echo(f"{written} rows in {out}; of {len(known) - written} the critic made none")


@app.command()
def train(
    files: Rows,
    model: Annotated[Path, typer.Option(help="Folder of a causal language model or a T5.")],
    out: Annotated[Path, typer.Option(help="Folder the tuned model is written to.")],
    work: Annotated[Path, typer.Option(help="Checkpoints.")] = Path(".selfcrag/tune"),
    epochs: Annotated[float, typer.Option(min=0, help="Epochs.")] = 3.0,
    minutes: Annotated[float, typer.Option(min=0, help="Most minutes of steps.")] = float("inf"),
    learning_rate: Annotated[float, typer.Option(min=0, help="Highest learning rate.")] = 5e-5,
    rank: Annotated[int, typer.Option(min=1, help="Rank of the adapters.")] = 16,
    batch_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens of a step, padding included.")
    ] = 6400,
    max_length: Annotated[int, typer.Option(min=1, help="Longer rows are left out.")] = 1600,
    check_every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 200,
    seed: Seed = 1,
) -> None:
    """Tune with LoRA and merge; continues from the last checkpoint, if any."""
    with when_interrupted(f"the same command goes on from the last checkpoint in {work}, if any"):
        with needs("tune"):
            lora = import_module("evaluator.tuning.lora")
        options = lora.TuneOptions(
            seed=seed, epochs=epochs, minutes=minutes, learning_rate=learning_rate, rank=rank,
            alpha=2 * rank, batch_tokens=batch_tokens, max_length=max_length,
            check_every=check_every, held_back_percent=HELD_BACK_PERCENT,
        )  # fmt: skip
        lora.tune(files, model, out, work, options, timed())


@app.command()
def measure(
    files: Rows,
    model: Annotated[Path, typer.Option(help="Folder of a model, tuned or not.")],
    most: Annotated[int, typer.Option(min=1, help="Most rows of each file.")] = 200,
    seed: Seed = 1,
) -> None:
    """Measure token F1 and coverage on the held-back rows of each file."""
    with needs("tune"):
        lora = import_module("evaluator.tuning.lora")
    network, tokenizer = lora.load_generator(model)
    read_examples = import_module("evaluator.tuning.rows").read_examples
    for file in files:
        _, held = lora.divided_examples(read_examples(file), HELD_BACK_PERCENT)
        some = random.Random(seed).sample(held, min(most, len(held)))
        figures = lora.measured_figures(network, tokenizer, some)
        typer.echo(json.dumps({"file": file.name, **asdict(figures)}))


def _refuse_existing(out: Path) -> None:
    if out.exists():
        raise EvaluatorError(f"{out} is there already.")
