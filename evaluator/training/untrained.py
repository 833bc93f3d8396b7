"""The pretrained encoder, untrained, as a baseline: its cosines tell what training is worth."""

from collections.abc import Iterable, Sequence
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
        known = list(zip(*sides, strict=True))
        vectors = self._vectors(dict.fromkeys(chain.from_iterable(known)))
        return [
            float(vectors[first] @ vectors[second]) if all(map(str.strip, pair)) else -1.0
            for pair, (first, second) in zip(pairs, known, strict=True)
        ]

    @torch.no_grad()
    def _vectors(self, texts: Iterable[Row]) -> dict[Row, Tensor]:
        """Each text's mean state of length 1, (width,), by the encoder's own prefixes."""
        ordered, vectors = sorted(texts, key=lambda row: len(row.ids)), dict[Row, Tensor]()
        for first in range(0, len(ordered), _BATCH):
            rows = ordered[first : first + _BATCH]
            ids, mask = (torch.from_numpy(part).to(self._device) for part in padded(rows))
            with autocast(self._device):
                vectors.update(zip(rows, self._encoder(ids, mask).float().cpu(), strict=True))
        return vectors


whole_encoder = cache(UntrainedEncoder)  # with its whole vocabulary, read once


def cosines(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """The cosine of each pair's texts by the encoder with its whole vocabulary, untrained."""
    return whole_encoder().cosines(pairs)
