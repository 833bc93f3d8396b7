"""The CRAG paper's recipe for any local T5: a score regressed onto +1 and -1 (section 4.2).

Input `question [SEP] passage`, mean squared error, AdamW at 1e-4 falling in a line, gradients
clipped at 1, 512 tokens. The result has the authors' form, which the worker serves as it is.
"""

import json
import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from transformers import T5ForSequenceClassification

from evaluator.data.records import HELD_BACK_PERCENT, digests, read_folder, split
from evaluator.errors import DataError, WeightsError
from evaluator.inference.scorer import cut
from evaluator.inference.torch_scorer import T5PairTokenizer, load_network, load_tokenizer
from evaluator.model.checkpoint import files_digest
from evaluator.schema import Row
from evaluator.training.relevance_pairs import Pair, pairs_of
from evaluator.training.train import Log, batch_tensors, fit

NAME = "CRAG, section 4.2"
MADE_BY_FILE = "made_by.json"
CHECKPOINT = "recipe.pt"
MAX_CHECKED = 2000  # validation pairs a check; all of them at the end
_MAX_UNKNOWN = 0.1  # of a row's tokens: T5 knows no Chinese, and rows of <unk> teach nothing


@dataclass(frozen=True)
class RecipeOptions:
    """What decides a run, the paper's values by default; part of a checkpoint's identity."""

    seed: int = 1
    minutes: float = math.inf
    rows: int = 150_000  # pairs read in all, one as often as it is read
    batch_tokens: int = 8192  # padded
    learning_rate: float = 1e-4
    max_length: int = 512
    held_back_percent: int = HELD_BACK_PERCENT
    warmup_steps: int = 0
    check_every: int = 1000


@dataclass(frozen=True, slots=True)
class PairRow:
    """A pair as token ids, with target 1 or -1."""

    ids: tuple[int, ...]
    target: float
    source: str


def train_recipe(
    data: Path, t5: Path, out: Path, work: Path, options: RecipeOptions, log: Log
) -> dict[str, Any]:
    """Train the T5 in folder `t5` on `data`; write tensors, tokenizer and made_by.json to `out`.

    Returns what made_by.json holds. Pairs the T5's tokenizer cannot read (Chinese, to the
    original T5) are left out and counted. A killed run goes on from its
    checkpoint in `work`. Raises WeightsError for the T5, DataError for unusable data or a
    checkpoint of another run.
    """
    _check_is_t5(t5)
    torch.manual_seed(options.seed)
    network = load_network(
        T5ForSequenceClassification, t5, "a T5", new=("classification_head.",), num_labels=1
    )
    tokenizer = load_tokenizer(t5)
    known, held_back = _pairs(data, options)
    rows, check = (_rows(tokenizer, options.max_length, pairs) for pairs in (known, held_back))
    log(f"{len(rows)} training and {len(check)} validation pairs can be read")
    network.to("cuda" if torch.cuda.is_available() else "cpu")
    learner = RelevanceLearner(network, check, options)
    stored = {n: None if value == math.inf else value for n, value in asdict(options).items()}
    patterns = ("*.safetensors", "*.json", "*.model")  # tensors, config and tokenizer
    of_t5 = files_digest(path for pattern in patterns for path in sorted(t5.glob(pattern)))
    origin = {"recipe": NAME, "t5": of_t5}
    identity = {**origin, "options": stored, "data": digests(data)}
    groups = [(row,) for row in rows]
    story = fit(learner, groups, options, work / CHECKPOINT, identity, log)
    made_by = {
        **identity,
        "training": {"pairs": len(rows), "unreadable": len(known) - len(rows), **story},
        "validation": learner.figures(check),
    }
    network.save_pretrained(out)
    tokenizer.save_pretrained(out)
    text = json.dumps(made_by, indent=2, ensure_ascii=False, allow_nan=False)
    (out / MADE_BY_FILE).write_text(text + "\n", encoding="utf-8")
    log(f"weights written to {out}")
    return made_by


