"""The pretrained encoder, untrained, as a baseline: its cosines tell what training is worth."""

from collections.abc import Sequence
from functools import cache
from itertools import chain

import torch
from tokenizers import Tokenizer
from torch import Tensor

from evaluator.inference.scorer import padded
from evaluator.model.t5 import autocast
from evaluator.model.tokenization import PairTokenizer
from evaluator.schema import Row
from evaluator.training.pretrained_encoder import untrained

MAX_TOKENS = 512
_BATCH = 16
Ids = tuple[int, ...]


class UntrainedEncoder:
    """multilingual-e5-small with a tokenizer's vocabulary, or its own."""

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        network, tokenizer = untrained(tokenizer)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        kind = "eager" if self._device.type == "cpu" else "sdpa"
        network.t5.encoder.set_attn_implementation(kind)
        self._encoder = network.to(self._device).requires_grad_(False)
        self._tokenizer = PairTokenizer(tokenizer, MAX_TOKENS)

    def cosines(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The cosine of each pair's texts; -1 for a pair that cannot be read."""
        sides = [
            self._tokenizer.encode_alone([pair[side] for pair in pairs], are_questions=side == 0)
            for side in (0, 1)
        ]
        known = [(first.ids, second.ids) for first, second in zip(*sides, strict=True)]
        places = {
            text: place for place, text in enumerate(dict.fromkeys(chain.from_iterable(known)))
        }
        vectors = self._vectors(list(places)).cpu() if places else torch.empty(0)
        return [
            float(vectors[places[first]] @ vectors[places[second]])
            if all(map(str.strip, pair))
            else -1.0
            for pair, (first, second) in zip(pairs, known, strict=True)
        ]

    @torch.no_grad()
    def _vectors(self, texts: Sequence[Ids]) -> Tensor:
        """Mean states of length 1, (texts, width), by the encoder's own prefixes."""
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        parts = []
        for first in range(0, len(order), _BATCH):
            rows = [Row(texts[place]) for place in order[first : first + _BATCH]]
            ids, mask = (torch.from_numpy(part).to(self._device) for part in padded(rows))
            with autocast(self._device):
                parts.append(self._encoder(ids, mask).float())
        back = torch.empty(len(order), dtype=torch.long)
        back[torch.tensor(order)] = torch.arange(len(order))
        return torch.cat(parts)[back.to(self._device)]


whole_encoder = cache(UntrainedEncoder)  # with its whole vocabulary, read once


def cosines(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """The cosine of each pair's texts by the encoder with its whole vocabulary, untrained."""
    return whole_encoder().cosines(pairs)
