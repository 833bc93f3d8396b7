"""Interaction features of a pair: token matches, cosines of encoder states, hashed phrases.

Arithmetic without layers, differentiable, and the same in PyTorch and ONNX.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from evaluator.model.tokenization import SEPARATOR, SPECIAL_TOKENS

WINDOW, STRIDE = 40, 8  # tokens of a passage window, and between two windows' starts
QUESTION = 65  # positions compared with the passage: the task's token and 64 of the question
TOKEN_FEATURES, PAIR_FEATURES = 9, 17
CHINESE = 13  # place of the pair feature that says how much of the first text is Chinese
BEST_KINDS = (14, 15)  # places of those that say how well the best word fits what is asked for
NONE = -6.0  # stands where no passage token is
KINDS = 16  # width in which what is asked for meets what is offered
CLOSENESS = 4  # cosines of a pair
SIDES = 3  # texts in a row, at most
PHRASE_BUCKETS, PHRASE_WIDTH = 32_768, 32
_PHRASE_FACTORS = (40_503, 10_007, 30_011)


class _Sides(NamedTuple):
    """Which tokens belong to question and passage, and what they weigh; (batch, length)."""

    first_mask: Tensor
    second_mask: Tensor
    weight: Tensor
    head_mask: Tensor  # the first QUESTION positions alone
    head_weight: Tensor


class Interaction(nn.Module):
    """Matches between the two sides, from token ids alone.

    Gives per token what it finds on the other side, shape (batch, length, TOKEN_FEATURES), per
    pair how the question is covered, shape (batch, PAIR_FEATURES), and the question's mean.
    """

    def __init__(self, vocab_size: int, width: int, cjk_start: int) -> None:
        super().__init__()
        self.cjk_start = cjk_start
        self.token_weight = nn.Parameter(torch.ones(vocab_size))
        self.pool_weight = nn.Parameter(torch.ones(vocab_size))
        self.turn = nn.Parameter(torch.eye(width))
        self.asks = nn.Linear(width, KINDS)
        self.offers = nn.Linear(width, KINDS)
        self.ask_weight = nn.Parameter(torch.ones(vocab_size))

    def forward(self, ids: Tensor, embedded: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        after = torch.cumsum((ids == SEPARATOR).long(), dim=1)
        text = ids >= len(SPECIAL_TOKENS)
        first_mask = (text & (after == 0)).float()  # the first text, (batch, length)
        second_mask = (text & (after == 1)).float()  # the second; a third is only read
        weight = self.weight_of(ids)
        unit = nn.functional.normalize(embedded @ self.turn, dim=-1)
        head, head_unit, head_mask = leading(ids), leading(unit), leading(first_mask)
        across = head_mask.unsqueeze(2) * second_mask.unsqueeze(1)  # (batch, QUESTION, length)
        same = (head.unsqueeze(2) == ids.unsqueeze(1)).float() * across
        similar = torch.matmul(head_unit, unit.transpose(1, 2)).clamp(min=0) * across
        similar = torch.maximum(similar, same)
        twice = same * nn.functional.pad(same[:, 1:, 1:], (0, 1, 0, 1))  # starts of equal pairs
        sides = _Sides(first_mask, second_mask, weight, head_mask, leading(weight))
        pooled = embedded * self.pool_weight[ids].unsqueeze(2)
        cjk = (ids >= self.cjk_start).float()
        question, alike = _alike(sides, pooled)
        tokens = _token_features(sides, similar, same, twice)
        covered = _covered(sides, similar, same, twice, cjk)
        kinds = self._kinds(sides, embedded, self.ask_weight[ids], similar, same)
        return tokens, torch.stack([*alike, *covered, *kinds], dim=-1), question

    def weight_of(self, ids: Tensor) -> Tensor:
        """What each token counts, 0 where it is no text: (batch, length)."""
        return self.token_weight[ids].abs() * (ids >= len(SPECIAL_TOKENS))

    def _kinds(
        self, sides: _Sides, embedded: Tensor, ask_weight: Tensor, similar: Tensor, same: Tensor
    ) -> list[Tensor]:
        """Whether words that the question does not hold are of the kind it asks for.

        Anywhere in the passage, in the window that covers the question best, and on the whole:
        "when" asks for years, and a year near the matched words is likely the answer.
        """
        quiet = embedded / 4
        asking = ask_weight.abs() * sides.first_mask
        kind = (self.asks(quiet) * asking.unsqueeze(2)).sum(1)
        kind = kind / asking.sum(1, keepdim=True).clamp(min=1e-3)
        free = sides.second_mask * (1 - same.amax(1))
        fit = torch.matmul(self.offers(quiet), kind.unsqueeze(2)).squeeze(2)
        fit = fit.clamp(min=NONE + 1) * free + NONE * (1 - free)
        in_window = _window_best(fit.unsqueeze(1), NONE).squeeze(1)
        w = sides.head_weight * sides.head_mask
        covered = torch.matmul(w.unsqueeze(1), _window_best(similar)).squeeze(1)
        covered = covered / w.sum(1, keepdim=True).clamp(min=1e-3)
        there = in_window.clamp(max=NONE + 0.5) - NONE  # 0 where a window holds no free word
        nearest = torch.softmax(12 * covered + 100 * there, dim=1)
        mean = share(fit, free)
        return [torch.tanh(value) for value in (fit.amax(1), (nearest * in_window).sum(1), mean)]


def leading(values: Tensor) -> Tensor:
    """The first QUESTION positions, where the question stands; short rows are filled with 0."""
    beyond = [0] * (2 * (values.dim() - 2)) + [0, QUESTION]
    return nn.functional.pad(values, beyond)[:, :QUESTION]


def _either_side(matches: Tensor) -> Tensor:
    """Each token's best match, whichever side it stands on: (batch, length)."""
    in_second = matches.amax(1)
    in_first = torch.cat([matches.amax(2), torch.zeros_like(in_second)], dim=1)
    return torch.maximum(in_second, in_first[:, : in_second.shape[1]])


