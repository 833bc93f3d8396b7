import torch

from evaluator.model.closeness import sides_of
from evaluator.model.phrases import WIDTH, Phrases
from evaluator.model.tokenization import SEPARATOR, SPECIAL_TOKENS

A, B, C, D = range(len(SPECIAL_TOKENS), len(SPECIAL_TOKENS) + 4)
TASK = 4


def of(phrases: Phrases, *rows: list[int]) -> torch.Tensor:
    width = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
    found: torch.Tensor = phrases(ids, sides_of(ids))
    return found.detach()


def test_only_the_first_text_counts_and_padding_does_not() -> None:
    phrases = Phrases()
    short = [TASK, A, B, C, SEPARATOR, TASK, D, 1]
    long = [TASK, A, B, C, SEPARATOR, TASK, C, B, A, D, D, 1]
    alone, together = of(phrases, short), of(phrases, short, long)
    assert alone.shape == (1, WIDTH)
    assert torch.allclose(alone[0], together[0], atol=1e-6)
    assert torch.allclose(together[0], together[1], atol=1e-6)


def test_order_makes_the_phrase() -> None:
    phrases = Phrases()
    forth = of(phrases, [TASK, A, B, SEPARATOR, TASK, 1])
    back = of(phrases, [TASK, B, A, SEPARATOR, TASK, 1])
    assert not torch.allclose(forth, back, atol=1e-3)


def test_a_single_token_has_no_phrase() -> None:
    assert not of(Phrases(), [TASK, A, SEPARATOR, TASK, B, C, 1]).any()
