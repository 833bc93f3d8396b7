"""Stored as integers: small, near the floats it was made of, and the same whatever runs it."""

import torch

from evaluator.model.t5 import packed, unpacked


def test_a_value_takes_a_byte_or_half_and_stays_near() -> None:
    torch.manual_seed(0)
    tensors = {
        "words.weight": torch.randn(400, 64),
        "wide.weight": torch.randn(400, 64),
        "head.weight": torch.randn(13, 64),
    }
    stored = packed(tensors)
    sizes = {name: value.numel() * value.element_size() for name, value in stored.items()}
    assert sizes["words.weight|nibbles"] == 400 * 32
    assert sizes["wide.weight|bytes"] == 400 * 64
    back = unpacked(stored)
    assert back.keys() == tensors.keys()
    missed = {name: (back[name] - tensors[name]).abs().max().item() for name in tensors}
    assert missed["wide.weight"] < 0.02
    assert missed["words.weight"] < 0.4
    assert missed["head.weight"] < 0.002


def test_storing_what_was_stored_changes_nothing() -> None:
    torch.manual_seed(0)
    once = unpacked(packed({"wide.weight": torch.randn(400, 64)}))
    twice = unpacked(packed(once))
    assert torch.allclose(once["wide.weight"], twice["wide.weight"], atol=2e-3)


def test_a_row_of_zeros_is_kept() -> None:
    assert not unpacked(packed({"words.weight": torch.zeros(400, 64)}))["words.weight"].any()
