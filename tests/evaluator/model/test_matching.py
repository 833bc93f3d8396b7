import pytest
import torch
from torch import Tensor, nn

from evaluator.model.matching import PAIR_FEATURES, Interaction
from evaluator.model.tokenization import END, SEPARATOR, SPECIAL_TOKENS

WORD = len(SPECIAL_TOKENS)
ALIKE, WINDOW_ALIKE, EXACT, SOFT, EXACT_IN_WINDOW = range(5)


def row(question: list[int], passage: list[int]) -> Tensor:
    words = [[WORD + number for number in side] for side in (question, passage)]
    return torch.tensor([[4, *words[0], SEPARATOR, *words[1], END]])


@pytest.fixture
def matching() -> Interaction:
    torch.manual_seed(0)
    found = Interaction(WORD + 60, 16, WORD + 50)
    nn.init.uniform_(found.token_weight, 0.2, 1.0)
    return found.eval()


def features(matching: Interaction, ids: Tensor) -> Tensor:
    torch.manual_seed(1)
    table = torch.randn(WORD + 60, 16)
    with torch.inference_mode():
        tokens, pair, _ = matching(ids, table[ids])
    assert tokens.shape[:2] == ids.shape
    assert pair.shape == (len(ids), PAIR_FEATURES)
    return pair[0]


def test_a_repeated_question_is_covered_whole(matching: Interaction) -> None:
    found = features(matching, row([1, 2, 3], [1, 2, 3]))
    for place in (ALIKE, EXACT, SOFT, EXACT_IN_WINDOW):
        assert found[place].item() == pytest.approx(1, abs=1e-5)


def test_words_found_far_apart_cover_no_window(matching: Interaction) -> None:
    nn.init.ones_(matching.token_weight)
    found = features(matching, row([1, 2], [1, *[9] * 80, 2]))
    assert found[EXACT].item() == pytest.approx(1)
    assert found[EXACT_IN_WINDOW].item() == pytest.approx(0.5)


def test_nothing_in_common_covers_nothing(matching: Interaction) -> None:
    found = features(matching, row([1, 2], [5, 6, 7]))
    assert found[EXACT].item() == 0
    assert found[EXACT_IN_WINDOW].item() == 0
    assert found[SOFT].item() < 1


@pytest.mark.parametrize("passage", [[5, 6, 7], [1, 2], [9] * 45, []])
def test_padding_moves_nothing(matching: Interaction, passage: list[int]) -> None:
    ids = row([1, 2, 52], passage)
    for padding in (1, 7, 90):
        longer = nn.functional.pad(ids, (0, padding))
        assert torch.allclose(features(matching, ids), features(matching, longer), atol=1e-5)
