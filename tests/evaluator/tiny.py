"""A checkpoint small enough for tests, made of real parts: tokenizer, T5, safetensors, ONNX."""

from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from evaluator.model import t5 as models
from evaluator.model.t5 import EvaluatorModel, ModelConfig
from evaluator.model.tokenization import SPECIAL_TOKENS

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,?!<>/[]:"


def tiny_tokenizer() -> Tokenizer:
    """Spells every word in letters; four Chinese characters stand at the end."""
    tokens = [*SPECIAL_TOKENS, *LETTERS, *(f"##{letter}" for letter in LETTERS), *"河流很长"]
    numbers = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


def tiny_network(seed: int = 0) -> EvaluatorModel:
    torch.manual_seed(seed)
    size = tiny_tokenizer().get_vocab_size()
    config = ModelConfig(
        vocab_size=size, cjk_start=size - 4, d_model=16, d_ff=24, heads=2,
        layers=1, max_length=96,
    )  # fmt: skip
    network = EvaluatorModel(config)
    torch.nn.init.normal_(network.head.weight, std=0.2)  # so that rows differ
    torch.nn.init.normal_(network.matches.weight, std=0.2)
    return network.eval()


def tiny_folder(folder: Path, *tasks: str, network: EvaluatorModel | None = None) -> Path:
    """The tiny network as a checkpoint of these tasks, of all where none is named."""
    network = network or tiny_network()
    network.config.tasks = list(tasks) or network.config.tasks
    models.save(network, folder)
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def wide_folder(folder: Path) -> Path:
    """The same, its matrices large enough to be stored as integers."""
    torch.manual_seed(0)
    size = tiny_tokenizer().get_vocab_size()
    config = ModelConfig(
        vocab_size=size, cjk_start=size - 4, d_model=256, d_ff=64, heads=2,
        layers=1, max_length=96,
    )  # fmt: skip
    network = EvaluatorModel(config)
    torch.nn.init.normal_(network.head.weight, std=0.2)
    return tiny_folder(folder, network=network.eval())
