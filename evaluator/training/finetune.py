"""Fine-tunes a pre-trained transformer to one logit a pair, from a data folder to weights."""

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from evaluator.data.hard_negatives import Meaning
from evaluator.data.relevance_pairs import Pair, pairs_of, split
from evaluator.data.relevance_records import digests, read_folder
from evaluator.errors import DataError
from evaluator.inference.pretrained import PairEncoder, PairRow, asked, logits_of
from evaluator.training.loop import Say, Schedule, fit

MADE_BY_FILE = "made_by.json"
CHECKED = 2000  # validation pairs a check; all of them at the end

LossOf = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class FinetuneOptions:
    """What decides a run; stored beside the weights and part of a checkpoint's identity."""

    seed: int = 1
    minutes: float = math.inf
    pairs: int = 150_000  # read in all, one as often as it is read
    batch_tokens: int = 8192  # padded
    learning_rate: float = 1e-4
    warmup_steps: int = 0
    max_length: int = 512
    held_back_percent: int = 6
    check_every: int = 1000
    patience: int = 0
    precision: Literal["fp32", "bf16"] = "bf16"  # bf16 counts on a GPU alone
    use_minilm: bool = True


@dataclass(frozen=True)
class Subject:
    """What is fine-tuned, on which pairs and to which end; `name` is its checkpoint's."""

    name: str
    network: Any  # a transformer with one logit; its tokenizer may be any of transformers'
    tokenizer: Any
    as_one_text: bool
    negative: float  # target of an irrelevant pair; a relevant one's is 1
    loss_of: LossOf
    origin: dict[str, Any]  # where it comes from, digest included
    languages: tuple[str, ...] = ("en", "zh")


def finetune(
    data: Path, subject: Subject, out: Path, work: Path, options: FinetuneOptions, say: Say
) -> dict[str, Any]:
    """Fine-tune on `data`; write tensors, tokenizer and made_by.json (returned too) to `out`.

    A killed run goes on from its checkpoint in `work`, where mined vectors lie too. Raises
    DataError for unusable data or a checkpoint of another run.
    """
    known, held_back = _pairs(data, work, subject.languages, options)
    encoder = PairEncoder(subject.tokenizer, options.max_length, as_one_text=subject.as_one_text)
    rows = encoder.examples(known, subject.negative)
    check = encoder.examples(held_back, subject.negative)
    say(f"{len(rows)} training and {len(check)} validation pairs can be read")
    subject.network.to("cuda" if torch.cuda.is_available() else "cpu")
    learner = PairLearner(subject, check, options)
    identity = {**subject.origin, "options": _as_json(options), "data": digests(data)}
    state = fit(learner, rows, _schedule(options), work / f"{subject.name}.pt", identity, say)
    made_by = {
        **identity,
        "training": {"pairs": len(rows), "unreadable": len(known) - len(rows), **state},
        "validation": learner.figures(check),
    }
    subject.network.save_pretrained(out)
    subject.tokenizer.save_pretrained(out)
    text = json.dumps(made_by, indent=2, ensure_ascii=False, allow_nan=False)
    (out / MADE_BY_FILE).write_text(text + "\n", encoding="utf-8")
    say(f"weights written to {out}")
    return made_by


def _pairs(
    data: Path, work: Path, languages: Sequence[str], options: FinetuneOptions
) -> tuple[list[Pair], list[Pair]]:
    records = [record for record in read_folder(data) if record.language in languages]
    known, held_back = split(records, options.held_back_percent)
    meaning = Meaning(work) if options.use_minilm else None
    train = pairs_of(known, options.seed, meaning)
    check = pairs_of(held_back, options.seed, meaning, hard_only=True)
    if not train or not check:
        raise DataError(f"{data} gives no pairs for training or none for validation.")
    return train, check


def _schedule(options: FinetuneOptions) -> Schedule:
    return Schedule(
        seed=options.seed,
        batch_tokens=options.batch_tokens,
        most_rows=options.pairs,
        minutes=options.minutes,
        warmup_steps=options.warmup_steps,
        check_every=options.check_every,
        patience=options.patience,
        precision=options.precision,
    )


def _as_json(options: FinetuneOptions) -> dict[str, Any]:
    return {name: None if value == math.inf else value for name, value in asdict(options).items()}


class PairLearner:
    """Teaches one logit a pair; its figure is the mean of the sources' AUC on held-back pairs."""

    def __init__(
        self, subject: Subject, check: Sequence[PairRow], options: FinetuneOptions
    ) -> None:
        self.network: nn.Module = subject.network
        self._loss_of, self._options = subject.loss_of, options
        sample = random.Random(0).sample(list(check), min(len(check), CHECKED))
        self._check = sample if _both_labels(sample) else check

    def groups(self) -> list[dict[str, Any]]:
        return [{"params": list(self.network.parameters()), "lr": self._options.learning_rate}]

    def loss(self, batch: Sequence[PairRow]) -> Tensor:
        logits = logits_of(self.network, batch)[:, 0]
        targets = torch.tensor([row.target for row in batch])
        return self._loss_of(logits, targets.to(logits.device))

    def validation(self) -> tuple[float, str]:
        figures = self.figures(self._check)
        words = ", ".join(f"{name} {figure['auc']:.3f}" for name, figure in figures.items())
        return float(np.mean([figure["auc"] for figure in figures.values()])), f"AUC {words}"

    def figures(self, check: Sequence[PairRow]) -> dict[str, dict[str, float]]:
        """AUC by source and the pairs it stands on; DataError where no source has both labels."""
        logits = asked(self.network, check, self._options.batch_tokens)[:, 0].numpy()
        found: dict[str, dict[str, float]] = {}
        for source in _both_labels(check):
            mine = [i for i, row in enumerate(check) if row.source == source]
            auc = float(roc_auc_score([check[i].target for i in mine], logits[mine]))
            found[source] = {"auc": round(auc, 4), "pairs": len(mine)}
        if not found:
            raise DataError("No source has both relevant and irrelevant pairs to validate on.")
        return found


def _both_labels(rows: Sequence[PairRow]) -> list[str]:
    """The sources with relevant and irrelevant rows, sorted."""
    kinds = {(row.source, row.target) for row in rows}
    sources = sorted({source for source, _ in kinds})
    return [s for s in sources if sum(source == s for source, _ in kinds) == 2]
