"""What decides a training run; stored in the weights' config."""

from dataclasses import dataclass, field
from typing import Literal

Part = Literal["natural", "support", "utility", "evidence", "need"]
"""What rows are drawn by. Support and utility that a data set itself labels are `natural`, made
ones go by their task; retrieval's rows with evidence at hand and without are two parts."""

SHARES: dict[Part, float] = {
    "natural": 0.18, "support": 0.14, "utility": 0.12, "evidence": 0.08, "need": 0.48,
}  # fmt: skip
"""Rows of `need` are a fifth as long as others. Relevance is left to the measures: in two trials
the decoder brought nothing that they do not say."""


@dataclass(frozen=True)
class TrainOptions:
    """How a run goes; the model card tells what the shipped weights' run was given."""

    seed: int = 1
    minutes: float = 60.0
    rows: int = 70_000
    batch_tokens: int = 3072
    train_length: int = 192
    own_layers: int = 6
    joint_layers: int = 2
    learning_rate: float = 1e-3
    nearness_rows: int = 9000
    init: Literal["minilm", "none"] = "minilm"
    languages: tuple[str, ...] = ("en", "zh")
    shares: dict[Part, float] = field(default_factory=lambda: dict(SHARES))
    distil_steps: int = 600
    coverage_steps: int = 1500
    coverage_tokens: int = 8192
    held_back_percent: int = 6
    judgements: int = 10_000
    check_every: int = 400
    min_count: int = 2  # of a Chinese character in the training text
