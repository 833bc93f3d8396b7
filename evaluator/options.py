"""What decides a training run; stored in the weights' config."""

from dataclasses import dataclass, field
from typing import Literal

Part = Literal["relevance", "support", "utility", "evidence", "need"]
"""A task's rows; retrieval's with evidence at hand and without are two parts."""

SHARES: dict[Part, float] = {"support": 0.28, "utility": 0.22, "evidence": 0.1, "need": 0.4}
"""Relevance is left to the measures: on data sets left out of training, what the decoder learnt
of relevance from SQuAD-like questions took from them what they know of natural ones."""


@dataclass(frozen=True)
class TrainOptions:
    """The defaults are what the shipped weights were trained with."""

    seed: int = 1
    minutes: float = 60.0
    rows: int = 60_000
    batch_tokens: int = 3072
    train_length: int = 192
    own_layers: int = 6
    joint_layers: int = 1
    learning_rate: float = 1e-3
    nearness_rows: int = 9000
    init: Literal["minilm", "none"] = "minilm"
    negatives: Literal["mined", "random"] = "mined"
    languages: tuple[str, ...] = ("en", "zh")
    shares: dict[Part, float] = field(default_factory=lambda: dict(SHARES))
    teacher_share: float = 0.0
    teacher: str = ""
    distil_steps: int = 600
    coverage_steps: int = 1500
    coverage_tokens: int = 8192
    held_back_percent: int = 6
    judgements: int = 6000
    check_every: int = 400
    patience: int = 0
    least_count: int = 2
    precision: Literal["fp32", "bf16"] = "bf16"
