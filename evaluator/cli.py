"""`selfcrag-evaluator`: serve, score, train, teach, calibrate, export, measure, bench."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
import uvicorn

from evaluator.calibration.action_costs import Costs
from evaluator.calibration.model_card import keep_figures, write_card
from evaluator.calibration.report import report
from evaluator.calibration.thresholds import Aims, store
from evaluator.calibration.thresholds import calibrate as find_thresholds
from evaluator.data.labelled import read_questions
from evaluator.errors import EvaluatorError
from evaluator.inference.scorer import Scorer, load_reranker, load_scorer, load_scorers
from evaluator.model.text import is_sound
from evaluator.schema import Task
from evaluator.serving.app import create_app
from evaluator.serving.batching import in_batches
from evaluator.serving.embeddings_api import load_embedder
from evaluator.settings import EvaluatorSettings, read_settings

app = typer.Typer(no_args_is_help=True, help="The T5 evaluator: worker, training, calibration.")

Weights = Annotated[Path | None, typer.Option(help="The checkpoint's folder; else as configured.")]
Data = Annotated[Path, typer.Option(help="Folder of records; the handbook names the formats.")]


def main() -> None:
    """Run the command line; an expected failure is one clear line and status 1."""
    try:
        app()
    except EvaluatorError as error:
        sys.exit(f"selfcrag-evaluator: {error}")


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
) -> None:
    """Serve POST /score, and POST /v1/embeddings if an embedder is named, in the foreground."""
    settings = read_settings()
    scorers = load_scorers(settings)  # fails here, in one line, rather than inside the server
    embedder = load_embedder(settings)
    host, port = host or settings.host, port or settings.port
    told = [f"{scorer.name} ({', '.join(scorer.tasks)})" for scorer in scorers]
    told += [f"{embedder.name} (embeddings)"] if embedder else []
    typer.echo(f"{', '.join(told)} on http://{host}:{port}")
    uvicorn.run(
        create_app(settings, *scorers, embedder=embedder),
        host=host,
        port=port,
        timeout_graceful_shutdown=10,
        log_level="warning",
    )


@app.command()
def score(
    question: Annotated[str, typer.Argument(help="The question (or the task's first text).")],
    passages: Annotated[list[str], typer.Argument(help="Passages (or the task's second texts).")],
    task: Annotated[Task, typer.Option(help="Which judgement.")] = "relevance",
) -> None:
    """Score passages for a question, one JSON line each."""
    if not all(map(is_sound, (question, *passages))):
        raise EvaluatorError("The question and the passages must be UTF-8.")
    settings = read_settings()
    reranks = task == "rerank" and settings.reranker is not None
    scorer = load_reranker(settings) if reranks else load_scorer(settings)
    if task not in scorer.tasks:
        raise EvaluatorError(f"{scorer.name} was not trained for {task}.")
    pairs = [(question, passage) for passage in passages]
    for passage, result in zip(passages, in_batches(scorer, task, pairs), strict=True):
        judged = {"error": result} if isinstance(result, str) else {
            "score": round(result.score, 4), "label": result.label
        }  # fmt: skip
        typer.echo(json.dumps({**judged, "passage": passage}, ensure_ascii=False))


@app.command()
def train(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder the weights are written to.")],
    work: Annotated[Path, typer.Option(help="Checkpoints and caches.")] = Path(".selfcrag/train"),
    minutes: Annotated[float, typer.Option(help="Most minutes for the T5.")] = 60.0,
    rows: Annotated[int, typer.Option(help="Most rows the T5 reads.")] = 70_000,
    seed: Annotated[int, typer.Option(help="Decides every draw.")] = 1,
    layers: Annotated[
        int, typer.Option(min=1, max=6, help="Encoder layers that read each text for itself.")
    ] = 6,
    init: Annotated[str, typer.Option(help="minilm: begin with its layers; none: begin anew.")] = (
        "minilm"
    ),
    teacher: Annotated[
        Path | None, typer.Option(help="Cross-encoder whose scores soften English targets.")
    ] = None,
    t5: Annotated[
        Path | None, typer.Option(help="Any local T5: the CRAG paper's recipe instead of ours.")
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads of PyTorch; 0 lets it choose.")] = 0,
) -> None:
    """Train an evaluator and export it; goes on from its last checkpoint if there is one."""
    with _needs("train"):
        torch = import_module("torch")
        name = "crag_recipe" if t5 else "train"
        training = import_module(f"evaluator.training.{name}")
    if threads:
        torch.set_num_threads(threads)
    if t5 is not None:
        options = training.RecipeOptions(seed=seed, minutes=minutes, pairs=rows)
        training.train_recipe(data, t5, out, work, options, _timed())
        return
    if init not in ("minilm", "none"):
        raise EvaluatorError(f"--init is minilm or none, not {init}.")
    options = training.TrainOptions(seed, minutes, rows, own_layers=layers, init=init)
    options = training.taught_by(teacher, options) if teacher else options
    training.train(data, out, work, options, _timed())
    write_card(out)
    typer.echo(f"exported to {import_module('evaluator.training.onnx_export').export(out)}")


@app.command()
def teach(
    data: Data,
    work: Annotated[Path, typer.Option(help="Where the teacher is kept.")] = Path(
        ".selfcrag/train"
    ),
    minutes: Annotated[float, typer.Option(help="Most minutes.")] = 60.0,
    rows: Annotated[int, typer.Option(help="Most pairs it reads.")] = 45_000,
    seed: Annotated[int, typer.Option(help="Decides every draw.")] = 1,
) -> None:
    """Fine-tune a MiniLM cross-encoder for `train --teacher`; it is never shipped."""
    with _needs("train"):
        teaching = import_module("evaluator.training.teacher")
    options = teaching.TeacherOptions(seed=seed, minutes=minutes, pairs=rows)
    typer.echo(f"teacher in {teaching.train_teacher(data, work, options, _timed())}")


@app.command()
def calibrate(
    weights: Weights = None,
    data: Annotated[
        Path | None, typer.Option(help="Build questions from held-back records.")
    ] = None,
    questions: Annotated[Path | None, typer.Option(help="Labelled questions, JSON lines.")] = None,
    most: Annotated[int, typer.Option(help="Most questions built from data.")] = 1600,
    seed: Annotated[int, typer.Option(help="Decides every draw.")] = 1,
    ambiguous_cost: Annotated[
        float, typer.Option(help="Cost of Ambiguous; 0.5 and more leave none.")
    ] = 0.45,
    wrong_correct_cost: Annotated[float, typer.Option(help="Cost of a wrong Correct.")] = 1.0,
    wrong_incorrect_cost: Annotated[float, typer.Option(help="Cost of a wrong Incorrect.")] = 1.0,
    least_precision: Annotated[
        float, typer.Option(min=0, max=1, help="Asked of Correct and Incorrect; 0 asks for none.")
    ] = 0.0,
    least_incorrect_precision: Annotated[
        float, typer.Option(min=0, max=1, help="Asked of Incorrect alone, which drops knowledge.")
    ] = 0.0,
    strips_kept: Annotated[
        float, typer.Option(min=0, max=1, help="Share of answering strips above the strip floor.")
    ] = 0.95,
) -> None:
    """Find upper, lower and strip floor; writes thresholds.json and a histogram."""
    costs = Costs(wrong_correct_cost, wrong_incorrect_cost, ambiguous_cost)
    least = least_precision, max(least_precision, least_incorrect_precision)
    aims = Aims(costs, least, strips_kept, seed)
    labelled = _labelled(data, questions, seed, most)
    settings = _settings(weights)
    found = find_thresholds(labelled, _relevance(load_scorer(settings)), aims)
    source = "data" if data else "questions"
    path = store(found.thresholds.model_copy(update={"source": source}), settings.weights)
    typer.echo(report(found))
    write_card(settings.weights)
    typer.echo(f"written to {path}")
    try:
        histogram = import_module("evaluator.calibration.histogram")
        histogram.draw(found, settings.weights / "thresholds.png")
    except ModuleNotFoundError as error:
        typer.echo(f"no histogram: {error.name} is not installed")


@app.command()
def export(weights: Weights = None) -> None:
    """Write model.onnx beside the tensors."""
    with _needs("train"):
        exporting = import_module("evaluator.training.onnx_export")
    typer.echo(f"exported to {exporting.export(_settings(weights).weights)}")


@app.command()
def measure(
    file: Annotated[Path, typer.Argument(help="SQuAD-like records, *.jsonl or *.jsonl.gz.")],
    weights: Weights = None,
    most: Annotated[int, typer.Option(help="Most questions measured.")] = 500,
    seed: Annotated[int, typer.Option(help="Decides which questions.")] = 1,
    minilm: Annotated[bool, typer.Option(help="Measure MiniLM too (slow).")] = True,
    keep: Annotated[bool, typer.Option(help="Add the figures to the model card.")] = False,
) -> None:
    """AUC of gold against BM25-nearest passages, beside BM25 and MiniLM on the same pairs."""
    with _needs("train"):
        measuring = import_module("evaluator.calibration.evaluate")
    settings = _settings(weights)
    figures = measuring.measure(file, _relevance(load_scorer(settings)), most, seed, minilm=minilm)
    typer.echo(json.dumps(figures, indent=2))
    if keep:
        keep_figures(settings.weights, file.name.split(".")[0], figures)
        write_card(settings.weights)


@app.command()
def bench(
    weights: Weights = None,
    backend: Annotated[str, typer.Option(help="onnx or torch; as configured if left out.")] = "",
    device: Annotated[str, typer.Option(help="torch: auto, cpu or cuda.")] = "",
    precision: Annotated[str, typer.Option(help="torch: auto, fp32 or bf16.")] = "",
    shape: Annotated[
        str, typer.Option(help="Untrained T5 instead: small, t5-small, t5-base or t5-large.")
    ] = "",
    task: Annotated[Task, typer.Option(help="Which judgement.")] = "relevance",
    pairs: Annotated[int, typer.Option(min=1, help="Pairs scored per batch size.")] = 256,
    length: Annotated[
        int, typer.Option(min=0, help="Tokens of every pair; 0: texts as long as real ones.")
    ] = 0,
    batch_tokens: Annotated[
        list[int] | None, typer.Option(min=1, help="A batch size, several times for several.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0, help="Least seconds a figure.")] = 2.0,
    seed: Annotated[int, typer.Option(help="Decides the texts.")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="Keep the figures.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the figures, PNG.")] = None,
) -> None:
    """Pairs and tokens a second, latency, padding and share of the peak, by batch size."""
    benching = import_module("evaluator.bench.run")
    for file in filter(None, (json_file, plot)):
        if not file.parent.is_dir():  # told before all is measured
            raise EvaluatorError(f"{file} cannot be written: {file.parent} is no folder.")
    settings = _settings(weights, backend=backend, device=device, precision=precision)
    options = benching.BenchOptions(task, pairs, length, tuple(batch_tokens or ()), seconds, seed)
    with _needs("train"):
        speed = benching.bench(settings, options, shape)
        drawing = import_module("evaluator.bench.plot") if plot else None
    typer.echo(benching.table(speed))
    if json_file is not None:
        json_file.write_text(json.dumps(speed.figures(), indent=1) + "\n", encoding="utf-8")
    if drawing is not None:
        drawing.draw(speed, plot)


def _settings(weights: Path | None, **asked: str) -> EvaluatorSettings:
    """The configured settings, but for what the command line names."""
    given: dict[str, Any] = {"weights": weights, **asked}
    return read_settings(**{name: value for name, value in given.items() if value})


@contextmanager
def _needs(extra: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise EvaluatorError(
            f"This command needs {error.name}: pip install 'self-crag[{extra}]'."
        ) from error


def _timed() -> Callable[[str], None]:
    started = time.monotonic()
    return lambda text: typer.echo(f"{time.monotonic() - started:7.0f} s  {text}")


def _labelled(data: Path | None, questions: Path | None, seed: int, most: int) -> Any:
    """What `calibrate` reads: of the two sources exactly one is given."""
    if data is not None and questions is None:
        return _held_back_questions(data, seed, most)
    if questions is not None and data is None:
        return read_questions(questions)
    raise EvaluatorError("calibrate needs either --data or --questions.")


def _held_back_questions(data: Path, seed: int, most: int) -> Any:
    with _needs("train"):
        records = import_module("evaluator.data.relevance_records")
        dataset = import_module("evaluator.data.relevance_pairs")
        building = import_module("evaluator.data.calibration_questions")
        percent = import_module("evaluator.training.train").TrainOptions.held_back_percent
    _, held_back = dataset.split(records.read_folder(data), percent)
    return building.build_questions(held_back, seed, most)


def _relevance(scorer: Scorer) -> Callable[[Sequence[tuple[str, str]]], list[float]]:
    def scores(pairs: Sequence[tuple[str, str]]) -> list[float]:
        results = in_batches(scorer, "relevance", pairs)
        return [-1.0 if isinstance(result, str) else result.score for result in results]

    return scores
