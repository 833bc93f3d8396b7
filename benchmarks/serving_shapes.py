"""Measures untrained T5s of known shapes, with and without a decoder of one step, beside the peak.

    python -m benchmarks.serving_shapes SHAPE [--device cuda] [--precision bf16] [--length 256]

Needs no weights: for a GPU, and to see what a one-step decoder would bring.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram
from torch import Tensor
from torch.nn.functional import linear
from transformers import PreTrainedTokenizerFast, T5Config, T5ForSequenceClassification

from benchmarks.serving_model import Figures
from evaluator.bench import CHINESE, ENGLISH, BenchOptions, measured
from evaluator.inference.scorer import padded
from evaluator.inference.torch_scorer import AuthorsScorer, place
from evaluator.schema import Row, RowScore, Task
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
        states: Tensor = self._network.transformer(
            input_ids=ids,
            attention_mask=mask,
            decoder_input_ids=torch.zeros_like(ids[:, :1]),
            use_cache=False,
        ).last_hidden_state
        logits = self._network.classification_head(states)[:, 0, 0].float().cpu()
        return [RowScore(float(logit), "", {}) for logit in logits]


def flops(config: dict[str, Any], length: int, *, one_step: bool = False) -> float:
    """Floating-point operations of one row of a T5ForSequenceClassification.

    Its decoder reads the whole row again, token by token, or takes `one_step`. A multiplication and
    its addition are two. Counted are the matrix products of the layers and of attention, as
    computed, masked places included; left out are embeddings, norms and softmax.
    """
    steps = 1 if one_step else length
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


def _layer(width: int, inner: int, d_ff: int, length: int, matrices: int = 2) -> float:
    """Self-attention (four projections, two products of length x length) and the feed-forward."""
    projections = 4 * width * inner * length
    attention = 2 * inner * length * length
    return 2.0 * (projections + attention + matrices * width * d_ff * length)


def _crossing(width: int, inner: int, length: int, steps: int) -> float:
    """A decoder's attention to the encoder: two projections on each side and the products."""
    return 2.0 * (2 * width * inner * (steps + length) + 2 * inner * steps * length)


def on_shape(shape: str, options: BenchOptions, settings: EvaluatorSettings) -> Figures:
    """Speed and share of the peak of both decoders, all rows of one length."""
    with tempfile.TemporaryDirectory() as name:
        build(SHAPES[shape], Path(name))
        settings = settings.model_copy(update={"weights": Path(name), "backend": "torch"})
        config = json.loads((Path(name) / "config.json").read_text("utf-8"))
        peak = peak_flops(settings, options.seconds)
        forms = (("as stored", AuthorsScorer), ("one step", OneStep))
        speeds = {form: measured(scorer(settings), settings, options) for form, scorer in forms}
    stored = speeds["as stored"]
    variants = []
    for form, speed in speeds.items():
        cost = flops(config, options.length, one_step=form == "one step")
        points = [
            asdict(point) | {"peak_share": 1000 * cost / point.model_ms_per_pair / peak}
            for point in speed.points
        ]
        lone = {"lone_p50_ms": speed.lone_p50_ms, "lone_p95_ms": speed.lone_p95_ms}
        variants.append({"name": form, "flops_per_pair": cost, **lone, "points": points})
    return {
        "evaluator": f"untrained {shape}", "machine": stored.machine, "backend": "torch",
        "precision": stored.precision, "peak_flops": peak, "options": asdict(options),
        "variants": variants,
    }  # fmt: skip


@torch.inference_mode()
def peak_flops(settings: EvaluatorSettings, seconds: float) -> float:
    """Operations a second of a square matrix product in the settings' precision, the best seen."""
    device, dtype = place(settings)
    side = 8192 if device.type == "cuda" else 1536
    left = torch.randn(side, side, device=device).to(dtype)
    best, until = 0.0, time.perf_counter() + seconds
    while best == 0.0 or time.perf_counter() < until:
        started = time.perf_counter()
        linear(left, left)  # the layout of the layers' weights: in bf16 CPUs care
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best = max(best, 2.0 * side**3 / (time.perf_counter() - started))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--pairs", type=int, default=256)
    parser.add_argument("--length", type=int, default=256, help="tokens of every pair")
    chosen = parser.parse_args()
    settings = EvaluatorSettings(device=chosen.device, precision=chosen.precision)
    options = BenchOptions(pairs=chosen.pairs, length=chosen.length)
    print(json.dumps(on_shape(chosen.shape, options, settings), indent=1))  # noqa: T201


if __name__ == "__main__":
    main()
