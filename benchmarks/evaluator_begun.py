"""Variants of the network that training begins with, for benchmarks/evaluator_ingredients.py."""

import copy
from collections.abc import Sequence
from dataclasses import replace

import torch
from tokenizers import Tokenizer
from torch import nn

from evaluator.model.t5 import EvaluatorModel
from evaluator.training.examples import Example, batch_tensors
from evaluator.training.minilm_transplant import embeddings, idf, transplant

FITTED_ON = 240


class Begun:
    """One beginning, of which others are made."""

    def __init__(self, begun: EvaluatorModel, tokenizer: Tokenizer) -> None:
        self._begun, self._tokenizer = begun, tokenizer

    def with_layers(self, own_layers: int, fitted_on: Sequence[Example]) -> EvaluatorModel:
        """The same words and coverage with other layers; left at random where none to fit on."""
        changed = EvaluatorModel(replace(self._begun.config, own_layers=own_layers, joint_layers=1))
        same = {
            name: value
            for name, value in self._begun.state_dict().items()
            if name.startswith(("words.", "interaction.", "coverage."))
        }
        changed.load_state_dict(same, strict=False)
        if fitted_on:
            positives = [e for e in fitted_on if e.kind == "positive"][:FITTED_ON]
            ids, mask = batch_tensors(positives)
            transplant(changed, self._tokenizer, ids, mask)
        return changed.eval()


def anew(
    begun: EvaluatorModel, tokenizer: Tokenizer, texts: Sequence[str], *, distilled: bool
) -> EvaluatorModel:
    """A copy whose coverage measures are to be fitted again, all of them from their start.

    Its words are those that learnt from MiniLM's vectors of whole texts, or as they were before.
    """
    again = copy.deepcopy(begun).train()
    matching = again.interaction
    for part in (*again.coverage, matching.asks, matching.offers):
        if isinstance(part, nn.Linear):
            part.reset_parameters()
    rarity = torch.from_numpy(idf(tokenizer, texts))
    with torch.no_grad():
        matching.token_weight.copy_(rarity)
        matching.turn.copy_(torch.eye(begun.config.d_words))
        matching.ask_weight.fill_(1)
        if not distilled:
            table = embeddings(tokenizer, begun.config.cjk_start, texts, begun.config.d_words)
            again.words.weight.copy_(torch.from_numpy(table))
            matching.pool_weight.copy_(rarity.clamp(min=0.02))
    return again
