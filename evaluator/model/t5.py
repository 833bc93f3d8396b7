"""The evaluator's T5: question and passage read together, one decoder step, an answer's span.

One encoder reads both texts with attention across them in every layer. A token is told on which
side it stands and how long a run of tokens it shares with each other side. The decoder takes one
step, from the encoder's mean state and the task, and its state gives the logits of the reflection
tokens (monoT5's way, Nogueira et al., arXiv 2003.06713). From the encoder's states come the logits
of where the second text's answer begins and ends; the row's first token stands for "nowhere"
(SQuAD 2.0's way, Rajpurkar et al., arXiv 1806.03822).

Quantization: in model.safetensors large matrices lie as one byte a value: a row w as round(w / s)
with one scale s a row; the rest as float16. Loading gives exactly the floats that both backends
compute with.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import T5Config, T5Model

from evaluator.errors import WeightsError
from evaluator.model.checkpoint import ARCHITECTURE, TENSORS_FILE
from evaluator.model.tokenization import (
    REFLECTION_TOKENS,
    SEPARATOR,
    SPECIAL_TOKENS,
    UNKNOWN,
)
from evaluator.schema import TASKS

FIRST_TASK = SPECIAL_TOKENS.index(f"[task:{TASKS[0]}]")
BYTES, SCALE = "bytes", "scale"
SIDES = 3  # texts in a row, at most
RUN = 3  # shared runs of more tokens count as runs of this many
_SMALL = 16_384  # matrices of fewer values stay float16


@dataclass
class ModelConfig:
    """Everything needed to rebuild the model; `made_by` is the story of its making."""

    vocab_size: int
    cjk_start: int
    d_model: int = 384
    d_ff: int = 1536
    heads: int = 12
    layers: int = 6
    decoder_layers: int = 1
    max_length: int = 512
    tasks: list[str] = field(default_factory=lambda: list(TASKS))
    architecture: str = ARCHITECTURE
    made_by: dict[str, Any] = field(default_factory=dict)


class EvaluatorModel(nn.Module):
    """T5 with one decoder step over the reflection tokens, and a span output.

    `forward(ids, mask)` takes integer tensors (batch, length) and gives logits of
    REFLECTION_TOKENS, shape (batch, 13), and of the answer's first and last token, shape
    (batch, length, 2), -inf where neither can stand. Padding moves neither. `reads_across` False
    masks attention between the texts off, to measure what it contributes.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.reads_across = True
        width = config.d_model
        self.t5 = T5Model(t5_config(config))
        self.positions = nn.Embedding(config.max_length, width)
        self.sides = nn.Embedding(SIDES, width)
        self.matches = nn.Embedding(SIDES * (RUN + 1), width)
        self.tasks = nn.Embedding(len(TASKS), width)
        self.head = nn.Linear(width, len(REFLECTION_TOKENS))
        self.span = nn.Linear(width, 2)
        nn.init.normal_(self.positions.weight, std=0.02)
        nn.init.normal_(self.tasks.weight, std=0.02)
        for part in (self.sides, self.matches):  # at first the layers read what they know
            nn.init.zeros_(part.weight)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        sides = sides_of(ids)
        encoded = self.encoded(ids, sides, mask)
        kept = mask.unsqueeze(2).to(encoded.dtype)
        mean = (encoded * kept).sum(1) / kept.sum(1)
        task = self.tasks(ids[:, 0] - FIRST_TASK)
        decoded = self.t5.decoder(
            inputs_embeds=(mean + task).unsqueeze(1),
            encoder_hidden_states=encoded,
            encoder_attention_mask=mask,
            use_cache=False,
        ).last_hidden_state[:, 0]
        can_answer = ((ids >= len(SPECIAL_TOKENS)) | (ids == UNKNOWN)) & (sides == 1)
        can_answer = can_answer | (torch.arange(ids.shape[1], device=ids.device) == 0)
        places = self.span(encoded).float().masked_fill(~can_answer.unsqueeze(2), -1e9)
        return self.head(decoded).float(), places

    def encoded(self, ids: Tensor, sides: Tensor, mask: Tensor) -> Tensor:
        """The encoder's last states, of root mean square 1; (batch, length, width)."""
        stream = self.embedded(ids) + self.sides(sides)
        for side, run in enumerate(shared_runs(ids, sides)):
            stream = stream + self.matches(run + side * (RUN + 1))
        seen = mask.bool().unsqueeze(1).expand(-1, ids.shape[1], -1)
        if not self.reads_across:
            seen = seen & (sides.unsqueeze(1) == sides.unsqueeze(2))
        stream = stream.to(self._precision())
        bias = torch.where(seen, 0.0, torch.finfo(stream.dtype).min).to(stream.dtype).unsqueeze(1)
        for block in self.t5.encoder.block:
            stream = block(stream, position_bias=bias)[0]
        return root_normal(stream)

    def embedded(self, ids: Tensor) -> Tensor:
        """The stream before the first layer, for each token by itself."""
        read = self.t5.shared(ids) + self.positions.weight[: ids.shape[1]]
        # The 1 carries biases: evaluator/training/minilm_transplant.py.
        return nn.functional.layer_norm(read, (self.config.d_model,)) + 1

    def _precision(self) -> torch.dtype:
        return next(self.t5.encoder.block.parameters()).dtype


