"""Speed of a checkpoint: the latency of a lone pair, then the throughput of growing batches."""

import math
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

import numpy as np

from evaluator.errors import WeightsError
from evaluator.inference.scorer import Scorer, in_batches, load_scorer
from evaluator.model.checkpoint import check_folder
from evaluator.schema import ANSWER_MARK, Row, RowScore, Task
from evaluator.settings import EvaluatorSettings

BATCH_TOKENS = (256, 512, 1024, 1536, 2048, 4096, 8192, 16384, 32768, 65536)
MAX_ON_CPU = 8192
MIN_ALONE = 20  # lone pairs timed, whatever they take

Pair = tuple[str, str]
Language = Literal["en", "zh"]


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
    """A scorer that remembers its batches and, where a length is given, cuts rows to it."""

    def __init__(self, scorer: Scorer, length: int = 0) -> None:
        self.name, self.digest, self.tasks = scorer.name, scorer.digest, scorer.tasks
        self.batches: list[Batch] = []
        self._scorer, self._length = scorer, length

    def encode(self, task: Task, pairs: Sequence[Pair]) -> list[Row | str]:
        rows = self._scorer.encode(task, pairs)
        return [row if isinstance(row, str) else self._cut(row) for row in rows]

    def _cut(self, row: Row) -> Row:
        over = self._length and len(row.ids) > self._length
        return Row((*row.ids[: self._length - 1], row.ids[-1])) if over else row

    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        started = time.perf_counter()
        results = self._scorer.forward(task, rows)
        took_s = time.perf_counter() - started
        lengths = [len(row.ids) for row in rows]
        self.batches.append(Batch(len(rows), max(lengths), sum(lengths), took_s))
        return results


@dataclass(frozen=True)
class Point:
    """One batch size: rates with tokenizing, milliseconds in the model alone."""

    batch_tokens: int
    pairs_per_s: float
    tokens_per_s: float
    padding: float
    batch_ms: float
    model_ms_per_pair: float


@dataclass(frozen=True)
class Speed:
    """All that was measured of one checkpoint."""

    evaluator: str
    machine: str
    backend: str
    precision: str
    options: BenchOptions
    lone_p50_ms: float
    lone_p95_ms: float
    points: list[Point]


def bench(settings: EvaluatorSettings, options: BenchOptions) -> Speed:
    """Measure the settings' checkpoint. Raises WeightsError."""
    # The authors' form names no length.
    max_length = check_folder(settings.weights).get("max_length", options.length)
    if options.length > max_length:
        raise WeightsError(f"This checkpoint reads at most {max_length} tokens.")
    scorer = load_scorer(settings)
    if options.task not in scorer.tasks:
        raise WeightsError(f"{scorer.name} was not trained for {options.task}.")
    return measured(scorer, settings, options)


def measured(scorer: Scorer, settings: EvaluatorSettings, options: BenchOptions) -> Speed:
    """The speed of a loaded scorer."""
    pairs = Texts(options.seed).pairs(options.pairs, 2 * options.length)
    if options.task == "support":
        pairs = [(f"{question}{ANSWER_MARK}{question}", passage) for question, passage in pairs]
    machine, precision, on_cpu = _machine(settings)
    scorer = Watched(scorer, options.length)
    alone = _alone(scorer, options, pairs)
    rows = scorer.encode(options.task, pairs)
    tokens = sum(len(row.ids) for row in rows if isinstance(row, Row))
    # Up to the first that takes all pairs in one batch.
    sizes = [size for size in BATCH_TOKENS if not on_cpu or size <= MAX_ON_CPU]
    sizes = [size for size in sizes if size == sizes[0] or size < 2 * tokens]
    points = [_point(scorer, options, pairs, size) for size in options.batch_tokens or sizes]
    p50_ms, p95_ms = (float(np.percentile(alone, share)) for share in (50, 95))
    return Speed(scorer.name, machine, settings.backend, precision, options, p50_ms, p95_ms, points)


def _machine(settings: EvaluatorSettings) -> tuple[str, str, bool]:
    """What computes, its precision, whether it is a CPU."""
    if settings.backend == "onnx":
        return f"CPU, {os.cpu_count()} cores", "fp32", True
    torch = import_module("torch")
    device, dtype = import_module("evaluator.inference.torch_scorer").place(settings)
    precision = "bf16" if dtype is torch.bfloat16 else "fp32"
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device)), precision, False
    return f"CPU, {torch.get_num_threads()} threads", precision, True


