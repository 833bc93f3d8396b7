"""Generators small enough for tests: a Llama and a T5 over bytes, never trained."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.evaluator.tiny_language_model import tiny_language_model


def tiny_llama(folder: Path) -> Path:
    return tiny_language_model(folder, positions=2048)


def tiny_t5(folder: Path) -> Path:
    """With the tokenizer of the other one, which also ends its texts."""
    tiny_language_model(folder)
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=258, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_decoder_layers=1,
        num_heads=2, decoder_start_token_id=0, pad_token_id=1, eos_token_id=1,
    )  # fmt: skip
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder


def word_llama(folder: Path, texts: Iterable[str]) -> Path:
    """A Llama of two layers, never trained, over the words of the texts; it reads any text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<s>", "</s>", "<pad>"]
    trainer = trainers.BpeTrainer(
        vocab_size=900, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast: Any = transformers.PreTrainedTokenizerFast
    fast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=64, intermediate_size=64,
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
        max_position_embeddings=4096, initializer_range=0.1,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder
