"""Rerankers, the CRAG authors' scorer and an embedder small enough for tests, never trained."""

from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram

from tests.evaluator.tiny_pretrained import tiny_bert

LETTERS = "abcdefghijklmnopqrstuvwxyzQRD0123456789.,?!<>/[]:_河流长很"
PIECES = ["▁", *LETTERS]


def _unigram(special: list[str], words: list[str], single: str, pair: str | None) -> Tokenizer:
    pieces = [*((token, 0.0) for token in special), *((word, -1.0) for word in words)]
    pieces += [(piece, -3.0) for piece in PIECES]
    tokenizer = Tokenizer(Unigram(pieces, unk_id=special.index("<unk>")))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    marks = [(token, number) for number, token in enumerate(special) if token in f"{single}{pair}"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=marks
    )
    return tokenizer


def tiny_mono_t5(folder: Path, verdicts: tuple[str, str] = ("▁false", "▁true")) -> Path:
    """A T5 that knows these two words; `</s>` ends a text."""
    tokenizer = _unigram(["<pad>", "</s>", "<unk>"], list(verdicts), "$A </s>", None)
    _save(folder, tokenizer, eos_token="</s>", pad_token="<pad>")
    config = transformers.T5Config(
        vocab_size=80, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, dropout_rate=0.0
    )
    config.decoder_start_token_id = 0
    _spread(transformers.T5ForConditionalGeneration(config)).save_pretrained(folder)
    return folder


def authors_folder(folder: Path, labels: int = 1, shard_size: str = "1GB") -> Path:
    """The CRAG authors' form: a T5 with a classification head."""
    tokenizer = _unigram(["<pad>", "</s>", "<unk>"], [], "$A </s>", None)
    own = {"additional_special_tokens": ["<extra_id_0>"]}
    _save(folder, tokenizer, max_length=512, eos_token="</s>", pad_token="<pad>", **own)
    config = transformers.T5Config(
        vocab_size=80, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, num_labels=labels
    )
    config.decoder_start_token_id = 0
    torch.manual_seed(0)
    network = transformers.T5ForSequenceClassification(config)
    for parameter in network.classification_head.parameters():
        torch.nn.init.normal_(parameter, std=0.5)  # scores far enough apart to be told
    network.save_pretrained(folder, max_shard_size=shard_size)
    return folder


def tiny_xlm_roberta(folder: Path, labels: int = 1) -> Path:
    """A cross-encoder whose padding token is 1, as bge's rerankers have it."""
    tokenizer = _unigram(
        ["<s>", "<pad>", "</s>", "<unk>"], [], "<s> $A </s>", "<s> $A </s> </s> $B </s>"
    )
    _save(folder, tokenizer, eos_token="</s>", pad_token="<pad>", bos_token="<s>")
    config = transformers.XLMRobertaConfig(
        vocab_size=80, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, hidden_dropout_prob=0.0, num_labels=labels, type_vocab_size=1,
        max_position_embeddings=130, pad_token_id=1,
    )  # fmt: skip
    _spread(transformers.XLMRobertaForSequenceClassification(config)).save_pretrained(folder)
    return folder


def tiny_cross_encoder(folder: Path, labels: int = 1) -> Path:
    """A BERT, which tells its two texts apart by types."""
    network = transformers.BertForSequenceClassification.from_pretrained(tiny_bert(folder, labels))
    _spread(network).save_pretrained(folder)
    return folder


def tiny_rank_llama(folder: Path, labels: int = 1) -> Path:
    """A decoder without a padding token, one `<s>` before each text."""
    tokenizer = _unigram(["<unk>", "<s>", "</s>"], [], "<s> $A", "<s> $A <s> $B")
    _save(folder, tokenizer, eos_token="</s>", bos_token="<s>")
    config = transformers.LlamaConfig(
        vocab_size=80, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, intermediate_size=16, num_labels=labels,
        max_position_embeddings=256,
    )  # fmt: skip
    _spread(transformers.LlamaForSequenceClassification(config)).save_pretrained(folder)
    return folder


def tiny_embedder(folder: Path) -> Path:
    """BERT, mean pooling, unit length; with a prompt of its own for questions."""
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 -- seconds to load
    from sentence_transformers.sentence_transformer.modules import (  # noqa: PLC0415
        Normalize,
        Pooling,
        Transformer,
    )

    network = Transformer(str(tiny_bert(folder.with_name("backbone"))), max_seq_length=48)
    parts = [network, Pooling(network.get_embedding_dimension()), Normalize()]
    model = SentenceTransformer(
        modules=parts, device="cpu", prompts={"query": "how ", "document": ""}
    )
    model.save(str(folder), create_model_card=False)
    return folder


def _save(
    folder: Path, tokenizer: Tokenizer, max_length: int = 128, **special: str | list[str]
) -> None:
    fast: Any = transformers.PreTrainedTokenizerFast
    fast(
        tokenizer_object=tokenizer, unk_token="<unk>", model_max_length=max_length, **special
    ).save_pretrained(folder)


def _spread(network: Any) -> Any:
    """Weights wide enough for scores to be told apart."""
    torch.manual_seed(0)
    for parameter in network.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    return network
