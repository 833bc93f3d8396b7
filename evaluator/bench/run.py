"""Measures a checkpoint's speed: a lone pair, then batches of growing size, beside the peak."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from evaluator.bench.flops import flops
from evaluator.bench.workload import Pair, Texts
from evaluator.errors import WeightsError
from evaluator.inference.scorer import Row, RowScore, Scorer, check_folder, load_scorer
from evaluator.schema import Task
from evaluator.serving.batching import in_batches
from evaluator.settings import EvaluatorSettings

BATCH_TOKENS = (256, 512, 1024, 1536, 2048, 4096, 8192, 16384, 32768, 65536)
MOST_ON_CPU = 8192
LEAST_ALONE = 20  # lone pairs timed, whatever they take


@dataclass(frozen=True)
class BenchOptions:
    """`length` is the tokens of every row, 0 for texts as long as real ones."""

    task: Task = "relevance"
    pairs: int = 256
    length: int = 0
    batch_tokens: tuple[int, ...] = ()
    seconds: float = 2.0
    seed: int = 1


@dataclass(frozen=True)
class Batch:
    """One forward: `tokens` are the rows' own, `rows * width` what was computed."""

    rows: int
    width: int
    tokens: int
    seconds: float


class Watched:
    """A scorer that remembers its batches."""

    def __init__(self, scorer: Scorer) -> None:
        self.name, self.digest, self.tasks = scorer.name, scorer.digest, scorer.tasks
        self.batches: list[Batch] = []
        self.lengths: list[int] = []
        self._scorer = scorer

    def encode(self, task: Task, pairs: Sequence[Pair]) -> list[Row | str]:
        return self._scorer.encode(task, pairs)

    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        started = time.perf_counter()
        results = self._scorer.forward(task, rows)
        took_s = time.perf_counter() - started
        lengths = [len(row.ids) for row in rows]
        self.lengths += lengths
        self.batches.append(Batch(len(rows), max(lengths), sum(lengths), took_s))
        return results


@dataclass(frozen=True)
class Point:
    """One batch size: rates with tokenizing, `peak_share` of the time in the model alone."""

    batch_tokens: int
    pairs_per_s: float
    tokens_per_s: float
    padding: float
    peak_share: float
    batch_ms: float


@dataclass(frozen=True)
class Variant:
    """One way through the network: `as stored`, or with a decoder of one step."""

    name: str
    flops_per_pair: float
    lone_p50_ms: float
    lone_p95_ms: float
    points: list[Point]


@dataclass(frozen=True)
class Speed:
    """All that was measured of one checkpoint."""

    evaluator: str
    machine: str
    backend: str
    precision: str
    peak_flops: float
    options: BenchOptions
    variants: list[Variant] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        return asdict(self)


def bench(settings: EvaluatorSettings, options: BenchOptions, shape: str = "") -> Speed:
    """Measure the settings' checkpoint or, where a shape is named, an untrained one of it.

    A shape is measured with and without the one-step head. Raises WeightsError.
    """
    with _checkpoint(settings, shape) as folder:
        config = check_folder(folder)
        _check_length(config, options.length)
        settings = settings.model_copy(
            update={"weights": folder, "max_length": options.length or settings.max_length}
        )
        settings, machine, peak = _machine(settings, options.seconds)
        scorer = load_scorer(settings)
        if options.task not in scorer.tasks:
            raise WeightsError(f"{scorer.name} was not trained for {options.task}.")
        name = f"untrained {shape}" if shape else scorer.name
        speed = Speed(name, machine, settings.backend, settings.precision, peak, options)
        on_cpu = settings.device == "cpu"
        speed.variants.append(_variant("as stored", scorer, config, speed, on_cpu))
        if shape:
            one_step: Scorer = import_module("evaluator.bench.shapes").OneStep(settings)
            speed.variants.append(_variant("one step", one_step, config, speed, on_cpu))
        return speed


@contextmanager
def _checkpoint(settings: EvaluatorSettings, shape: str) -> Iterator[Path]:
    if not shape:
        yield settings.weights
        return
    shapes = import_module("evaluator.bench.shapes")
    if shape not in shapes.SHAPES:
        raise WeightsError(f"No shape {shape}; there are {', '.join(shapes.SHAPES)}.")
    if settings.backend != "torch":
        raise WeightsError("A shape is measured with the torch backend: --backend torch.")
    with tempfile.TemporaryDirectory() as folder:
        shapes.build(shapes.SHAPES[shape], Path(folder))
        yield Path(folder)


def _check_length(config: dict[str, Any], length: int) -> None:
    longest = config.get("max_length", length)  # the authors' form has none
    if length > longest:
        raise WeightsError(f"This checkpoint reads at most {longest} tokens, not {length}.")


