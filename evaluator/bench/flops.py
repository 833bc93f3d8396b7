"""Floating-point operations of one row, counted from a checkpoint's config.json.

A multiplication and its addition are two. Counted are the matrix products of the layers and of
attention, as computed, masked places included; left out are embeddings, norms and softmax, and
of our checkpoints the matching of words, all of them small beside the layers.
"""

from typing import Any

from evaluator.schema import Task


def flops(config: dict[str, Any], task: Task, length: int, *, one_step: bool = False) -> float:
    """Of one row of `length` tokens; `one_step` puts one decoder step in the authors' form."""
    if "architectures" in config:
        return _authors(config, length, 1 if one_step else length)
    return _ours(config, task, length)


def _authors(config: dict[str, Any], length: int, steps: int) -> float:
    """T5ForSequenceClassification: its decoder reads the whole row again, token by token."""
    width: int = config["d_model"]
    inner: int = config["num_heads"] * config["d_kv"]
    gated = str(config.get("feed_forward_proj", "relu")).startswith("gated")
    matrices = 3 if gated else 2
    layers: int = config["num_layers"]
    decoders: int = config.get("num_decoder_layers") or layers
    encoder = _layer(width, inner, config["d_ff"], length, matrices)
    decoder = _layer(width, inner, config["d_ff"], steps, matrices)
    decoder += _crossing(width, inner, length, steps)
    return layers * encoder + decoders * decoder + 2.0 * width * (width + 1)


def _ours(config: dict[str, Any], task: Task, length: int) -> float:
    width: int = config["d_model"]
    own, joint, decoders = (int(config[f"{kind}_layers"]) for kind in ("own", "joint", "decoder"))
    layer = _layer(width, width, config["d_ff"], length)
    read = own * layer + 2.0 * width * width * length  # the layers, the meaning
    if task == "relevance" and not config.get("relevance_taught"):
        return read  # judged by the measures alone
    both = joint * layer + 2.0 * width * length * int(config["d_words"])
    step = _layer(width, width, config["d_ff"], 1) + _crossing(width, width, length, 1)
    return read + both + decoders * step


def _layer(width: int, inner: int, d_ff: int, length: int, matrices: int = 2) -> float:
    """Self-attention (four projections, two products of length x length) and the feed-forward."""
    projections = 4 * width * inner * length
    attention = 2 * inner * length * length
    return 2.0 * (projections + attention + matrices * width * d_ff * length)


def _crossing(width: int, inner: int, length: int, steps: int) -> float:
    """A decoder's attention to the encoder: two projections on each side and the products."""
    return 2.0 * (2 * width * inner * (steps + length) + 2 * inner * steps * length)