def _check_is_t5(folder: Path) -> None:
    path = folder / "config.json"
    try:
        model_type = json.loads(path.read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path} cannot be read: {error}") from error
    if model_type != "t5":
        raise WeightsError(f"{folder} holds a model of type {model_type} where a t5 is needed.")


def _pairs(data: Path, options: RecipeOptions) -> tuple[list[Pair], list[Pair]]:
    known, held_back = split(read_folder(data), options.held_back_percent)
    train = pairs_of(known, options.seed)
    check = [pair for pair in pairs_of(held_back, options.seed) if pair.kind != "random"]
    if not train or not check:
        raise DataError(f"{data} gives no pairs for training or none for validation.")
    return train, check


def _rows(tokenizer: Any, max_length: int, pairs: Sequence[Pair]) -> list[PairRow]:
    """The pairs the tokenizer can read."""
    encoded = T5PairTokenizer(tokenizer, max_length).encode(
        [(pair.question, pair.passage) for pair in pairs]
    )
    return [
        PairRow(row.ids, 1.0 if pair.relevant else -1.0, pair.source)
        for row, pair in zip(encoded, pairs, strict=True)
        if isinstance(row, Row)
        and row.ids.count(tokenizer.unk_token_id) <= _MAX_UNKNOWN * len(row.ids)
    ]


class RelevanceLearner:
    """Teaches one logit a pair; its figure is the mean of the sources' AUC on held-back pairs."""

    def __init__(self, network: Any, check: Sequence[PairRow], options: RecipeOptions) -> None:
        self.network: nn.Module = network
        self._options = options
        sample = random.Random(0).sample(list(check), min(len(check), MAX_CHECKED))
        self._check = sample if _both_labels(sample) else check

    def groups(self) -> list[dict[str, Any]]:
        return [{"params": list(self.network.parameters()), "lr": self._options.learning_rate}]

    def loss(self, batch: Sequence[tuple[PairRow, ...]]) -> Tensor:
        rows = [row for group in batch for row in group]
        scores = self._scores(rows)
        targets = torch.tensor([row.target for row in rows])
        return nn.functional.mse_loss(scores, targets.to(scores.device))

    def _scores(self, batch: Sequence[PairRow]) -> Tensor:
        """Of one batch, shape (rows,), in float32 on the network's device."""
        device = next(self.network.parameters()).device
        ids, mask = (part.to(device) for part in batch_tensors(batch))
        logits: Tensor = self.network(input_ids=ids, attention_mask=mask).logits
        return logits[:, 0].float()

    def validation(self) -> tuple[float, str]:
        figures = self.figures(self._check)
        words = ", ".join(f"{name} {figure['auc']:.3f}" for name, figure in figures.items())
        return float(np.mean([figure["auc"] for figure in figures.values()])), f"AUC {words}"

    @torch.no_grad()
    def figures(self, check: Sequence[PairRow]) -> dict[str, dict[str, float]]:
        """AUC by source and the pairs it stands on; DataError where no source has both labels."""
        ordered = sorted(check, key=lambda row: len(row.ids))
        batches = cut(ordered, self._options.batch_tokens)
        scores = [score for batch in batches for score in self._scores(batch).tolist()]
        figures: dict[str, dict[str, float]] = {}
        for source in _both_labels(check):
            mine = [i for i, row in enumerate(ordered) if row.source == source]
            auc = float(roc_auc_score([ordered[i].target for i in mine], [scores[i] for i in mine]))
            figures[source] = {"auc": round(auc, 4), "pairs": len(mine)}
        if not figures:
            raise DataError("No source has both relevant and irrelevant pairs to validate on.")
        return figures


def _both_labels(rows: Sequence[PairRow]) -> list[str]:
    """The sources with relevant and irrelevant rows, sorted."""
    relevant = {row.source for row in rows if row.target > 0}
    return sorted(relevant & {row.source for row in rows if row.target < 0})