def _machine(settings: EvaluatorSettings, seconds: float) -> tuple[EvaluatorSettings, str, float]:
    """The settings without `auto`, what computes, and its peak in operations a second."""
    if settings.backend == "torch":
        shapes = import_module("evaluator.bench.shapes")
        settings = shapes.placed(settings)
        return settings, shapes.machine(settings), shapes.peak_flops(settings, seconds)
    precision = "fp32" if settings.precision == "auto" else settings.precision
    settings = settings.model_copy(update={"device": "cpu", "precision": precision})
    return settings, f"CPU, {os.cpu_count()} cores", _peak_flops(seconds)


def _peak_flops(seconds: float) -> float:
    """Operations a second of NumPy's product of two float32 matrices, the best seen."""
    side = 1536
    left = np.random.default_rng(0).standard_normal((side, side), dtype=np.float32)
    best, until = 0.0, time.perf_counter() + seconds
    while best == 0.0 or time.perf_counter() < until:
        started = time.perf_counter()
        left @ left
        best = max(best, 2.0 * side**3 / (time.perf_counter() - started))
    return best


def _variant(
    name: str, scorer: Scorer, config: dict[str, Any], speed: Speed, on_cpu: bool
) -> Variant:
    options, one_step = speed.options, name == "one step"
    pairs = Texts(options.seed).pairs(options.pairs, 2 * options.length)
    if options.task == "support":
        pairs = [(f"{question} [SEP] {question}", passage) for question, passage in pairs]
    cost = _cost(config, options.task, one_step)
    alone = _alone(scorer, options, pairs)
    lengths = [len(row.ids) for row in scorer.encode(options.task, pairs) if isinstance(row, Row)]
    sizes = options.batch_tokens or _sizes(sum(lengths), on_cpu)
    points = [_point(scorer, options, pairs, size, cost, speed.peak_flops) for size in sizes]
    per_pair = sum(map(cost, lengths)) / len(lengths)
    p50, p95 = (float(np.percentile(alone, share)) for share in (50, 95))
    return Variant(name, per_pair, p50, p95, points)


def _cost(config: dict[str, Any], task: Task, one_step: bool) -> Callable[[int], float]:
    return lambda length: flops(config, task, length, one_step=one_step)


def _sizes(tokens: int, on_cpu: bool) -> tuple[int, ...]:
    """Up to the first that takes all pairs in one batch."""
    sizes = [size for size in BATCH_TOKENS if not on_cpu or size <= MOST_ON_CPU]
    return tuple(size for size in sizes if size == sizes[0] or size < 2 * tokens)


def _alone(scorer: Scorer, options: BenchOptions, pairs: Sequence[Pair]) -> list[float]:
    """Milliseconds of single pairs, tokenizing counted in."""
    took: list[float] = []
    until = time.perf_counter() + options.seconds
    while len(took) < LEAST_ALONE or time.perf_counter() < until:
        pair = pairs[len(took) % len(pairs)]
        started = time.perf_counter()
        in_batches(scorer, options.task, [pair])
        took.append((time.perf_counter() - started) * 1000)
    return took[len(took) // 10 :]  # the first ones warm up


def _point(
    scorer: Scorer, options: BenchOptions, pairs: Sequence[Pair], batch_tokens: int,
    cost: Callable[[int], float], peak: float,
) -> Point:  # fmt: skip
    """Whole passes over the pairs until the time is up, after one batch that warms up."""
    in_batches(scorer, options.task, pairs[: max(1, len(pairs) // 8)], batch_tokens)
    watched, passes = Watched(scorer), 0
    started = time.perf_counter()
    while passes == 0 or time.perf_counter() - started < options.seconds:
        in_batches(watched, options.task, pairs, batch_tokens)
        passes += 1
    took_s = time.perf_counter() - started
    in_model_s = sum(batch.seconds for batch in watched.batches)
    tokens = sum(watched.lengths)
    return Point(
        batch_tokens=batch_tokens,
        pairs_per_s=len(watched.lengths) / took_s,
        tokens_per_s=tokens / took_s,
        padding=1 - tokens / sum(batch.rows * batch.width for batch in watched.batches),
        peak_share=sum(map(cost, watched.lengths)) / in_model_s / peak,
        batch_ms=1000 * in_model_s / len(watched.batches),
    )


def table(speed: Speed) -> str:
    """The figures as lines for a terminal."""
    lines = [
        f"{speed.evaluator}, {speed.options.task}, {speed.backend} {speed.precision} "
        f"on {speed.machine}",
        f"peak: {speed.peak_flops / 1e9:,.0f} GFLOP/s, a plain matrix product in this run",
    ]
    for variant in speed.variants:
        lines += [
            "",
            f"{variant.name}: {variant.flops_per_pair / 1e9:.3g} GFLOP a pair; a lone pair takes "
            f"{variant.lone_p50_ms:.1f} ms (p50), {variant.lone_p95_ms:.1f} ms (p95)",
            "batch tokens   pairs/s    tokens/s  padding  of peak  ms a batch",
        ]
        lines += [
            f"{point.batch_tokens:12,d} {point.pairs_per_s:9,.1f} {point.tokens_per_s:11,.0f} "
            f"{point.padding:8.1%} {point.peak_share:8.1%} {point.batch_ms:11.1f}"
            for point in variant.points
        ]
    return "\n".join(lines)