def sides_of(ids: Tensor) -> Tensor:
    """Which text each token belongs to: 0, 1 or 2; a separator ends the text before it."""
    ends = (ids == SEPARATOR).long()
    return (torch.cumsum(ends, dim=1) - ends).clamp(max=SIDES - 1)


def shared_runs(ids: Tensor, sides: Tensor) -> list[Tensor]:
    """For each side the longest run of tokens, RUN at most, that each token shares with it.

    Shapes (batch, length); 0 on the side itself and where nothing is shared.
    """
    text = ids >= len(SPECIAL_TOKENS)
    same = (ids.unsqueeze(1) == ids.unsqueeze(2)) & text.unsqueeze(1) & text.unsqueeze(2)
    same = (same & (sides.unsqueeze(1) != sides.unsqueeze(2))).float()
    ahead = nn.functional.pad(same[:, 1:, 1:], (0, 1, 0, 1))
    pairs = same * ahead  # where a run of two begins
    threes = pairs * nn.functional.pad(ahead[:, 1:, 1:], (0, 1, 0, 1))
    longest = same
    for begins, size in ((pairs, 2), (threes, 3)):
        for offset in range(size):  # every token of the run
            moved = nn.functional.pad(begins, (offset, 0, offset, 0))
            longest = torch.maximum(longest, size * moved[:, : ids.shape[1], : ids.shape[1]])
    return [
        (longest * (sides == side).unsqueeze(1).float()).amax(2).long() for side in range(SIDES)
    ]


def root_normal(stream: Tensor) -> Tensor:
    """Scaled to a root mean square of 1 a token, as T5 reads its stream."""
    return stream * torch.rsqrt(stream.square().mean(-1, keepdim=True) + 1e-6)


def t5_config(config: ModelConfig) -> T5Config:
    """The T5 inside, as transformers describes it."""
    t5 = T5Config(
        vocab_size=config.vocab_size,
        d_model=config.d_model,
        d_kv=config.d_model // config.heads,
        d_ff=config.d_ff,
        num_layers=config.layers,
        num_decoder_layers=config.decoder_layers,
        num_heads=config.heads,
        dropout_rate=0.0,  # training sets its own
        feed_forward_proj="gelu",
        pad_token_id=0,
        eos_token_id=1,
    )
    t5.decoder_start_token_id = 0  # transformers 5 has no default of its own
    return t5


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """The model's tensors by name, tied embeddings once."""
    return {name: value for name, value in model.state_dict().items() if "embed_tokens" not in name}


def save(model: EvaluatorModel, folder: Path) -> None:
    """Write config.json and model.safetensors, rounded as `packed` does."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(packed(tensors(model)), folder / TENSORS_FILE)
    text = json.dumps(asdict(model.config), indent=2, ensure_ascii=False)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")


def load(folder: Path, config: dict[str, Any]) -> EvaluatorModel:
    """The folder's model in float32; WeightsError when names or shapes do not fit."""
    try:
        model = EvaluatorModel(ModelConfig(**config))
    except TypeError as error:
        raise WeightsError(f"{folder / 'config.json'} does not fit: {error}") from error
    path = folder / TENSORS_FILE
    try:
        stored = unpacked(load_file(path))
    except (RuntimeError, KeyError, SafetensorError) as error:
        raise WeightsError(f"{path} does not fit: {error}") from error
    expected = tensors(model)
    if stored.keys() != expected.keys():
        different = ", ".join(sorted(stored.keys() ^ expected.keys())[:4])
        raise WeightsError(f"{path} is refused: tensors missing or unknown: {different}.")
    for name, value in expected.items():
        if stored[name].shape != value.shape:
            raise WeightsError(
                f"{path} is refused: {name} has shape {tuple(stored[name].shape)} where "
                f"config.json asks for {tuple(value.shape)}."
            )
    model.load_state_dict(stored, strict=False)
    return model.eval()


def packed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as stored: `name|bytes` with `name|scale`, or float16."""
    stored: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if value.ndim != 2 or value.numel() < _SMALL:
            stored[name] = value.detach().half().contiguous()
            continue
        scale = (value.abs().amax(1, keepdim=True) / 127).clamp(min=1e-6).half()
        stored[f"{name}|{SCALE}"] = scale
        whole = (value / scale.float()).round().clamp(-127, 127)
        stored[f"{name}|{BYTES}"] = whole.to(torch.int8)
    return stored


def unpacked(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors in float32, as computed with."""
    tensors: dict[str, Tensor] = {}
    for entry, value in stored.items():
        name, _, form = entry.partition("|")
        if not form:
            tensors[name] = value.float()
        elif form == BYTES:
            tensors[name] = value.float() * stored[f"{name}|{SCALE}"].float()
    return tensors
