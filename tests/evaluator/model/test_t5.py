"""The network: which text a token belongs to, where answers stand, how it is stored."""

import pytest
import torch

from evaluator.model.t5 import packed, sides_of, unpacked
from evaluator.model.tokenization import END, SEPARATOR, SPECIAL_TOKENS, PairTokenizer
from evaluator.schema import Row
from tests.evaluator.tiny import at_four_bits, tiny_network, tiny_tokenizer

WORD = len(SPECIAL_TOKENS)


def test_a_token_knows_its_text() -> None:
    first, second, third = [WORD] * 4, [WORD] * 6, [WORD] * 3
    ids = torch.tensor([[4, *first, SEPARATOR, 4, *second, SEPARATOR, 4, *third, END]])
    assert sides_of(ids)[0].tolist() == [0] * 6 + [1] * 8 + [2] * 5


def test_an_answer_stands_in_the_second_text_or_nowhere() -> None:
    network, tokens = tiny_network(), PairTokenizer(tiny_tokenizer(), 96)
    (row,) = tokens.encode("support", [("who? [SEP] ab", "ab is c")])
    assert isinstance(row, Row)
    ids = torch.tensor([row.ids])
    _, spans = network(ids, torch.ones_like(ids))
    possible = (spans[0, :, 0] > -1e8).nonzero().flatten().tolist()
    second = [i for i, side in enumerate(sides_of(ids)[0].tolist()) if side == 1]
    assert possible == [0, *second[3:-1]]  # not its task token and prefix, not the separator


def test_a_span_must_be_likelier_than_none_by_a_margin() -> None:
    network = tiny_network()
    (row,) = PairTokenizer(tiny_tokenizer(), 96).encode("answer", [("what", "a long river")])
    assert isinstance(row, Row)
    ids = torch.tensor([row.ids])
    margins = []
    for network.config.nowhere in (0.0, 4.0):
        _, spans = network(ids, torch.ones_like(ids))
        margins.append(spans[0, 0].sum().item())
    assert margins[1] - margins[0] == pytest.approx(4.0, abs=1e-3)


def test_a_value_takes_a_byte_and_stays_near() -> None:
    torch.manual_seed(0)
    tensors = {"wide.weight": torch.randn(400, 64), "head.weight": torch.randn(13, 64)}
    stored = packed(tensors)
    assert stored["wide.weight|bytes"].numel() * stored["wide.weight|bytes"].element_size() == 25600
    back = unpacked(stored)
    assert back.keys() == tensors.keys()
    missed = {name: (back[name] - tensors[name]).abs().max().item() for name in tensors}
    assert missed["wide.weight"] < 0.02
    assert missed["head.weight"] < 0.002


def test_storing_what_was_stored_changes_nothing() -> None:
    torch.manual_seed(0)
    once = unpacked(packed({"wide.weight": torch.randn(400, 64)}))
    twice = unpacked(packed(once))
    assert torch.allclose(once["wide.weight"], twice["wide.weight"], atol=2e-3)


def test_a_row_of_zeros_is_kept() -> None:
    assert not unpacked(packed({"words.weight": torch.zeros(400, 64)}))["words.weight"].any()


def test_what_came_at_four_bits_is_stored_so_without_loss() -> None:
    torch.manual_seed(0)
    value = at_four_bits(torch.randn(400, 64))
    stored = packed({"wide.weight": value})
    assert stored["wide.weight|nibbles"].numel() == value.numel() // 2
    assert torch.equal(unpacked(stored)["wide.weight"], value)
    value[3, 5] += 1e-3  # trained further
    assert "wide.weight|bytes" in packed({"wide.weight": value})
