"""A checkpoint small enough for tests, made of real parts: tokenizer, T5, safetensors, ONNX."""

from pathlib import Path

import torch
from tokenizers import Tokenizer

from evaluator.model import t5 as models
from evaluator.model.t5 import EvaluatorModel, ModelConfig
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
    size = tiny_tokenizer().get_vocab_size()
    config = ModelConfig(
        vocab_size=size, d_model=256, d_ff=64, heads=2,
        layers=1, max_length=96,
    )  # fmt: skip
    network = EvaluatorModel(config)
    torch.nn.init.normal_(network.head.weight, std=0.2)
    return network.eval()


def tiny_e5(folder: Path) -> Path:
    """The wide network's encoder as an embedder."""
    return embedder.write(wide_network(), tiny_tokenizer(), folder)
