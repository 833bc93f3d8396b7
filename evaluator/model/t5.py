"""The evaluator's T5: question and passage read together, one decoder step, an answer's span.

The encoder begins as multilingual-e5-small (Wang et al., arXiv 2402.05672), biases and norms
included, in the place of T5's own, and reads both texts with attention across them in every layer.
The decoder is T5's and takes one step, from the encoder's mean state and the task, over the
reflection tokens (monoT5's way, Nogueira et al., arXiv 2003.06713). From the encoder's states come
the logits of where the second text's answer begins and ends; the row's first token stands for
"nowhere" (SQuAD 2.0's way, Rajpurkar et al., arXiv 1806.03822).

Quantization: in model.safetensors large matrices lie as one byte a value: a row w as round(w / s)
with one scale s a row; what is not trained, as the word table, as four bits a value, as it came:
blocks of 32 values with one scale each (llama.cpp's Q4_0); the rest as float16.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import BertConfig, BertModel, T5Config, T5Model

from evaluator.errors import WeightsError
from evaluator.model.checkpoint import (
    ARCHITECTURE,
    BLOCK,
    BYTES,
    NIBBLES,
    SCALE,
    TENSORS_FILE,
    WORDS,
)
from evaluator.model.tokenization import REFLECTION_TOKENS, SEPARATOR, SPECIAL_TOKENS, UNKNOWN
from evaluator.schema import TASKS

FIRST_TASK = SPECIAL_TOKENS.index(f"[task:{TASKS[0]}]")
SIDES = 3  # texts in a row, at most
PREFIX = 2  # tokens that say what a text is, "query:" or "passage:"
Network = TypeVar("Network", bound=nn.Module)
_SMALL = 16_384  # matrices of fewer values stay float16


@dataclass
class ModelConfig:
    """Everything needed to rebuild the model; `made_by` is the story of its making.

    An answer has to be likelier than none by `nowhere`, in log-odds of its first and last token.
    """

    vocab_size: int
    d_model: int = 384
    d_ff: int = 1536
    heads: int = 12
    layers: int = 12
    decoder_layers: int = 1
    max_length: int = 512
    nowhere: float = 0.0
    tasks: list[str] = field(default_factory=lambda: list(TASKS))
    architecture: str = ARCHITECTURE
    made_by: dict[str, Any] = field(default_factory=dict)


class EvaluatorModel(nn.Module):
    """T5 with a pretrained encoder, one decoder step over the reflection tokens, a span output.

    `forward(ids, mask)` takes integer tensors (batch, length) and gives logits of
    REFLECTION_TOKENS, shape (batch, 13), and of the answer's first and last token, shape
    (batch, length, 2), -1e9 where neither can stand. Padding moves neither.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.t5 = cast("Any", T5Model(_t5_config(config)))
        self.t5.encoder = BertModel(_encoder_config(config), add_pooling_layer=False)
        self.t5.set_input_embeddings(self.t5.encoder.get_input_embeddings())
        self.tasks = nn.Embedding(len(TASKS), config.d_model)
        self.head = nn.Linear(config.d_model, len(REFLECTION_TOKENS))
        self.span = nn.Linear(config.d_model, 2)
        nn.init.normal_(self.tasks.weight, std=0.02)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        sides = sides_of(ids)
        states = self.t5.encoder(
            input_ids=ids, attention_mask=mask, token_type_ids=sides
        ).last_hidden_state
        task = self.tasks(ids[:, 0] - FIRST_TASK)
        decoded = self.t5.decoder(
            inputs_embeds=(mean_state(states, mask) + task).unsqueeze(1),
            encoder_hidden_states=states,
            encoder_attention_mask=mask,
            use_cache=False,
        ).last_hidden_state[:, 0]
        second = (sides == 1) & ((ids >= len(SPECIAL_TOKENS)) | (ids == UNKNOWN))
        prefix = torch.cumsum(second.long(), dim=1) <= PREFIX
        is_first = torch.arange(ids.shape[1], device=ids.device) == 0
        can_answer = (second & ~prefix) | is_first
        spans = self.span(states).float().masked_fill(~can_answer.unsqueeze(2), -1e9)
        spans = spans + is_first.unsqueeze(1) * self.config.nowhere / 2
        return self.head(decoded).float(), spans


