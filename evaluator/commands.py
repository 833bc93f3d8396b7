"""Commands of `selfcrag-evaluator`; each imports what it needs when it runs."""

import json
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from evaluator.errors import EvaluatorError
from evaluator.terminal import needs, timed, when_interrupted
from evaluator.tuning.commands import app as tune

app = typer.Typer(no_args_is_help=True, help="The T5 evaluator: worker, training, calibration.")
app.add_typer(tune, name="tune", help="Tune a generator: rows, reflection tokens, LoRA, measures.")

Task = Literal["relevance", "support", "utility", "retrieval", "rerank"]
Weights = Annotated[
    Path | None, typer.Option(help="Folder of the checkpoint; left out: as configured.")
]
Data = Annotated[Path, typer.Option(help="Folder of records; the handbook names the formats.")]


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.")] = None,
) -> None:
    """Start the worker: POST /score, and POST /v1/embeddings if an embedder is configured."""
    with when_interrupted("the worker has stopped"):
        settings, inference = _settings(), import_module("evaluator.inference.scorer")
        scorers = inference.load_scorers(settings)  # fails here, in one line, not in the server
        embedder = inference.load_embedder(settings)
        host, port = host or settings.host, port or settings.port
        served = [f"{scorer.name} ({', '.join(scorer.tasks)})" for scorer in scorers]
        served += [f"{embedder.name} (embeddings)"] if embedder else []
        typer.echo(f"{', '.join(served)} on http://{host}:{port}")
        create_app = import_module("evaluator.serving.app").create_app
        import_module("uvicorn").run(
            create_app(settings, *scorers, embedder=embedder),
            host=host,
            port=port,
            timeout_graceful_shutdown=10,
            log_level="warning",
        )


@app.command()
def score(
    question: Annotated[str, typer.Argument(help="The question, or the task's first text.")],
    passages: Annotated[list[str], typer.Argument(help="Passages, or the task's second texts.")],
    task: Annotated[Task, typer.Option(help="The judgement.")] = "relevance",
) -> None:
    """Score passages for a question, one JSON line each."""
    if not all(map(import_module("evaluator.data.text").is_sound, (question, *passages))):
        raise EvaluatorError("The question and the passages must be UTF-8.")
    settings, inference = _settings(), import_module("evaluator.inference.scorer")
    reranks = task == "rerank" and settings.reranker is not None
    scorer = (inference.load_reranker if reranks else inference.load_scorer)(settings)
    if task not in scorer.tasks:
        raise EvaluatorError(f"{scorer.name} was not trained for {task}.")
    results = inference.in_batches(scorer, task, [(question, passage) for passage in passages])
    for passage, result in zip(passages, results, strict=True):
        judged = {"error": result} if isinstance(result, str) else {
            "score": round(result.score, 4), "label": result.label
        }  # fmt: skip
        typer.echo(json.dumps({**judged, "passage": passage}, ensure_ascii=False))


