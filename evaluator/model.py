"""The evaluator's T5: encoder, one decoder step, and how question and passage touch.

The encoder reads `[task] question [SEP] passage </s>`. Beside its token embedding each token is
given how well it is matched on the other side, and the relevance logit starts from the classic
coverage measures: a small T5 trained for half an hour learns what these miss.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import T5Config, T5Model

from evaluator.errors import WeightsError
from evaluator.matching import PAIR_FEATURES, TOKEN_FEATURES, Interaction
from evaluator.pairs import REFLECTION_TOKENS

ARCHITECTURE = "selfcrag-t5-interaction"


@dataclass
class ModelConfig:
    """Everything needed to rebuild the model; `made_by` is the story of its making."""

    vocab_size: int
    cjk_start: int
    d_model: int = 256
    d_ff: int = 768
    heads: int = 4
    encoder_layers: int = 2
    decoder_layers: int = 1
    max_length: int = 512
    tasks: list[str] = field(default_factory=lambda: ["relevance"])
    architecture: str = ARCHITECTURE
    made_by: dict[str, Any] = field(default_factory=dict)


class EvaluatorModel(nn.Module):
    """T5 with one decoder step over the reflection tokens.

    `forward(ids, mask)` takes integer tensors (batch, length) and gives logits of
    REFLECTION_TOKENS, shape (batch, 13). Padding does not move them.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.t5 = T5Model(t5_config(config))
        self.interaction = Interaction(config.vocab_size, config.d_model, config.cjk_start)
        self.matched = nn.Linear(TOKEN_FEATURES, config.d_model)
        self.opening = nn.Linear(PAIR_FEATURES, config.d_model)
        self.asking = nn.Linear(config.d_model, config.d_model, bias=False)
        self.coverage = nn.Sequential(nn.Linear(PAIR_FEATURES, 64), nn.GELU(), nn.Linear(64, 1))
        self.head = nn.Linear(config.d_model, len(REFLECTION_TOKENS))
        nn.init.normal_(self.matched.weight, std=0.7)  # as loud as the embeddings
        nn.init.normal_(self.opening.weight, std=0.7)
        nn.init.zeros_(self.head.weight)  # step 0 is the coverage measures alone
        nn.init.zeros_(self.head.bias)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        embedded = self.t5.shared(ids)
        tokens, pair, question = self.interaction(ids, embedded)
        encoded = self.t5.encoder(
            inputs_embeds=(embedded + self.matched(tokens)).to(self._precision()),
            attention_mask=mask,
        ).last_hidden_state
        read = self._read(encoded, mask, pair, question)
        logits: Tensor = self.head(read)
        return logits + self.placed(self.coverage(pair))

    def coverage_only(self, ids: Tensor) -> Tensor:
        """The relevance logit before the T5 says anything, shape (batch,)."""
        _, pair, _ = self.interaction(ids, self.t5.shared(ids))
        margin: Tensor = self.coverage(pair)
        return margin.squeeze(1)

    def _read(self, encoded: Tensor, mask: Tensor, pair: Tensor, question: Tensor) -> Tensor:
        """The decoder's one step: it opens with coverage and question, not with a fixed token."""
        loud = question * self.config.d_model**0.5
        opening = self.opening(pair) + self.asking(loud)
        decoded: Tensor = self.t5.decoder(
            inputs_embeds=opening.unsqueeze(1).to(self._precision()),
            encoder_hidden_states=encoded,
            encoder_attention_mask=mask,
            use_cache=False,
        ).last_hidden_state
        return decoded[:, 0].float()

    def lowered(self, precision: torch.dtype) -> Self:
        """The model with its T5 in `precision`; embeddings and matching stay in float32."""
        t5: nn.Module = self.t5
        t5.to(precision)
        self.t5.shared.float()
        return self

    def _precision(self) -> torch.dtype:
        return next(self.t5.encoder.block.parameters()).dtype

    @staticmethod
    def placed(margin: Tensor) -> Tensor:
        return nn.functional.pad(margin, (0, len(REFLECTION_TOKENS) - 1))


def relevance_margin(logits: Tensor) -> Tensor:
    """log p(Relevant) - log p(Irrelevant), shape (batch,)."""
    return logits[:, 0] - logits[:, 1]


def t5_config(config: ModelConfig) -> T5Config:
    """The T5 inside, as transformers describes it."""
    t5 = T5Config(
        vocab_size=config.vocab_size,
        d_model=config.d_model,
        d_kv=config.d_model // config.heads,
        d_ff=config.d_ff,
        num_layers=config.encoder_layers,
        num_decoder_layers=config.decoder_layers,
        num_heads=config.heads,
        dropout_rate=0.1,
        feed_forward_proj="relu",
        pad_token_id=0,
        eos_token_id=1,
    )
    t5.decoder_start_token_id = 0  # transformers 5 has no default of its own
    return t5


def tensors(model: EvaluatorModel) -> dict[str, Tensor]:
    """The model's tensors by name, tied embeddings once."""
    return {name: value for name, value in model.state_dict().items() if "embed_tokens" not in name}


def save(model: EvaluatorModel, folder: Path) -> None:
    """Write config.json and model.safetensors (float16, rounded where it stores them)."""
    folder.mkdir(parents=True, exist_ok=True)
    stored = {name: value.detach().half().contiguous() for name, value in tensors(model).items()}
    save_file(stored, folder / "model.safetensors")
    text = json.dumps(asdict(model.config), indent=2, ensure_ascii=False)
    (folder / "config.json").write_text(text + "\n", encoding="utf-8")


def load(folder: Path, config: dict[str, Any]) -> EvaluatorModel:
    """The folder's model in float32; WeightsError when names or shapes do not fit."""
    try:
        model = EvaluatorModel(ModelConfig(**config))
    except TypeError as error:
        raise WeightsError(f"{folder / 'config.json'} does not fit: {error}") from error
    try:
        stored = load_file(folder / "model.safetensors")
        expected = tensors(model)
        if stored.keys() != expected.keys():
            different = sorted(stored.keys() ^ expected.keys())
            raise WeightsError(f"{folder}: tensors missing or unknown: {', '.join(different[:4])}")
        model.load_state_dict({k: v.float() for k, v in stored.items()}, strict=False)
    except (RuntimeError, SafetensorError) as error:
        raise WeightsError(f"{folder / 'model.safetensors'} does not fit: {error}") from error
    return model.eval()
