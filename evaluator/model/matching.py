"""How question and passage touch: matches of their tokens, from token ids alone.

Cheap arithmetic without layers, differentiable, and the same in PyTorch and ONNX.
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


class _Sides(NamedTuple):
    """Which tokens belong to question and passage, and what they weigh; (batch, length)."""

    asked: Tensor
    told: Tensor
    weight: Tensor
    head_asked: Tensor  # the first QUESTION positions alone
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
        asked = (text & (after == 0)).float()  # the first text, (batch, length)
        told = (text & (after == 1)).float()  # the second; a third is only read
        weight = self.weight_of(ids)
        unit = nn.functional.normalize(embedded @ self.turn, dim=-1)
        head, head_unit, head_asked = leading(ids), leading(unit), leading(asked)
        across = head_asked.unsqueeze(2) * told.unsqueeze(1)  # (batch, QUESTION, length)
        same = (head.unsqueeze(2) == ids.unsqueeze(1)).float() * across
        similar = torch.matmul(head_unit, unit.transpose(1, 2)).clamp(min=0) * across
        similar = torch.maximum(similar, same)
        twice = same * nn.functional.pad(same[:, 1:, 1:], (0, 1, 0, 1))  # starts of equal pairs
        sides = _Sides(asked, told, weight, head_asked, leading(weight))
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
        asking = ask_weight.abs() * sides.asked
        asked = (self.asks(quiet) * asking.unsqueeze(2)).sum(1)
        asked = asked / asking.sum(1, keepdim=True).clamp(min=1e-3)
        free = sides.told * (1 - same.amax(1))
        fit = torch.matmul(self.offers(quiet), asked.unsqueeze(2)).squeeze(2)
        fit = fit.clamp(min=NONE + 1) * free + NONE * (1 - free)
        in_window = _window_best(fit.unsqueeze(1), NONE).squeeze(1)
        w = sides.head_weight * sides.head_asked
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
    told = matches.amax(1)
    return torch.maximum(told, _back_in_row(matches.amax(2), told))


def _back_in_row(head: Tensor, row: Tensor) -> Tensor:
    return torch.cat([head, torch.zeros_like(row)], dim=1)[:, : row.shape[1]]


def _after_start(starts: Tensor) -> Tensor:
    return torch.maximum(starts, nn.functional.pad(starts[:, :-1], (1, 0)))


def _token_features(sides: _Sides, similar: Tensor, same: Tensor, twice: Tensor) -> Tensor:
    weight = sides.weight
    best, exact = _either_side(similar), _either_side(same)
    double = _after_start(_either_side(twice))
    matched = [best, best * weight, exact, exact * weight, double, double * weight]
    return torch.stack([sides.asked, sides.told, weight, *matched], dim=-1)


def _alike(sides: _Sides, pooled: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The question's mean vector; its cosine with the passage's and with its best window's."""
    unit = nn.functional.normalize
    question = unit((pooled * sides.asked.unsqueeze(2)).sum(1), dim=-1)
    told = pooled * sides.told.unsqueeze(2)
    passage = unit(told.sum(1), dim=-1)
    windows = unit(window_means(told.transpose(1, 2)), dim=1)
    # Windows of padding alone are 0: without the clamp they would outdo a negative best.
    best = torch.matmul(question.unsqueeze(1), windows).squeeze(1).amax(1).clamp(min=0)
    return question, ((question * passage).sum(1), best)


def _covered(
    sides: _Sides, similar: Tensor, same: Tensor, twice: Tensor, cjk: Tensor
) -> list[Tensor]:
    asked, told, weight = sides.asked, sides.told, sides.weight
    w = sides.head_weight * sides.head_asked
    following = nn.functional.pad(sides.head_asked[:, 1:], (0, 1)) * sides.head_asked
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
        share(same.amax(1), weight * told),
        torch.log1p(told.sum(1)) / 6,
        torch.log1p(asked.sum(1)) / 4,
        share(cjk, asked),
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