@app.command()
def train(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder the weights are written to.")],
    work: Annotated[Path, typer.Option(help="Checkpoints and caches.")] = Path(".selfcrag/train"),
    minutes: Annotated[float, typer.Option(help="Most minutes of training steps.")] = 60.0,
    rows: Annotated[int, typer.Option(help="Most rows that are read.")] = 200_000,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 1,
    layers: Annotated[int, typer.Option(min=1, max=12, help="Layers of the encoder.")] = 12,
    init: Annotated[
        str,
        typer.Option(
            help="e5: multilingual-e5-small; none: random weights; or an evaluator's folder."
        ),
    ] = "e5",
    left_out: Annotated[
        list[str] | None,
        typer.Option(
            help="Data file, without endings, that is not trained on and chooses the checkpoint."
        ),
    ] = None,
    learning_rate: Annotated[float, typer.Option(help="Highest learning rate.")] = 5e-5,
    train_length: Annotated[int, typer.Option(min=32, max=512, help="Tokens of a row.")] = 384,
    frozen_layers: Annotated[
        int, typer.Option(min=0, help="Lowest layers left as they are: faster, for later passes.")
    ] = 0,
    t5: Annotated[
        Path | None, typer.Option(help="Folder of a local T5, trained by the CRAG paper's recipe.")
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads of PyTorch; 0: its own choice.")] = 0,
) -> None:
    """Train an evaluator and export it; continues from the last checkpoint, if any."""
    with when_interrupted(f"the same command goes on from the last checkpoint in {work}, if any"):
        with needs("train"):
            torch = import_module("torch")
            training = import_module(f"evaluator.training.{'crag_recipe' if t5 else 'train'}")
        if threads:
            torch.set_num_threads(threads)
        if t5 is not None:
            options = training.RecipeOptions(seed=seed, minutes=minutes, rows=rows)
            training.train_recipe(data, t5, out, work, options, timed())
            return
        options = training.TrainOptions(
            seed, minutes, rows, init, layers, learning_rate=learning_rate,
            train_length=train_length, frozen_layers=frozen_layers,
            left_out=tuple(left_out or ()),
        )  # fmt: skip
        training.train(data, out, work, options, timed())
        import_module("evaluator.calibration.model_card").write_card(out)
        typer.echo(f"exported to {import_module('evaluator.training.onnx_export').export(out)}")


@app.command()
def label(
    file: Annotated[Path, typer.Argument(help="Rows {question, passage?, answer?}, *.jsonl.")],
    out: Annotated[Path, typer.Option(help="Critic rows are appended to this file.")],
    base_url: Annotated[str, typer.Option(help="An OpenAI-compatible endpoint, ending in /v1.")],
    model: Annotated[str, typer.Option(help="Model that labels.")],
    task: Annotated[
        list[str] | None, typer.Option(help="A judgement; may be repeated; left out: all.")
    ] = None,
    input_price: Annotated[
        float, typer.Option(min=0, help="Price of a million input tokens.")
    ] = 0.0,
    output_price: Annotated[
        float, typer.Option(min=0, help="Price of a million output tokens.")
    ] = 0.0,
    dry_run: Annotated[bool, typer.Option(help="Only print rows, tokens and cost.")] = False,
) -> None:
    """Label rows with reflection tokens by a language model, as data for `train`."""
    with when_interrupted(f"the same command goes on after what {out} holds"):
        labelling, openai = import_module("evaluator.data.labelling"), import_module("openai")
        key = import_module("evaluator.settings").LabelSettings().api_key.get_secret_value()
        client = openai.OpenAI(base_url=base_url, api_key=key or "none", max_retries=5, timeout=60)
        endpoint = labelling.LabelEndpoint(client, model, input_price, output_price)
        tasks = task or list(labelling.INSTRUCTIONS)
        if unknown := set(tasks) - labelling.INSTRUCTIONS.keys():
            raise EvaluatorError(f"No judgement is called {', '.join(sorted(unknown))}.")
        written = labelling.label(file, out, tasks, endpoint, timed(), dry=dry_run)
        typer.echo(f"{written} rows written to {out}")


@app.command()
def convert(
    checkpoint: Annotated[Path, typer.Argument(help="A pickled checkpoint, *.bin or *.pt.")],
    out: Annotated[Path, typer.Option(help="Folder for model.safetensors.")],
) -> None:
    """Convert a pickled checkpoint to safetensors, in a process without network."""
    with needs("train"):
        converting = import_module("evaluator.training.convert")
    typer.echo(f"{converting.convert(checkpoint, out)} tensors written to {out}")


@app.command()
def calibrate(
    weights: Weights = None,
    data: Annotated[
        Path | None, typer.Option(help="Build questions from held-back records.")
    ] = None,
    questions: Annotated[Path | None, typer.Option(help="Labelled questions, JSON lines.")] = None,
    most: Annotated[int, typer.Option(help="Most questions built from data.")] = 1600,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 1,
    ambiguous_cost: Annotated[
        float, typer.Option(help="Cost of Ambiguous; 0.5 and more leave none.")
    ] = 0.45,
    wrong_correct_cost: Annotated[float, typer.Option(help="Cost of a wrong Correct.")] = 1.0,
    wrong_incorrect_cost: Annotated[float, typer.Option(help="Cost of a wrong Incorrect.")] = 1.0,
    least_precision: Annotated[
        float,
        typer.Option(min=0, max=1, help="Precision required of Correct and Incorrect; 0: none."),
    ] = 0.0,
    least_incorrect_precision: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="Precision required of Incorrect, which discards passages."
        ),
    ] = 0.0,
    strips_kept: Annotated[
        float, typer.Option(min=0, max=1, help="Share of answering strips above the strip floor.")
    ] = 0.95,
) -> None:
    """Choose upper, lower and strip floor, print a report and write thresholds.json."""
    calibration = import_module("evaluator.calibration.thresholds")
    aims = calibration.Aims(
        wrong_correct_cost, wrong_incorrect_cost, ambiguous_cost, least_precision,
        max(least_precision, least_incorrect_precision), strips_kept, seed,
    )  # fmt: skip
    labelled = _labelled(data, questions, seed, most)
    settings = _settings(weights)
    inference = import_module("evaluator.inference.scorer")
    scorer = inference.load_scorer(settings, fused=False)
    scores = inference.scores_of(scorer)
    former_bars = _kept_bars(settings.weights)
    relevance, pool, grade = _relevance(scores, settings, labelled)
    result = calibration.calibrate(labelled, relevance, aims, grade)
    typer.echo(calibration.report(result))
    judges = {"support", "utility"} <= set(scorer.tasks)
    bars = _bars(data, seed, most // 8, scores) if data and judges else None
    if bars is None:
        typer.echo("no answers to calibrate the critic's bars on: they stay as they were")
        bars = former_bars
    if "retrieval" in scorer.tasks:
        bars["retrieval"] = _retrieval_bar(inference.scores_of(inference.load_scorer(settings)))
    update = {"source": "data" if data else "questions", "pool": pool, **bars}
    stored = result.thresholds.model_copy(update=update)
    path = calibration.store(stored, settings.weights)
    import_module("evaluator.calibration.model_card").write_card(settings.weights)
    typer.echo(f"written to {path}")


@app.command()
def export(weights: Weights = None) -> None:
    """Write model.onnx beside the tensors."""
    with needs("train"):
        exporting = import_module("evaluator.training.onnx_export")
    typer.echo(f"exported to {exporting.export(_settings(weights).weights)}")


@app.command()
def embedder(
    out: Annotated[Path, typer.Argument(help="A new folder for the embedder.")],
    data: Annotated[
        Path | None, typer.Option(help="Cut the vocabulary to what this folder's texts use.")
    ] = None,
) -> None:
    """Write multilingual-e5-small as an embedder."""
    with needs("train"):
        embedding = import_module("evaluator.training.embedder")
        typer.echo(f"written to {embedding.build(out, data)}")


@app.command()
def measure(
    file: Annotated[Path, typer.Argument(help="SQuAD-like records, *.jsonl or *.jsonl.gz.")],
    weights: Weights = None,
    most: Annotated[int, typer.Option(help="Most questions measured.")] = 500,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 1,
    e5: Annotated[
        bool, typer.Option(help="Measure the untrained encoder too; --no-e5 skips it.")
    ] = True,
    keep: Annotated[bool, typer.Option(help="Add the figures to the model card.")] = False,
) -> None:
    """Measure AUC on gold and BM25-nearest passages, beside BM25 and the untrained encoder."""
    with needs("train"):
        measuring = import_module("evaluator.calibration.evaluate")
    settings = _settings(weights)
    inference = import_module("evaluator.inference.scorer")
    score_pairs = partial(inference.scores_of(inference.load_scorer(settings)), "relevance")
    cosines = import_module("evaluator.training.untrained").cosines if e5 else None
    figures = measuring.measure(file, score_pairs, most, seed, cosines=cosines)
    typer.echo(json.dumps(figures, indent=2))
    if keep:
        card = import_module("evaluator.calibration.model_card")
        card.keep_figures(settings.weights, file.name.split(".")[0], figures)
        card.write_card(settings.weights)


@app.command()
def bench(
    weights: Weights = None,
    backend: Annotated[str, typer.Option(help="onnx or torch; as configured if left out.")] = "",
    device: Annotated[str, typer.Option(help="torch: auto, cpu or cuda.")] = "",
    precision: Annotated[str, typer.Option(help="torch: auto, fp32 or bf16.")] = "",
    task: Annotated[Task, typer.Option(help="The judgement.")] = "relevance",
    pairs: Annotated[int, typer.Option(min=1, help="Pairs scored per batch size.")] = 256,
    length: Annotated[
        int, typer.Option(min=0, help="Tokens of every pair; 0: texts as long as real ones.")
    ] = 0,
    batch_tokens: Annotated[
        list[int] | None, typer.Option(min=1, help="A batch size; may be repeated.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0, help="Least seconds per figure.")] = 2.0,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 1,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the figures to this file.")
    ] = None,
) -> None:
    """Measure pairs and tokens per second, latency and padding, by batch size."""
    if json_file and not json_file.parent.is_dir():  # told before all is measured
        raise EvaluatorError(f"{json_file} cannot be written: {json_file.parent} is not a folder.")
    settings = _settings(weights, backend=backend, device=device, precision=precision)
    benching = import_module("evaluator.bench")
    options = benching.BenchOptions(task, pairs, length, tuple(batch_tokens or ()), seconds, seed)
    speed = benching.bench(settings, options)
    typer.echo(benching.table(speed))
    if json_file is not None:
        json_file.write_text(json.dumps(asdict(speed), indent=1) + "\n", encoding="utf-8")


def _settings(weights: Path | None = None, **given: str) -> Any:
    """The configured settings, but for what the command line names."""
    named = {name: value for name, value in {"weights": weights, **given}.items() if value}
    return import_module("evaluator.settings").read_settings(**named)


def _labelled(data: Path | None, questions: Path | None, seed: int, max_questions: int) -> Any:
    """What `calibrate` reads: of the two sources exactly one is given."""
    reading = import_module("evaluator.data.calibration_questions")
    if questions is not None and data is None:
        return reading.read_questions(questions)
    if data is None or questions is not None:
        raise EvaluatorError("calibrate needs either --data or --questions.")
    with needs("train"):
        records = import_module("evaluator.data.records")
        _, held_back = records.split(records.read_folder(data), records.HELD_BACK_PERCENT)
        return reading.build_questions(held_back, seed, max_questions)


def _relevance(scores: Any, settings: Any, labelled: Any) -> tuple[Any, Any, Any]:
    """The relevance that thresholds are for, and the pool's weights with the grades by them.

    Fusion and pool, where there is an encoder, are fitted anew; else both of these are None.
    """
    checkpoint = import_module("evaluator.model.checkpoint")
    relevance = partial(scores, "relevance")
    if not (settings.weights / checkpoint.ENCODER_FOLDER).is_dir():
        return relevance, None, None
    fusion = import_module("evaluator.calibration.fusion")
    inference = import_module("evaluator.inference.fusion")
    similarity = import_module("evaluator.inference.scorer").load_similarity(settings)
    readings = fusion.Readings(relevance, similarity)
    is_known = (settings.weights / checkpoint.FUSION_FILE).is_file()
    weights = inference.load_weights(settings.weights) if is_known else inference.FusionWeights()
    fitted = fusion.fit(labelled, readings, weights)
    if fitted is None:
        typer.echo("the questions tell too little for the fusion's scale: it stays as it was")
    weights = fitted or weights
    fusion.store(weights, settings.weights)
    typer.echo(f"fusion: {weights.scale:.3f} x evidence + {weights.shift:.3f}")
    pool = fusion.fit_pool(labelled, readings, weights)
    if pool is None:
        return readings.score_with(weights), None, None
    typer.echo(f"pool: {pool.scale} x logit + {pool.standing} x standing + {pool.shift}")
    return readings.score_with(weights), pool, readings.grade_with(weights, pool)


def _kept_bars(weights: Path) -> dict[str, float]:
    """The critic's bars that these weights have, if any: labelled questions say nothing of them."""
    try:
        stored = import_module("evaluator.model.checkpoint").load_thresholds(weights)
    except EvaluatorError:
        return {}
    return {"support": stored.support, "utility": stored.utility, "retrieval": stored.retrieval}


def _retrieval_bar(scores: Any) -> float:
    """Chosen on the project's own wordings that training leaves out."""
    acceptance = import_module("evaluator.calibration.acceptance")
    rows = import_module("evaluator.data.synthetic.retrieval").needs()
    bar: float = acceptance.choose_retrieval([r for r in rows if r.group != "train"], scores)
    typer.echo(f"questions are looked up above {bar:.2f}")
    return bar


def _bars(data: Path, seed: int, most: int, scores: Any) -> dict[str, float] | None:
    """The critic's bars, chosen on right and wrong answers to held-back questions, if there are."""
    acceptance = import_module("evaluator.calibration.acceptance")
    records = import_module("evaluator.data.records")
    material = import_module("evaluator.data.synthetic.material")
    percent = records.HELD_BACK_PERCENT
    key = records.division(records.read_folder(data), percent)
    held = material.read_material(data, lambda group: records.held_back(group, percent), key)
    cases = import_module("evaluator.data.synthetic.build").cases(held, seed, most)
    graded = acceptance.judged(cases, scores)
    bars = acceptance.choose_bars(graded)
    if bars is None:
        return None
    typer.echo(acceptance.report(graded, bars))
    return {"support": bars.support, "utility": bars.utility}