def _token_features(sides: _Sides, similar: Tensor, same: Tensor, twice: Tensor) -> Tensor:
    weight = sides.weight
    best, exact = _either_side(similar), _either_side(same)
    starts = _either_side(twice)
    double = torch.maximum(starts, nn.functional.pad(starts[:, :-1], (1, 0)))
    matched = [best, best * weight, exact, exact * weight, double, double * weight]
    return torch.stack([sides.first_mask, sides.second_mask, weight, *matched], dim=-1)


def _alike(sides: _Sides, pooled: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The question's mean vector; its cosine with the passage's and with its best window's."""
    unit = nn.functional.normalize
    question = unit((pooled * sides.first_mask.unsqueeze(2)).sum(1), dim=-1)
    second = pooled * sides.second_mask.unsqueeze(2)
    passage = unit(second.sum(1), dim=-1)
    windows = unit(window_means(second.transpose(1, 2)), dim=1)
    # Windows of padding alone are 0: without the clamp they would outdo a negative best.
    best = torch.matmul(question.unsqueeze(1), windows).squeeze(1).amax(1).clamp(min=0)
    return question, ((question * passage).sum(1), best)


def _covered(
    sides: _Sides, similar: Tensor, same: Tensor, twice: Tensor, cjk: Tensor
) -> list[Tensor]:
    first_mask, second_mask, weight = sides.first_mask, sides.second_mask, sides.weight
    w = sides.head_weight * sides.head_mask
    following = nn.functional.pad(sides.head_mask[:, 1:], (0, 1)) * sides.head_mask
    pair_w = (w + nn.functional.pad(w[:, 1:], (0, 1))) * following
    best, exact = similar.amax(2), same.amax(2)
    return [
        share(exact, w),
        share(best, w),
        best_window(same, w),
        best_window(similar, w),
        share(twice.amax(2), pair_w),
        best_window(twice, pair_w),
        ((1 - exact) * w).amax(1),
        ((1 - best) * w).amax(1),
        share(same.amax(1), weight * second_mask),
        torch.log1p(second_mask.sum(1)) / 6,
        torch.log1p(first_mask.sum(1)) / 4,
        share(cjk, first_mask),
    ]


def share(values: Tensor, weight: Tensor) -> Tensor:
    """Weighted mean over a row; 0 where nothing has weight."""
    return (values * weight).sum(1) / weight.sum(1).clamp(min=1e-3)


def _window_best(values: Tensor, none: float = 0.0) -> Tensor:
    """Largest value in each window of positions: (batch, rows, length) to (.., .., window)."""
    # Pooled as images of height 1: pooling in one dimension would fix the length in an export.
    padded = nn.functional.pad(values, (0, WINDOW - 1), value=none).unsqueeze(1)
    blocks = nn.functional.max_pool2d(padded, (1, STRIDE))
    return nn.functional.max_pool2d(blocks, (1, WINDOW // STRIDE), 1).squeeze(1)


def best_window(matches: Tensor, weight: Tensor) -> Tensor:
    """How much of the question one window of passage tokens covers, at best: (batch,)."""
    windows = _window_best(matches)
    covered = torch.matmul(weight.unsqueeze(1), windows).squeeze(1)  # (batch, window)
    return covered.amax(1) / weight.sum(1).clamp(min=1e-3)


def window_means(values: Tensor) -> Tensor:
    """Means over windows of positions: (batch, width, length) to (batch, width, window)."""
    padded = nn.functional.pad(values, (0, WINDOW - 1)).unsqueeze(1)
    blocks = nn.functional.avg_pool2d(padded, (1, STRIDE))
    return nn.functional.avg_pool2d(blocks, (1, WINDOW // STRIDE), 1).squeeze(1)


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
    second_mask = (text & (sides == 1)).float()
    windows = unit(window_means((states * second_mask.unsqueeze(2)).transpose(1, 2)), dim=1)
    near = torch.matmul(first.unsqueeze(1), windows).squeeze(1).amax(1)
    tokens = unit(states, dim=-1)
    first_mask = leading((text & (sides == 0)).float())
    across = first_mask.unsqueeze(2) * second_mask.unsqueeze(1)
    alike = torch.matmul(leading(tokens), tokens.transpose(1, 2)).clamp(min=0) * across
    w = leading(weight) * first_mask
    whole = share(alike.amax(2), w)
    return torch.stack([(first * second).sum(1), near, whole, best_window(alike, w)], dim=-1)


class Phrases(nn.Module):
    """Pairs and triples of neighbouring tokens of the first text, hashed into one table.

    Gives their mean vector times √ of their number: (batch, PHRASE_WIDTH). How a request is phrased
    tells much of whether it needs retrieval, in Chinese most of all, where the layers that read
    each text know little; fastText's way (Joulin et al., arXiv 1607.01759).
    """

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(PHRASE_BUCKETS, PHRASE_WIDTH)
        nn.init.normal_(self.table.weight, std=0.1)

    def forward(self, ids: Tensor, sides: Tensor) -> Tensor:
        kept = (sides == 0) & (ids >= len(SPECIAL_TOKENS))
        hashes, inside_masks = [], []
        for size in (2, 3):
            last = ids.shape[1] - size + 1
            code = sum(
                (
                    factor * ids[:, start : start + last]
                    for start, factor in enumerate(_PHRASE_FACTORS[:size])
                ),
                torch.full_like(ids[:, :last], size),
            )
            hashes.append(code % PHRASE_BUCKETS)
            inside = torch.stack([kept[:, start : start + last] for start in range(size)])
            inside_masks.append(inside.all(0))
        weight = torch.cat(inside_masks, dim=1).float().unsqueeze(2)
        vectors = self.table(torch.cat(hashes, dim=1)) * weight
        phrases: Tensor = vectors.sum(1) * torch.rsqrt(weight.sum(1).clamp(min=1))
        return phrases
