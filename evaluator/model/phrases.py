"""Pairs and triples of neighbouring tokens of the first text, hashed into one table.

How a request is phrased tells much of whether it needs retrieval, in Chinese most of all, where
the layers that read each text know little; fastText's way (Joulin et al., arXiv 1607.01759).
"""

import torch
from torch import Tensor, nn

from evaluator.model.tokenization import SPECIAL_TOKENS

PLACES, WIDTH = 32_768, 32
_FACTORS = (40_503, 10_007, 30_011)


class Phrases(nn.Module):
    """Mean vector of the first text's phrases times √ of their number: (batch, WIDTH)."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(PLACES, WIDTH)
        nn.init.normal_(self.table.weight, std=0.1)

    def forward(self, ids: Tensor, sides: Tensor) -> Tensor:
        kept = (sides == 0) & (ids >= len(SPECIAL_TOKENS))
        found, held = [], []
        for size in (2, 3):
            last = ids.shape[1] - size + 1
            code = sum(
                (
                    factor * ids[:, start : start + last]
                    for start, factor in enumerate(_FACTORS[:size])
                ),
                torch.full_like(ids[:, :last], size),
            )
            found.append(code % PLACES)
            inside = torch.stack([kept[:, start : start + last] for start in range(size)])
            held.append(inside.all(0))
        weight = torch.cat(held, dim=1).float().unsqueeze(2)
        vectors = self.table(torch.cat(found, dim=1)) * weight
        phrases: Tensor = vectors.sum(1) * torch.rsqrt(weight.sum(1).clamp(min=1))
        return phrases
