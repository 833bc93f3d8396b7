import pytest
import torch
from torch import Tensor, nn

from evaluator.model.features import (
    CLOSENESS,
    PAIR_FEATURES,
    PHRASE_WIDTH,
    Interaction,
    Phrases,
    closeness,
    mean_of,
    places_of,
    sides_of,
)
from evaluator.model.tokenization import END, SEPARATOR, SPECIAL_TOKENS

WORD = len(SPECIAL_TOKENS)
TASK = SPECIAL_TOKENS.index("[task:relevance]")
A, B, C, D = range(WORD, WORD + 4)
IDS = torch.tensor([[TASK, WORD, WORD + 1, SEPARATOR, TASK, WORD + 2, WORD + 3, WORD + 4, END]])
MASK = torch.ones_like(IDS)
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


def near(ids: Tensor, states: Tensor, mask: Tensor) -> Tensor:
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


def test_padding_moves_no_cosine() -> None:
    torch.manual_seed(0)
    states = torch.randn(1, 12, 8)
    longer = torch.cat([IDS, torch.zeros(1, 3, dtype=torch.long)], dim=1)
    mask = torch.cat([MASK, torch.zeros(1, 3, dtype=torch.long)], dim=1)
    assert torch.allclose(near(IDS, states[:, :9], MASK), near(longer, states, mask), atol=1e-6)


def test_an_empty_second_text_is_no_fault() -> None:
    ids = torch.tensor([[TASK, WORD, SEPARATOR, TASK, END]])
    assert torch.isfinite(near(ids, torch.randn(1, 5, 4), torch.ones_like(ids))).all()


def phrases_of(phrases: Phrases, *rows: list[int]) -> Tensor:
    width = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
    vectors: Tensor = phrases(ids, sides_of(ids))
    return vectors.detach()


def test_only_the_first_text_counts_and_padding_does_not() -> None:
    phrases = Phrases()
    short = [TASK, A, B, C, SEPARATOR, TASK, D, 1]
    long = [TASK, A, B, C, SEPARATOR, TASK, C, B, A, D, D, 1]
    alone, together = phrases_of(phrases, short), phrases_of(phrases, short, long)
    assert alone.shape == (1, PHRASE_WIDTH)
    assert torch.allclose(alone[0], together[0], atol=1e-6)
    assert torch.allclose(together[0], together[1], atol=1e-6)


def test_order_makes_the_phrase() -> None:
    phrases = Phrases()
    forth = phrases_of(phrases, [TASK, A, B, SEPARATOR, TASK, 1])
    back = phrases_of(phrases, [TASK, B, A, SEPARATOR, TASK, 1])
    assert not torch.allclose(forth, back, atol=1e-3)


def test_a_single_token_has_no_phrase() -> None:
    assert not phrases_of(Phrases(), [TASK, A, SEPARATOR, TASK, B, C, 1]).any()
