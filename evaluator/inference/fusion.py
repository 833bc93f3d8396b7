"""Fusion: relevance from the T5's reading across two texts and from e5's of each alone.

The pretrained encoder has seen far more text than the T5, but takes near texts for answers. Where a
text repeats the question, as one does that says "nobody knows", its cosine counts for less and the
T5's doubt for more. Cosines are centred for each question on its mean to fixed passages of both
languages: one question is near to anything, another to nothing (score normalisation, Auckenthaler
et al. 2000). What comes out is made a probability (Platt).

Whether a question needs retrieval at all is told by a linear layer over e5's vector of it.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from math import exp, log
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evaluator.errors import WeightsError
from evaluator.inference.scorer import InputType, Scorer, Similarity, TextEmbedder, Vectors
from evaluator.model.checkpoint import CENTRE_FILE, FUSION_FILE, NEED_FILE
from evaluator.schema import LABELS, Row, RowScore, Task, judged_as, score_of

FARTHEST = 9.0
KEPT_TEXTS, KEPT_QUESTIONS = 20_000, 500
"""Vectors of those met last, 15 MB at width 384: passages are met again, most questions never."""


class FusionWeights(BaseModel):
    """`fusion.json`: the logit of "it answers" is scale x evidence + shift.

    evidence = T5 + similarity x (near - repetition x more) + doubt x min(T5, 0) x more, where T5 is
    its logit, within 9 of 0, near the cosine of question and text, and more what the cosine of the
    text and the question read as a text has above `free`. `calibrate` finds scale and shift; the
    rest was chosen by hand on calibration questions.
    """

    model_config = ConfigDict(extra="forbid")

    similarity: float = Field(default=60.0, ge=0)
    repetition: float = Field(default=0.5, ge=0)
    doubt: float = Field(default=8.0, ge=0)
    free: float = 0.13
    scale: float = Field(default=1.0, gt=0)
    shift: float = 0.0
    questions: int = Field(default=0, description="Questions that scale and shift were found on.")

    def evidence(self, own: float, near: float, again: float) -> float:
        """The evidence that a text answers, from the T5's probability and e5's two cosines."""
        bounded = min(max(own, 1e-9), 1 - 1e-9)
        logit = min(max(log(bounded / (1 - bounded)), -FARTHEST), FARTHEST)
        more = max(again - self.free, 0.0)
        nearness = self.similarity * (near - self.repetition * more)
        return logit + nearness + self.doubt * min(logit, 0.0) * more

    def chance(self, own: float, near: float, again: float) -> float:
        """The probability that the text answers."""
        return 1 / (1 + exp(-(self.scale * self.evidence(own, near, again) + self.shift)))


class CentredCosines:
    """Centred cosines of questions and texts; vectors are kept."""

    def __init__(self, encoder: TextEmbedder, folder: Path) -> None:
        """Raises WeightsError where the encoder's folder holds no centre."""
        self._encoder = encoder
        try:
            self._centre: Vectors = np.load(folder / CENTRE_FILE, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise WeightsError(f"{folder / CENTRE_FILE} cannot be read: {error}") from error
        need = folder / NEED_FILE
        self._need: Vectors | None = np.load(need, allow_pickle=False) if need.is_file() else None
        self._texts = _VectorCache(KEPT_TEXTS)
        self._questions = _VectorCache(2 * KEPT_QUESTIONS)  # each is read as a text, too
        self._lock = threading.Lock()

    def of(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, float]]:
        """Of each pair how near question and text are, and how far the text says it again.

        Cosines, less the mean cosine to the fixed passages; the second reads both as passages.
        """
        texts = self._vectors("passage", [text for _, text in pairs], self._texts) - self._centre
        firsts = [first for first, _ in pairs]
        near, again = (
            np.einsum("ij,ij->i", self._vectors(kind, firsts, self._questions), texts)
            for kind in ("query", "passage")
        )
        return list(zip(near.tolist(), again.tolist(), strict=True))

    def needs(self, questions: Sequence[str]) -> Sequence[float | None]:
        """The logit that each question needs retrieval."""
        if self._need is None:
            return [None] * len(questions)
        logits = (
            self._vectors("query", questions, self._questions) @ self._need[:-1] + self._need[-1]
        )
        return [float(logit) for logit in logits]

    def _vectors(self, kind: InputType, texts: Sequence[str], cache: "_VectorCache") -> Vectors:
        with self._lock:
            known = {text: cache.vectors.get((kind, text)) for text in texts}
        new = [text for text, vector in known.items() if vector is None]
        made = self._encoder.embed(new, kind)[0].astype(np.float16)
        with self._lock:
            # Copies: a row would keep its whole batch.
            for text, vector in [*known.items(), *zip(new, map(np.copy, made), strict=True)]:
                if vector is not None:
                    known[text] = vector
                    cache.put((kind, text), vector)
        return np.array([known[text] for text in texts], dtype=np.float32).reshape(len(texts), -1)


