"""For `bench`, in PyTorch: untrained checkpoints of T5's shapes, the one-step head, the peak."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram
from torch import Tensor
from torch.nn.functional import linear
from transformers import PreTrainedTokenizerFast, T5Config, T5ForSequenceClassification

from evaluator.bench.workload import CHINESE, ENGLISH
from evaluator.inference.scorer import Row, RowScore, padded
from evaluator.inference.torch_scorer import AuthorsScorer
from evaluator.schema import Task
from evaluator.settings import EvaluatorSettings

VOCABULARY = 32_128  # T5's


@dataclass(frozen=True)
class Shape:
    """T5's sizes; as many decoder layers as encoder layers, each head `d_kv` wide."""

    d_model: int
    d_ff: int
    layers: int
    heads: int
    d_kv: int = 64


SHAPES = {
    "small": Shape(64, 128, 2, 2, 32),  # for a quick run
    "t5-small": Shape(512, 2048, 6, 8),
    "t5-base": Shape(768, 3072, 12, 12),
    "t5-large": Shape(1024, 4096, 24, 16),
}


def build(shape: Shape, folder: Path) -> None:
    """An untrained checkpoint in the authors' form, its tokenizer made for workload's words."""
    config: Any = T5Config(
        vocab_size=VOCABULARY, d_model=shape.d_model, d_kv=shape.d_kv, d_ff=shape.d_ff,
        num_layers=shape.layers, num_heads=shape.heads,
    )  # fmt: skip
    config.decoder_start_token_id, config.num_labels = 0, 1
    torch.manual_seed(0)
    network: Any = T5ForSequenceClassification(config)
    network.save_pretrained(folder)
    special = ("<pad>", "</s>", "<unk>")
    letters = sorted({letter for word in (*ENGLISH, *CHINESE) for letter in word} | set(".?。？"))
    words = dict.fromkeys([*(f"▁{word}" for word in ENGLISH), *CHINESE])
    pieces = [*((token, 0.0) for token in special), ("▁", -9.0)]
    pieces += [(word, -5.0) for word in words] + [
        (one, -9.0) for one in letters if one not in words
    ]
    tokenizer = Tokenizer(Unigram(pieces, unk_id=2))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    fast: Any = PreTrainedTokenizerFast
    fast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)


class OneStep(AuthorsScorer):
    """The authors' form with a decoder that takes one step instead of one a token.

    It takes as long as a checkpoint trained that way would; what it scores means nothing.
    """

    @torch.inference_mode()
    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        del task
        ids, mask = (torch.from_numpy(part).to(self._device) for part in padded(rows))
        states: Tensor = self._model.transformer(
            input_ids=ids,
            attention_mask=mask,
            decoder_input_ids=torch.zeros_like(ids[:, :1]),
            use_cache=False,
        ).last_hidden_state
        logits = self._model.classification_head(states)[:, 0, 0].float().cpu()
        return [RowScore(float(logit), "", {}) for logit in logits]


def placed(settings: EvaluatorSettings) -> EvaluatorSettings:
    """The settings with `auto` replaced by what the torch backend would take."""
    device = settings.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    precision = settings.precision
    if precision == "auto":
        precision = "bf16" if device.startswith("cuda") else "fp32"
    return settings.model_copy(update={"device": device, "precision": precision})


def machine(settings: EvaluatorSettings) -> str:
    """What computes, in words."""
    if settings.device.startswith("cuda"):
        return torch.cuda.get_device_name(settings.device)
    return f"CPU, {torch.get_num_threads()} threads"


@torch.inference_mode()
def peak_flops(settings: EvaluatorSettings, seconds: float) -> float:
    """Operations a second of a square matrix product in the settings' precision, the best seen."""
    on_gpu = settings.device.startswith("cuda")
    side = 8192 if on_gpu else 1536
    dtype = torch.bfloat16 if settings.precision == "bf16" else torch.float32
    left = torch.randn(side, side, device=settings.device).to(dtype)
    best, until = 0.0, time.perf_counter() + seconds
    while best == 0.0 or time.perf_counter() < until:
        started = time.perf_counter()
        linear(left, left)  # the layout of the layers' weights: in bf16 CPUs care
        if on_gpu:
            torch.cuda.synchronize(settings.device)
        best = max(best, 2.0 * side**3 / (time.perf_counter() - started))
    return best
