"""How weights lie in model.safetensors: large matrices as integers, the rest as float16.

A matrix row w is stored as round(w / s) with one scale s a row: one byte a value, or four bits in
the tables of words, of which a text averages many. Loading gives floats back, exactly the values
that both backends compute with, so a checkpoint has one set of weights whatever runs it.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

BYTES, NIBBLES, SCALE = "bytes", "nibbles", "scale"
FOUR_BITS = ("words.weight", "t5.shared.weight", "phrases.table.weight")
_SMALL = 16_384  # matrices of fewer values stay float16


def packed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as stored: `name|bytes` or `name|nibbles` with `name|scale`, or float16."""
    stored: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if value.ndim != 2 or value.numel() < _SMALL:
            stored[name] = value.detach().half().contiguous()
            continue
        most = 7 if name in FOUR_BITS else 127
        scale = (value.abs().amax(1, keepdim=True) / most).clamp(min=1e-6).half()
        whole = (value / scale.float()).round().clamp(-most, most)
        stored[f"{name}|{SCALE}"] = scale
        if name in FOUR_BITS:
            stored[f"{name}|{NIBBLES}"] = _nibbles(whole)
        else:
            stored[f"{name}|{BYTES}"] = whole.to(torch.int8)
    return stored


def _nibbles(whole: Tensor) -> Tensor:
    """Left half of each row in the low four bits, right half in the high ones."""
    left, right = (whole + 8).to(torch.uint8).chunk(2, dim=1)
    return (left + 16 * right).contiguous()


def unpacked(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors in float32, as computed with."""
    tensors: dict[str, Tensor] = {}
    for entry, value in stored.items():
        name, _, form = entry.partition("|")
        if not form:
            tensors[name] = value.float()
        elif form != SCALE:
            whole = _halves(value) if form == NIBBLES else value.float()
            tensors[name] = whole * stored[f"{name}|{SCALE}"].float()
    return tensors


def _halves(value: Tensor) -> Tensor:
    right = (value.float() / 16).floor()
    return torch.cat([value.float() - 16 * right, right], dim=1) - 8