def _alone(scorer: Scorer, options: BenchOptions, pairs: Sequence[Pair]) -> list[float]:
    """Milliseconds of single pairs, tokenizing counted in."""
    took_ms: list[float] = []
    until = time.perf_counter() + options.seconds
    while len(took_ms) < MIN_ALONE or time.perf_counter() < until:
        pair = pairs[len(took_ms) % len(pairs)]
        started = time.perf_counter()
        in_batches(scorer, options.task, [pair])
        took_ms.append((time.perf_counter() - started) * 1000)
    return took_ms[len(took_ms) // 10 :]  # the first ones warm up


def _point(
    scorer: Watched, options: BenchOptions, pairs: Sequence[Pair], batch_tokens: int
) -> Point:
    """Whole passes over the pairs until the time is up, after one batch that warms up."""
    in_batches(scorer, options.task, pairs[: max(1, len(pairs) // 8)], batch_tokens)
    scorer.batches.clear()
    started = time.perf_counter()
    while not scorer.batches or time.perf_counter() - started < options.seconds:
        in_batches(scorer, options.task, pairs, batch_tokens)
    took_s = time.perf_counter() - started
    batches = scorer.batches
    in_model_ms = 1000 * sum(batch.seconds for batch in batches)
    tokens, rows = sum(batch.tokens for batch in batches), sum(batch.rows for batch in batches)
    return Point(
        batch_tokens=batch_tokens,
        pairs_per_s=rows / took_s,
        tokens_per_s=tokens / took_s,
        padding=1 - tokens / sum(batch.rows * batch.width for batch in batches),
        batch_ms=in_model_ms / len(batches),
        model_ms_per_pair=in_model_ms / rows,
    )


def table(speed: Speed) -> str:
    """The figures as lines for a terminal."""
    lines = [
        f"{speed.evaluator}, {speed.options.task}, {speed.backend} {speed.precision} "
        f"on {speed.machine}",
        f"a lone pair takes {speed.lone_p50_ms:.1f} ms (p50), {speed.lone_p95_ms:.1f} ms (p95)",
        "batch tokens   pairs/s    tokens/s  padding  ms a batch",
    ]
    lines += [
        f"{point.batch_tokens:12,d} {point.pairs_per_s:9,.1f} {point.tokens_per_s:11,.0f} "
        f"{point.padding:8.1%} {point.batch_ms:11.1f}"
        for point in speed.points
    ]
    return "\n".join(lines)


_WORDS = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
ENGLISH, CHINESE = (tuple(words.split()) for words in _WORDS.split("\n\n"))
"""Common words, the commonest first."""
_MEDIAN_WORDS = {"question": 9, "passage": 95, "strip": 30}
_SPREAD = {"question": 0.25, "passage": 0.5, "strip": 0.4}  # of the lengths' logarithms
_CHINESE_SHARE = 0.5


class Texts:
    """Random questions, passages and strips as long as real ones, in English and Chinese.

    Common words drawn by Zipf's law, which a tokenizer cuts as it cuts text; they say nothing.
    """

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def language(self) -> Language:
        return "zh" if self._rng.random() < _CHINESE_SHARE else "en"

    def question(self, language: Language) -> str:
        words = self._drawn(language, self._length("question"))
        return "".join(words) + "？" if language == "zh" else " ".join(words).capitalize() + "?"

    def passage(self, language: Language, words: int = 0) -> str:
        """Sentences of so many words together; 0 draws a passage's usual length."""
        return self._sentences(language, words or self._length("passage"))

    def strip(self, language: Language) -> str:
        return self._sentences(language, self._length("strip"))

    def pairs(self, count: int, words: int = 0) -> list[Pair]:
        """Each a question and a passage of one language."""
        languages = [self.language() for _ in range(count)]
        return [(self.question(one), self.passage(one, words)) for one in languages]

    def _length(self, kind: str) -> int:
        drawn = self._rng.lognormvariate(math.log(_MEDIAN_WORDS[kind]), _SPREAD[kind])
        return max(3, min(round(drawn), 4 * _MEDIAN_WORDS[kind]))

    def _drawn(self, language: Language, count: int) -> list[str]:
        words = CHINESE if language == "zh" else ENGLISH
        weights = [1 / (rank + 3) for rank in range(len(words))]
        return self._rng.choices(words, weights, k=count)

    def _sentences(self, language: Language, words: int) -> str:
        parts = []
        while words > 0:
            size = min(words, self._rng.randint(8, 24))
            drawn = self._drawn(language, size)
            chinese = language == "zh"
            parts.append("".join(drawn) + "。" if chinese else " ".join(drawn).capitalize() + ".")
            words -= size
        return ("" if language == "zh" else " ").join(parts)
