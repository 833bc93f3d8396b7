"""Scorers: what a loaded model offers the worker, and the loading of models by the settings."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from evaluator.errors import WeightsError
from evaluator.model.checkpoint import (
    E5_ARCHITECTURE,
    ENCODER_FOLDER,
    FUSION_FILE,
    check_folder,
)
from evaluator.schema import LABELS, TASKS, Row, RowScore, Span, Task, judged_as, score_of
from evaluator.settings import WEIGHTS, EvaluatorSettings

Ids = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]
InputType = Literal["query", "passage"]
Scores = Callable[[Task, Sequence[tuple[str, str]]], list[float]]
"""Scores of pairs, in order."""

BATCH_TOKENS = 1536
NO_NUMBER = "The model gave no number for this pair."
NO_TEXT = "One of the texts holds nothing to read."


class HasIds(Protocol):
    """A row, whatever else it carries."""

    @property
    def ids(self) -> tuple[int, ...]: ...


RowT = TypeVar("RowT", bound=HasIds)


class Scorer(Protocol):
    """A checkpoint, loaded. Both methods are CPU work: call them in a thread."""

    name: str
    digest: str  # of the tensors as they were loaded (weights_digest)
    tasks: tuple[Task, ...]

    def encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        """Token ids of each pair, or the reason why a pair cannot be scored."""

    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        """Judge one padded batch; a row's reason where its result is no number."""


class Similarity(Protocol):
    """What an encoder that reads each text alone makes of pairs and questions.

    Both are CPU work, safe in several threads.
    """

    def of(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, float]]:
        """Two cosines a pair: how near its texts are (evaluator/inference/fusion.py)."""

    def needs(self, questions: Sequence[str]) -> Sequence[float | None]:
        """The logit that each question needs retrieval; None where no layer is there for it."""


class TextEmbedder(Protocol):
    """A loaded embedding model; `embed` is CPU work: call it in a thread."""

    name: str
    dimensions: int

    def embed(self, texts: Sequence[str], input_type: InputType | None) -> tuple[Vectors, int]:
        """Unit vectors (texts, dimensions) and the number of tokens read."""


class ImageEmbedder(Protocol):
    """A loaded model of one space for texts and images; both methods are CPU work."""

    name: str
    dimensions: int

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape (texts, dimensions)."""

    def embed_images(self, images: Sequence[str]) -> Vectors:
        """Unit vectors of images in base64, shape (images, dimensions). Raises InvalidTexts."""


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """[start, end) in the text, and its self-information, -log p, in nats."""

    start: int
    end: int
    nats: float


class LanguageModel(Protocol):
    """A loaded causal language model; `tokens` is CPU work: call it in a thread."""

    name: str

    def tokens(self, text: str, before: str = "") -> list[ScoredToken]:
        """Each token of the text with its self-information, read after `before`."""


def load_scorer(settings: EvaluatorSettings, *, fused: bool = True) -> Scorer:
    """The configured checkpoint on its backend, imported by name: ONNX never imports torch.

    Where the folder holds an encoder beside the T5, its similarity joins the relevance, unless
    `fused` is False. Raises WeightsError when the folder or what the backend needs is missing.
    """
    folder = settings.weights
    check_folder(folder)
    scorer = cast("Scorer", _backend(settings, "scorer").load(settings))
    if not fused or not (folder / FUSION_FILE).is_file():
        return scorer
    fusion = importlib.import_module("evaluator.inference.fusion")
    weights = fusion.load_weights(folder)
    return cast("Scorer", fusion.FusedScorer(scorer, load_similarity(settings), weights))


def load_similarity(settings: EvaluatorSettings) -> Similarity:
    """The similarity by the encoder in the checkpoint's folder. Raises WeightsError."""
    folder = settings.weights / ENCODER_FOLDER
    encoder = _backend(settings, "embedder").load(folder, settings)
    fusion = importlib.import_module("evaluator.inference.fusion")
    return cast("Similarity", fusion.CentredCosines(encoder, folder))


def _backend(settings: EvaluatorSettings, part: str) -> Any:
    try:
        return importlib.import_module(f"evaluator.inference.{settings.backend}_{part}")
    except ModuleNotFoundError as error:
        raise WeightsError(
            f"The {settings.backend} backend needs the package {error.name}: install it, or set "
            "SELFCRAG_EVALUATOR_BACKEND to the other backend."
        ) from error


def load_scorers(settings: EvaluatorSettings) -> tuple[Scorer, ...]:
    """The evaluator and, where its folder is named, the reranker. Raises WeightsError."""
    scorer = load_scorer(settings)
    return (scorer, load_reranker(settings)) if settings.reranker else (scorer,)


def load_reranker(settings: EvaluatorSettings) -> Scorer:
    """The reranker of the settings, on PyTorch. Raises WeightsError."""
    return cast("Scorer", _pretrained("reranker", settings))


def load_embedder(settings: EvaluatorSettings) -> TextEmbedder | None:
    """The configured embedder, None where none is. Raises WeightsError."""
    folder = settings.embedder
    if folder and check_folder(folder, "embedder").get("architecture") == E5_ARCHITECTURE:
        return e5_embedder(settings)
    return cast("TextEmbedder | None", _pretrained("embedder", settings))


def e5_embedder(settings: EvaluatorSettings | None = None) -> TextEmbedder:
    """The configured embedder, which must be e5, or that of `e5_folder`; without torch.

    Raises EvaluatorError.
    """
    settings = settings or EvaluatorSettings()
    embedding = importlib.import_module("evaluator.inference.onnx_embedder")
    return cast("TextEmbedder", embedding.load(e5_folder(settings), settings))


