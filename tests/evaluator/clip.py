"""A CLIP checkpoint with random tensors, small enough for tests."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import CLIPConfig, CLIPModel, PreTrainedTokenizerFast

WORDS = ["<pad>", "<unk>", "<end>", "a", "crane", "valve", "show", "me"]


def write_clip(folder: Path, seed: int = 0) -> Path:
    tiny = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    text = {**tiny, "vocab_size": len(WORDS), "max_position_embeddings": 16, "eos_token_id": 2}
    config = CLIPConfig(
        text_config={**text, "num_attention_heads": 2, "bos_token_id": 2, "pad_token_id": 0},
        vision_config={**tiny, "num_attention_heads": 2, "image_size": 32, "patch_size": 8},
        projection_dim=24,
    )
    torch.manual_seed(seed)
    CLIPModel(config).save_pretrained(folder)
    vocabulary = {word: place for place, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <end>", special_tokens=[("<end>", 2)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>", eos_token="<end>"
    )
    fast.save_pretrained(folder)
    return folder
