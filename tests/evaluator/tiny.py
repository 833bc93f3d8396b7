"""A checkpoint small enough for tests, made of real parts: tokenizer, T5, safetensors, ONNX."""

from pathlib import Path

import torch
from tokenizers import Tokenizer

from evaluator.model import t5 as models
from evaluator.model.t5 import EvaluatorModel, ModelConfig, TextEncoder
from evaluator.model.tokenization import SPECIAL_TOKENS, UNKNOWN, stored_form
from evaluator.training import embedder
from evaluator.training.pretrained_encoder import unigram

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,?!<>/[]:"


def tiny_tokenizer() -> Tokenizer:
    """Spells every word in letters; four Chinese characters stand at the end."""
    special = [(stored_form(token), 0.0) for token in SPECIAL_TOKENS]
    letters = [*LETTERS, *LETTERS[:26].upper(), *(f"▁{letter}" for letter in LETTERS)]
    pieces = [(piece, -1.0) for piece in ("▁", *letters, *"河流很长")]
    return unigram([*special, *pieces], UNKNOWN)


def tiny_network(seed: int = 0) -> EvaluatorModel:
    torch.manual_seed(seed)
    size = tiny_tokenizer().get_vocab_size()
    config = ModelConfig(
        vocab_size=size, d_model=16, d_ff=24, heads=2,
        layers=1, max_length=96,
    )  # fmt: skip
    network = EvaluatorModel(config)
    torch.nn.init.normal_(network.head.weight, std=0.2)  # so that rows differ
    return network.eval()


def tiny_folder(folder: Path, *tasks: str, network: EvaluatorModel | None = None) -> Path:
    """The tiny network as a checkpoint of these tasks, of all where none is named."""
    network = network or tiny_network()
    network.config.tasks = list(tasks) or network.config.tasks
    models.save(network, folder)
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def wide_network() -> EvaluatorModel:
    """One whose matrices are large enough to be stored as integers."""
    torch.manual_seed(0)
    network = EvaluatorModel(wide_config())
    torch.nn.init.normal_(network.head.weight, std=0.2)
    return network.eval()


def wide_config() -> ModelConfig:
    return ModelConfig(
        vocab_size=tiny_tokenizer().get_vocab_size(), d_model=256, d_ff=64, heads=2,
        layers=1, max_length=96,
    )  # fmt: skip


def tiny_e5(folder: Path) -> Path:
    """A wide encoder as an embedder; as e5's, most of its matrices came at four bits."""
    torch.manual_seed(0)
    encoder = TextEncoder(wide_config()).eval()
    for name, value in encoder.named_parameters():
        if name.endswith("dense.weight"):
            with torch.no_grad():
                value.copy_(at_four_bits(value))
    return embedder.write(encoder, tiny_tokenizer(), folder)


def at_four_bits(value: torch.Tensor) -> torch.Tensor:
    """The nearest values of blocks of 32 that share a scale."""
    blocks = value.detach().reshape(-1, 32)
    scale = (blocks.abs().amax(1, keepdim=True) / -8).half().float()
    steps = (blocks / scale).round().clamp(-8, 7)
    steps[:, 0] = -8  # the largest of a block decides its scale
    return (steps * scale).reshape(value.shape)
