"""The CRAG paper's recipe for any local T5: a score regressed onto +1 and -1 (section 4.2).

Input `question [SEP] passage`, mean squared error, AdamW at 1e-4 falling in a line, gradients
clipped at 1, 512 tokens. The result has the authors' form, which the worker serves as it is.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import T5ForSequenceClassification

from evaluator.errors import WeightsError
from evaluator.inference.pretrained import folder_digest, load_network
from evaluator.inference.torch_scorer import load_tokenizer
from evaluator.training.finetune import FinetuneOptions, Subject, finetune
from evaluator.training.loop import Say

NAME = "CRAG, section 4.2"


@dataclass(frozen=True)
class RecipeOptions(FinetuneOptions):
    """The paper's values are the defaults."""


def train_recipe(
    data: Path, t5: Path, out: Path, work: Path, options: RecipeOptions, say: Say
) -> dict[str, Any]:
    """Train the T5 in folder `t5` on `data`; write tensors, tokenizer and made_by.json to `out`.

    Returns what made_by.json holds. Pairs the T5's tokenizer cannot read (Chinese, to the
    original T5) are left out and counted. A killed run goes on from `work`. Raises
    WeightsError for the T5, DataError for the data or a checkpoint of another run.
    """
    _check_is_t5(t5)
    torch.manual_seed(options.seed)
    subject = Subject(
        name="recipe",
        network=load_network(
            T5ForSequenceClassification, t5, new=("classification_head.",), num_labels=1
        ),
        tokenizer=load_tokenizer(t5),
        as_one_text=True,
        negative=-1.0,
        loss_of=nn.functional.mse_loss,
        origin={"recipe": NAME, "t5": folder_digest(t5)},
    )
    return finetune(data, subject, out, work, options, say)


def _check_is_t5(folder: Path) -> None:
    path = folder / "config.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError) as error:
        raise WeightsError(f"{path} cannot be read: {error}") from error
    if found != "t5":
        raise WeightsError(f"{folder} holds a model of type {found} where a t5 is needed.")
