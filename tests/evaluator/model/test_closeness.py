"""Nearness of two texts, from token ids and states alone."""

import torch

from evaluator.model.closeness import CLOSENESS, closeness, mean_of, places_of, sides_of
from evaluator.model.tokenization import END, SEPARATOR, SPECIAL_TOKENS

WORD = len(SPECIAL_TOKENS)
TASK = SPECIAL_TOKENS.index("[task:relevance]")
IDS = torch.tensor([[TASK, WORD, WORD + 1, SEPARATOR, TASK, WORD + 2, WORD + 3, WORD + 4, END]])
MASK = torch.ones_like(IDS)


def near(ids: torch.Tensor, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return closeness(ids, states, sides_of(ids), mask, torch.ones(ids.shape))


def test_a_separator_ends_its_text_and_places_begin_anew() -> None:
    sides = sides_of(IDS)
    assert sides.tolist() == [[0, 0, 0, 0, 1, 1, 1, 1, 1]]
    assert places_of(sides).tolist() == [[0, 1, 2, 3, 0, 1, 2, 3, 4]]


def test_a_mean_is_of_one_text_without_padding() -> None:
    states = torch.arange(9.0).reshape(1, 9, 1)
    mask = MASK.clone()
    mask[0, -1] = 0
    assert mean_of(states, sides_of(IDS), mask, 0).item() == 1.5
    assert mean_of(states, sides_of(IDS), mask, 1).item() == 5.5


def test_equal_states_are_near_and_opposite_ones_are_not() -> None:
    same = torch.ones(1, 9, 4)
    assert torch.allclose(near(IDS, same, MASK), torch.ones(1, CLOSENESS), atol=1e-5)
    apart = same.clone()
    apart[:, 4:] = -1
    assert near(IDS, apart, MASK).max() <= 0


def test_padding_moves_nothing() -> None:
    torch.manual_seed(0)
    states = torch.randn(1, 12, 8)
    longer = torch.cat([IDS, torch.zeros(1, 3, dtype=torch.long)], dim=1)
    mask = torch.cat([MASK, torch.zeros(1, 3, dtype=torch.long)], dim=1)
    assert torch.allclose(near(IDS, states[:, :9], MASK), near(longer, states, mask), atol=1e-6)


def test_an_empty_second_text_is_no_fault() -> None:
    ids = torch.tensor([[TASK, WORD, SEPARATOR, TASK, END]])
    assert torch.isfinite(near(ids, torch.randn(1, 5, 4), torch.ones_like(ids))).all()
