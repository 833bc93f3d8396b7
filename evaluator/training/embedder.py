"""Embedder export: multilingual-e5-small in a folder of its own.

The encoder is the one that `train` begins from, untrained, with its whole vocabulary. Tensors and
graph are stored as an evaluator's are.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from evaluator.errors import DataError
from evaluator.model import t5
from evaluator.model.checkpoint import E5_ARCHITECTURE, EMBEDDER_FILE, TENSORS_FILE
from evaluator.training.onnx_export import write_graph
from evaluator.training.pretrained_encoder import untrained

_SIZES = ("d_model", "heads", "layers", "d_ff", "vocab_size", "max_length")


class TextEncoder(nn.Module):
    """`forward(ids, mask)` gives the mean states of texts as unit vectors, (batch, width)."""

    def __init__(self, network: t5.EvaluatorModel) -> None:
        super().__init__()
        self.t5 = network.t5

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        states = self.t5.encoder(
            input_ids=ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids)
        ).last_hidden_state
        return nn.functional.normalize(t5.mean_state(states, mask))


def build(out: Path, tokenizer: Tokenizer | None = None) -> Path:
    """Write the embedder, of all pieces or these, to `out`; DataError where it holds something."""
    if out.exists() and any(out.iterdir()):
        raise DataError(f"{out} is not empty.")  # it may hold an evaluator
    return write(*untrained(tokenizer), out)


def write(network: t5.EvaluatorModel, tokenizer: Tokenizer, out: Path) -> Path:
    """The network's encoder, its decoder left out, as an embedder."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(out / "tokenizer.json"))
    tensors = {n: v for n, v in t5.tensors(network).items() if n.startswith("t5.encoder.")}
    stored = t5.packed(tensors)
    save_file(stored, out / TENSORS_FILE)
    network.load_state_dict(t5.unpacked(stored), strict=False)  # the graph reads what is stored
    write_graph(TextEncoder(network), {"vectors": {0: "batch"}}, out / EMBEDDER_FILE)
    sizes = {name: getattr(network.config, name) for name in _SIZES}
    text = json.dumps({"architecture": E5_ARCHITECTURE, **sizes}, indent=2)
    (out / "config.json").write_text(text + "\n", encoding="utf-8")
    return out