class _VectorCache:
    """The vectors met last, `most` of them, by text and what it was read as."""

    def __init__(self, most: int) -> None:
        self.vectors: OrderedDict[tuple[InputType, str], Vectors] = OrderedDict()
        self._most = most

    def put(self, key: tuple[InputType, str], vector: Vectors) -> None:
        self.vectors[key] = vector
        self.vectors.move_to_end(key)
        while len(self.vectors) > self._most:
            self.vectors.popitem(last=False)


class FusedScorer:
    """A scorer whose relevance is fused with the encoder's.

    The encoder alone tells whether a question needs retrieval. Other tasks pass unchanged, and so
    does that one where there is evidence at hand.
    """

    def __init__(self, scorer: Scorer, similarity: Similarity, weights: FusionWeights) -> None:
        self.name, self.digest, self.tasks = scorer.name, scorer.digest, scorer.tasks
        self._scorer, self._similarity, self._weights = scorer, similarity, weights

    def encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        rows = self._scorer.encode(task, pairs)
        if task == "retrieval":
            alone = [question for question, evidence in pairs if not evidence.strip()]
            needs = dict(zip(alone, self._similarity.needs(alone) if alone else [], strict=True))
            return [
                row if isinstance(row, str) or evidence.strip()
                else replace(row, need=needs[question])
                for row, (question, evidence) in zip(rows, pairs, strict=True)
            ]  # fmt: skip
        if judged_as(task) != "relevance":
            return rows
        readable = [pair for pair, row in zip(pairs, rows, strict=True) if isinstance(row, Row)]
        cosines = iter(self._similarity.of(readable) if readable else [])
        return [
            replace(row, cosines=next(cosines)) if isinstance(row, Row) else row for row in rows
        ]

    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        if task == "retrieval":
            left = [row for row in rows if row.need is None]
            read = iter(self._scorer.forward(task, left) if left else [])
            return [next(read) if row.need is None else _needs(row.need) for row in rows]
        scores = self._scorer.forward(task, rows)
        if judged_as(task) != "relevance":
            return scores
        return [
            self._fused(task, score, row) if isinstance(score, RowScore) else score
            for score, row in zip(scores, rows, strict=True)
        ]

    def _fused(self, task: Task, score: RowScore, row: Row) -> RowScore:
        own = score.probabilities[LABELS["relevance"][0]]
        answers = self._weights.chance(own, *row.cosines)
        probabilities = dict(zip(LABELS["relevance"], (answers, 1 - answers), strict=True))
        label = max(probabilities, key=probabilities.__getitem__)
        fused = score_of(task, probabilities)
        return RowScore(fused, label, probabilities, score.span, similarity=row.cosines[0])


def _needs(logit: float) -> RowScore:
    chance = 1 / (1 + exp(-logit))
    shares = dict(zip(LABELS["retrieval"], (chance, 1 - chance, 0.0), strict=True))
    label = max(shares, key=shares.__getitem__)
    return RowScore(score_of("retrieval", shares), label, shares, None)


def load_weights(folder: Path) -> FusionWeights:
    """The folder's `fusion.json`; without it the T5 reads alone. Raises WeightsError."""
    path = folder / FUSION_FILE
    try:
        return FusionWeights.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise WeightsError(f"{path} cannot be read: {error}") from error
