"""Transformers small enough for tests, never trained, in the folders transformers writes."""

import json
import re
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

WORDS = [
    *".?[]/",
    *re.findall(r"\w+", "the river is long how hills stand around it cold km ab sep"),
]
SPECIAL = ["<pad>", "</s>", "[UNK]", "[CLS]", "[SEP]"]
DIGITS = [*"0123456789", *(f"##{digit}" for digit in "0123456789")]


def _tokenizer(single: str, pair: str | None, **options: Any) -> Any:
    entries = {token: number for number, token in enumerate([*SPECIAL, *DIGITS, *WORDS])}
    tokenizer = Tokenizer(WordPiece(entries, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    marks = [(token, number) for number, token in enumerate(SPECIAL) if token in f"{single}{pair}"]
    tokenizer.post_processor = TemplateProcessing(single=single, pair=pair, special_tokens=marks)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", unk_token="[UNK]", **options
    )


def tiny_t5(folder: Path) -> Path:
    """A T5 as one would fetch it: a language model's head, none for classification."""
    _tokenizer("$A </s>", None, eos_token="</s>").save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=64, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, dropout_rate=0.0
    )
    config.decoder_start_token_id = 0
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder


def tiny_bert(folder: Path, labels: int = 0) -> Path:
    """A BERT, with a head of so many labels if any."""
    pair, inputs = "[CLS] $A [SEP] $B:1 [SEP]:1", ["input_ids", "token_type_ids", "attention_mask"]
    _tokenizer(
        "[CLS] $A [SEP]", pair, cls_token="[CLS]", sep_token="[SEP]", model_input_names=inputs
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, hidden_dropout_prob=0.0, num_labels=labels or 2,
    )  # fmt: skip
    network = (
        transformers.BertForSequenceClassification(config)
        if labels
        else transformers.BertModel(config)
    )
    network.save_pretrained(folder)
    return folder


def rivers(folder: Path, count: int = 60) -> Path:
    """A data folder: each question has one passage, told apart by a number."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "question": f"How long is the river ab {n}?", "answers": [f"{n}77 km"],
            "answerable": True, "title": f"Ab {n}",
            "passage": f"The river ab {n} is {n}77 km long. Hills stand around it. It is cold.",
        }
        for n in range(count)
    ]  # fmt: skip
    rows.append(
        {
            "question": "这条河有多长？", "answers": ["十二公里"], "answerable": True,
            "title": "河", "passage": "这条河全长十二公里，两岸有山，水很冷。",
        }
    )  # fmt: skip
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (folder / "rivers.jsonl").write_text(lines, encoding="utf-8")
    return folder
