"""The network: what it is told of shared words, what it reads, and how it is stored."""

import torch

from evaluator.model.t5 import packed, shared_runs, sides_of, unpacked
from evaluator.model.tokenization import END, SEPARATOR, SPECIAL_TOKENS, PairTokenizer
from evaluator.schema import Row
from tests.evaluator.tiny import tiny_network, tiny_tokenizer

WORD = len(SPECIAL_TOKENS)


def test_a_token_is_told_the_longest_run_it_shares_with_each_other_text() -> None:
    a, b, c, d, e = range(WORD, WORD + 5)
    first, second, third = [a, b, c, d], [b, c, d, a, c, b], [e, a, b]
    ids = torch.tensor([[4, *first, SEPARATOR, 4, *second, SEPARATOR, 4, *third, END]])
    sides = sides_of(ids)
    assert sides[0].tolist() == [0] * 6 + [1] * 8 + [2] * 5
    runs = [run[0].tolist() for run in shared_runs(ids, sides)]
    with_first, with_second, with_third = runs
    assert with_first[7:13] == [3, 3, 3, 1, 1, 1]
    assert with_first[15:18] == [0, 2, 2]
    assert with_second[1:5] == [1, 3, 3, 3]
    assert with_third[1:5] == [2, 2, 0, 0]
    assert with_first[:6] == [0] * 6  # nothing is shared with itself
    assert with_first[13] == with_first[14] == 0  # a separator and a task are no text


def test_attention_across_can_be_masked_off() -> None:
    network, tokens = tiny_network(), PairTokenizer(tiny_tokenizer(), 96)
    torch.nn.init.zeros_(network.matches.weight)
    rows = tokens.encode("relevance", [("ab?", "ab is c"), ("ab?", "xy is c")])
    ids = torch.tensor([row.ids for row in rows if isinstance(row, Row)])
    mask, sides = torch.ones_like(ids), sides_of(ids)
    question = sides[0] == 0
    network.reads_across = False
    apart = network.encoded(ids, sides, mask)[:, question]
    assert torch.allclose(apart[0], apart[1], atol=1e-6)
    network.reads_across = True
    across = network.encoded(ids, sides, mask)[:, question]
    assert not torch.allclose(across[0], across[1], atol=1e-3)


def test_an_answer_stands_in_the_second_text_or_nowhere() -> None:
    network, tokens = tiny_network(), PairTokenizer(tiny_tokenizer(), 96)
    (row,) = tokens.encode("support", [("who? [SEP] ab", "ab is c")])
    assert isinstance(row, Row)
    ids = torch.tensor([row.ids])
    _, spans = network(ids, torch.ones_like(ids))
    possible = (spans[0, :, 0] > -1e8).nonzero().flatten().tolist()
    second = [i for i, side in enumerate(sides_of(ids)[0].tolist()) if side == 1]
    assert possible == [0, *second[1:-1]]  # not its task token, not the separator


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
