"""How near two texts are in what an encoder that reads each for itself makes of them."""

import torch
from torch import Tensor, nn

from evaluator.model.matching import best_window, leading, share, window_means
from evaluator.model.tokenization import SEPARATOR, SPECIAL_TOKENS

CLOSENESS = 4
SIDES = 3  # texts in a row, at most


def sides_of(ids: Tensor) -> Tensor:
    """Which text each token belongs to: 0, 1, 2; a separator ends its text. (batch, length)."""
    ends = (ids == SEPARATOR).long()
    return torch.cumsum(ends, dim=1) - ends


def places_of(sides: Tensor) -> Tensor:
    """Each token's place in its own text, shape (batch, length)."""
    before = (sides.unsqueeze(1) < sides.unsqueeze(2)).sum(2)
    return torch.arange(sides.shape[1], device=sides.device) - before


def mean_of(states: Tensor, sides: Tensor, mask: Tensor, side: int) -> Tensor:
    """A text's mean state, as sentence encoders pool: (batch, width)."""
    kept = ((sides == side) & mask.bool()).float().unsqueeze(2)
    return (states * kept).sum(1) / kept.sum(1).clamp(min=1)


def closeness(ids: Tensor, states: Tensor, sides: Tensor, mask: Tensor, weight: Tensor) -> Tensor:
    """Four cosines of the first text with the second, shape (batch, CLOSENESS).

    Of the means; of the first's mean with the second's best window; of tokens with their best
    match (late interaction), over the whole second text and in its best window.
    """
    unit = nn.functional.normalize
    first = unit(mean_of(states, sides, mask, 0), dim=-1)
    second = unit(mean_of(states, sides, mask, 1), dim=-1)
    text = ids >= len(SPECIAL_TOKENS)
    told = (text & (sides == 1)).float()
    windows = unit(window_means((states * told.unsqueeze(2)).transpose(1, 2)), dim=1)
    near = torch.matmul(first.unsqueeze(1), windows).squeeze(1).amax(1)
    tokens = unit(states, dim=-1)
    asked = leading((text & (sides == 0)).float())
    across = asked.unsqueeze(2) * told.unsqueeze(1)
    alike = torch.matmul(leading(tokens), tokens.transpose(1, 2)).clamp(min=0) * across
    w = leading(weight) * asked
    whole = share(alike.amax(2), w)
    return torch.stack([(first * second).sum(1), near, whole, best_window(alike, w)], dim=-1)