class TextEncoder(nn.Module):
    """The pretrained encoder alone, for texts read one by one.

    `forward(ids, mask)` gives the mean states of texts as unit vectors, (batch, width).
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        encoder = BertModel(_encoder_config(config), add_pooling_layer=False)
        self.t5 = cast("Any", nn.ModuleDict({"encoder": encoder}))  # the evaluator's names

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        states = self.t5.encoder(
            input_ids=ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids)
        ).last_hidden_state
        return nn.functional.normalize(mean_state(states, mask))


def mean_state(states: Tensor, mask: Tensor) -> Tensor:
    """The mean over the tokens of the mask: (batch, width)."""
    present = mask.unsqueeze(2).to(states.dtype)
    return (states * present).sum(1) / present.sum(1).clamp(min=1)


def autocast(device: torch.device) -> torch.autocast:
    """bf16 on a GPU and on a CPU that multiplies it (AVX-512 BF16, AMX), else no change."""
    fast = device.type == "cuda" or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return torch.autocast(device.type, torch.bfloat16, enabled=fast)


def sides_of(ids: Tensor) -> Tensor:
    """Which text each token belongs to: 0, 1 or 2; a separator ends the text before it."""
    ends = (ids == SEPARATOR).long()
    return (torch.cumsum(ends, dim=1) - ends).clamp(max=SIDES - 1)


def _t5_config(config: ModelConfig) -> T5Config:
    t5 = T5Config(
        vocab_size=config.vocab_size,
        d_model=config.d_model,
        d_kv=config.d_model // config.heads,
        d_ff=config.d_ff,
        num_layers=0,  # the encoder is another
        num_decoder_layers=config.decoder_layers,
        num_heads=config.heads,
        dropout_rate=0.0,  # training sets its own
        feed_forward_proj="gelu",
        pad_token_id=0,
        eos_token_id=1,
    )
    t5.decoder_start_token_id = 0  # transformers 5 has no default of its own
    return t5


def _encoder_config(config: ModelConfig) -> BertConfig:
    return BertConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.d_model,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        intermediate_size=config.d_ff,
        max_position_embeddings=config.max_length,
        type_vocab_size=SIDES,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        pad_token_id=0,
    )


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """The model's tensors by name, tied embeddings once."""
    state = model.state_dict()
    tied = ("embed_tokens", "t5.shared.") if WORDS in state else ("embed_tokens",)
    return {n: value for n, value in state.items() if not any(part in n for part in tied)}


def save(model: EvaluatorModel, folder: Path) -> None:
    """Write config.json and model.safetensors, rounded as `packed` does."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(packed(tensors(model)), folder / TENSORS_FILE)
    text = json.dumps(asdict(model.config), indent=2, ensure_ascii=False)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")


def built_encoder(config: dict[str, Any]) -> TextEncoder:
    """A new encoder; TypeError for fields that it has not."""
    return TextEncoder(ModelConfig(**config))


def built(config: dict[str, Any]) -> EvaluatorModel:
    """A new network; TypeError for fields that it has not."""
    return EvaluatorModel(ModelConfig(**config))


def load(
    folder: Path,
    config: dict[str, Any],
    build: Callable[[dict[str, Any]], Network] = built,  # type: ignore[assignment]
    words: Path | None = None,
) -> Network:
    """The folder's model in float32; WeightsError when names or shapes do not fit.

    `words` is the folder of the word table, where that is another.
    """
    try:
        model = build(config)
    except TypeError as error:
        raise WeightsError(f"{folder / 'config.json'} does not fit: {error}") from error
    path = folder / TENSORS_FILE
    try:
        stored = unpacked({**(word_table(words) if words else {}), **load_file(path)})
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


def word_table(folder: Path) -> dict[str, Tensor]:
    """The folder's word table as stored."""
    stored = load_file(folder / TENSORS_FILE)
    return {name: value for name, value in stored.items() if name.partition("|")[0] == WORDS}


def packed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors as stored: `name|bytes` or `name|nibbles` with `name|scale`, or float16.

    A matrix that came as blocks of four bits and was not trained since is stored so again.
    """
    stored: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if value.ndim != 2 or value.numel() < _SMALL:
            stored[name] = value.detach().half().contiguous()
            continue
        if value.shape[1] % BLOCK == 0:
            pairs, scale = _nibbles(value)
            if name == WORDS or torch.equal(_of_nibbles(pairs, scale), value):
                stored[f"{name}|{NIBBLES}"], stored[f"{name}|{SCALE}"] = pairs, scale
                continue
        scale = (value.abs().amax(1, keepdim=True) / 127).clamp(min=1e-6).half()
        stored[f"{name}|{SCALE}"] = scale
        whole = (value / scale.float()).round().clamp(-127, 127)
        stored[f"{name}|{BYTES}"] = whole.to(torch.int8)
    return stored


def _nibbles(value: Tensor) -> tuple[Tensor, Tensor]:
    """Q4_0: bytes (rows, width / 2), low nibbles a block's first half, and scales a block."""
    blocks = value.detach().reshape(len(value), -1, BLOCK)
    extreme = blocks.gather(2, blocks.abs().argmax(2, keepdim=True))
    scale = (extreme / -8).half()
    inverse = torch.where(scale == 0, 0.0, 1 / scale.float())
    whole = (blocks * inverse + 8.5).floor().clamp(0, 15).to(torch.uint8)
    low, high = whole.chunk(2, dim=2)
    return (low | high << 4).flatten(1), scale.squeeze(2)


def _of_nibbles(pairs: Tensor, scale: Tensor) -> Tensor:
    blocks = pairs.reshape(len(pairs), -1, BLOCK // 2)
    whole = torch.cat([blocks & 15, blocks >> 4], dim=2).float() - 8
    return (whole * scale.float().unsqueeze(2)).flatten(1)


def unpacked(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors in float32, as computed with."""
    tensors: dict[str, Tensor] = {}
    for entry, value in stored.items():
        name, _, form = entry.partition("|")
        if not form:
            tensors[name] = value.float()
        elif form == BYTES:
            tensors[name] = value.float() * stored[f"{name}|{SCALE}"].float()
        elif form == NIBBLES:
            tensors[name] = _of_nibbles(value, stored[f"{name}|{SCALE}"])
    return tensors