def e5_folder(settings: EvaluatorSettings | None = None) -> Path:
    """Where `e5_embedder` looks: the one named, the checkpoint's own, or else the shipped one."""
    settings = settings or EvaluatorSettings()
    own = settings.weights / ENCODER_FOLDER
    return settings.embedder or (own if own.is_dir() else WEIGHTS / ENCODER_FOLDER)


def load_image_embedder(settings: EvaluatorSettings) -> ImageEmbedder | None:
    """The configured CLIP model, None where none is. Raises WeightsError."""
    return cast("ImageEmbedder | None", _pretrained("image_embedder", settings))


def load_language_model(settings: EvaluatorSettings) -> LanguageModel | None:
    """The configured compressor's language model, None where none is. Raises WeightsError."""
    return cast("LanguageModel | None", _pretrained("compressor", settings))


def _pretrained(part: str, settings: EvaluatorSettings) -> object:
    """What the setting `part` names, if anything; WeightsError says how to get what is absent."""
    folder = getattr(settings, part)
    if folder is None:
        return None
    try:
        loaders = importlib.import_module("evaluator.inference.pretrained").LOADERS
        return loaders[part](folder, settings)
    except ModuleNotFoundError as error:
        raise WeightsError(
            f"The {part} needs the package {error.name}: pip install 'self-crag[gpu]'."
        ) from error


def judgement(
    task: Task, logits: npt.NDArray[np.float32], span: Span | None = None
) -> RowScore | str:
    """One row's judgement from the logits of all reflection tokens, shape (13,)."""
    judged = judged_as(task)
    first = sum(len(LABELS[other]) for other in TASKS[: TASKS.index(judged)])
    own = logits[first : first + len(LABELS[judged])].astype(np.float64)
    if not np.isfinite(own).all():
        return NO_NUMBER
    weights = np.exp(own - own.max())
    shares = (weights / weights.sum()).tolist()
    probabilities = dict(zip(LABELS[judged], shares, strict=True))
    label = max(probabilities, key=probabilities.__getitem__)
    return RowScore(score_of(task, probabilities), label, probabilities, span)


def judgements(
    task: Task,
    rows: Sequence[Row],
    logits: npt.NDArray[np.float32],
    spans: npt.NDArray[np.float32] | None = None,
) -> list[RowScore | str]:
    """A batch's judgements, from logits (rows, 13) and, for `answer`, spans (rows, length, 2)."""
    if task != "answer" or spans is None:
        return [judgement(task, own) for own in logits]
    places = [answer_place(row, own) for row, own in zip(rows, spans, strict=True)]
    return [judgement(task, own, place) for own, place in zip(logits, places, strict=True)]


def answer_place(row: Row, spans: npt.NDArray[np.float32]) -> Span | None:
    """The likeliest answer's place in the row's second text, from logits (length, 2)."""
    first, last = best_span(spans[: len(row.ids)])
    if not last or not row.offsets:
        return None
    weights = np.exp(spans - spans.max(0))
    shares = weights / weights.sum(0)
    start, end = row.offsets[first - row.begins][0], row.offsets[last - row.begins][1]
    probability = float(shares[first, 0] * shares[last, 1])
    return Span(start=start, end=end, probability=round(probability, 6))


def best_span(spans: npt.NDArray[np.float32], most: int = 40) -> tuple[int, int]:
    """First and last token of the likeliest answer, (0, 0) for none; logits (length, 2)."""
    starts, ends = spans[:, 0], spans[:, 1]
    count = len(spans) - 1
    allowed = np.tri(count, k=most - 1, dtype=bool) & np.tri(count, dtype=bool).T
    pairs = np.where(allowed, starts[1:, None] + ends[None, 1:], -np.inf)
    start, end = np.unravel_index(int(pairs.argmax()), pairs.shape)
    if pairs[start, end] <= starts[0] + ends[0]:
        return 0, 0
    return int(start) + 1, int(end) + 1


def padded(rows: Sequence[HasIds], pad: int = 0) -> tuple[Ids, Ids]:
    """Token ids and mask of a batch, both (rows, longest); `pad` fills up on the right."""
    width = max(len(row.ids) for row in rows)
    ids = np.full((len(rows), width), pad, dtype=np.int64)
    mask = np.zeros_like(ids)
    for number, row in enumerate(rows):
        ids[number, : len(row.ids)] = row.ids
        mask[number, : len(row.ids)] = 1
    return ids, mask


def cut(ordered: Sequence[RowT], tokens: int) -> list[list[RowT]]:
    """Rows, shortest first, as batches of at most `tokens` padded; a longer row is alone."""
    batches: list[list[RowT]] = []
    for row in ordered:
        if not batches or (len(batches[-1]) + 1) * len(row.ids) > tokens:
            batches.append([])
        batches[-1].append(row)
    return batches


def in_batches(
    scorer: Scorer, task: Task, pairs: Sequence[tuple[str, str]], batch_tokens: int = BATCH_TOKENS
) -> list[RowScore | str]:
    """Each pair's judgement or reason, in order, without a worker; equal rows are scored once."""
    encoded = scorer.encode(task, pairs)
    rows = sorted({row: None for row in encoded if isinstance(row, Row)}, key=lambda r: len(r.ids))
    results: dict[Row, RowScore | str] = {}
    for batch in cut(rows, batch_tokens):
        results.update(zip(batch, scorer.forward(task, batch), strict=True))
    return [row if isinstance(row, str) else results[row] for row in encoded]


def scores_of(scorer: Scorer) -> Scores:
    """The scorer's scores of a task; a pair that it refuses scores as low as can be."""

    def scores(task: Task, pairs: Sequence[tuple[str, str]]) -> list[float]:
        results = in_batches(scorer, task, pairs)
        return [-1.0 if isinstance(result, str) else result.score for result in results]

    return scores
