"""The evaluator's T5: encoder, one decoder step, and how question and passage touch.

The encoder reads `[task] question [SEP] passage </s>`. Beside its token embedding each token is
given how well it is matched on the other side, and the relevance logit starts from the classic
coverage measures: a small T5 trained for half an hour learns what these miss.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import T5Config, T5Model

from evaluator.errors import WeightsError
from evaluator.pairs import REFLECTION_TOKENS, SEPARATOR, SPECIAL_TOKENS

ARCHITECTURE = "selfcrag-t5-interaction"
WINDOW, STRIDE = 40, 8  # tokens of a passage window, and between two windows' starts
QUESTION = 65  # positions compared with the passage: the task's token and 64 of the question
TOKEN_FEATURES, PAIR_FEATURES = 9, 14


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


class Interaction(nn.Module):
    """Matches between the two sides, from token ids alone.

    Gives per token what it finds on the other side, shape (batch, length, TOKEN_FEATURES), per
    pair how the question is covered, shape (batch, PAIR_FEATURES), and the question's mean.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.cjk_start = config.cjk_start
        self.token_weight = nn.Parameter(torch.ones(config.vocab_size))
        self.pool_weight = nn.Parameter(torch.ones(config.vocab_size))
        self.turn = nn.Parameter(torch.eye(config.d_model))

    def forward(self, ids: Tensor, embedded: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        after = torch.cumsum((ids == SEPARATOR).float(), dim=1)
        text = (ids >= len(SPECIAL_TOKENS)).float()
        asked, told = text * (1 - after), text * after  # question and passage, (batch, length)
        weight = self.token_weight[ids].abs() * text
        unit = nn.functional.normalize(embedded @ self.turn, dim=-1)
        head, head_unit, head_asked = _head(ids), _head(unit), _head(asked)
        across = head_asked.unsqueeze(2) * told.unsqueeze(1)  # (batch, QUESTION, length)
        same = (head.unsqueeze(2) == ids.unsqueeze(1)).float() * across
        similar = torch.matmul(head_unit, unit.transpose(1, 2)).clamp(min=0) * across
        similar = torch.maximum(similar, same)
        twice = same * nn.functional.pad(same[:, 1:, 1:], (0, 1, 0, 1))  # starts of equal pairs
        sides = _Sides(asked, told, weight, head_asked, _head(weight))
        pooled = embedded * self.pool_weight[ids].unsqueeze(2)
        cjk = (ids >= self.cjk_start).float()
        question, alike = _alike(sides, pooled)
        tokens = _token_features(sides, similar, same, twice)
        covered = _covered(sides, similar, same, twice, cjk)
        return tokens, torch.stack([*alike, *covered], dim=-1), question


class _Sides(NamedTuple):
    """Which tokens belong to question and passage, and what they weigh; (batch, length)."""

    asked: Tensor
    told: Tensor
    weight: Tensor
    head_asked: Tensor  # the first QUESTION positions alone
    head_weight: Tensor


def _head(values: Tensor) -> Tensor:
    """The first QUESTION positions, where the question stands; short rows are filled with 0."""
    beyond = [0] * (2 * (values.dim() - 2)) + [0, QUESTION]
    return nn.functional.pad(values, beyond)[:, :QUESTION]


def _either_side(matches: Tensor) -> Tensor:
    """Each token's best match, whichever side it stands on: (batch, length)."""
    told = matches.amax(1)
    return torch.maximum(told, _back_in_row(matches.amax(2), told))


def _back_in_row(head: Tensor, row: Tensor) -> Tensor:
    return torch.cat([head, torch.zeros_like(row)], dim=1)[:, : row.shape[1]]


def _after_start(starts: Tensor) -> Tensor:
    return torch.maximum(starts, nn.functional.pad(starts[:, :-1], (1, 0)))


def _token_features(sides: _Sides, similar: Tensor, same: Tensor, twice: Tensor) -> Tensor:
    weight = sides.weight
    best, exact = _either_side(similar), _either_side(same)
    double = _after_start(_either_side(twice))
    matched = [best, best * weight, exact, exact * weight, double, double * weight]
    return torch.stack([sides.asked, sides.told, weight, *matched], dim=-1)


def _alike(sides: _Sides, pooled: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """The question's mean vector; its cosine with the passage's and with its best window's."""
    unit = nn.functional.normalize
    question = unit((pooled * sides.asked.unsqueeze(2)).sum(1), dim=-1)
    told = pooled * sides.told.unsqueeze(2)
    passage = unit(told.sum(1), dim=-1)
    windows = unit(_window_means(told.transpose(1, 2)), dim=1)
    # Windows of padding alone are 0: without the clamp they would outdo a negative best.
    best = torch.matmul(question.unsqueeze(1), windows).squeeze(1).amax(1).clamp(min=0)
    return question, ((question * passage).sum(1), best)


def _covered(
    sides: _Sides, similar: Tensor, same: Tensor, twice: Tensor, cjk: Tensor
) -> list[Tensor]:
    asked, told, weight = sides.asked, sides.told, sides.weight
    w = sides.head_weight * sides.head_asked
    following = nn.functional.pad(sides.head_asked[:, 1:], (0, 1)) * sides.head_asked
    pair_w = (w + nn.functional.pad(w[:, 1:], (0, 1))) * following
    best, exact = similar.amax(2), same.amax(2)
    return [
        _share(exact, w),
        _share(best, w),
        _best_window(same, w),
        _best_window(similar, w),
        _share(twice.amax(2), pair_w),
        _best_window(twice, pair_w),
        ((1 - exact) * w).amax(1),
        ((1 - best) * w).amax(1),
        _share(same.amax(1), weight * told),
        torch.log1p(told.sum(1)) / 6,
        torch.log1p(asked.sum(1)) / 4,
        _share(cjk, asked),
    ]


def _share(values: Tensor, weight: Tensor) -> Tensor:
    """Weighted mean over a row; 0 where nothing has weight."""
    return (values * weight).sum(1) / weight.sum(1).clamp(min=1e-3)


def _best_window(matches: Tensor, weight: Tensor) -> Tensor:
    """How much of the question one window of passage tokens covers, at best: (batch,)."""
    # Pooled as images of height 1: pooling in one dimension would fix the length in an export.
    padded = nn.functional.pad(matches, (0, WINDOW - 1)).unsqueeze(1)
    blocks = nn.functional.max_pool2d(padded, (1, STRIDE))
    windows = nn.functional.max_pool2d(blocks, (1, WINDOW // STRIDE), 1).squeeze(1)
    covered = torch.matmul(weight.unsqueeze(1), windows).squeeze(1)  # (batch, window)
    return covered.amax(1) / weight.sum(1).clamp(min=1e-3)


def _window_means(values: Tensor) -> Tensor:
    """Means over windows of positions: (batch, width, length) to (batch, width, window)."""
    padded = nn.functional.pad(values, (0, WINDOW - 1)).unsqueeze(1)
    blocks = nn.functional.avg_pool2d(padded, (1, STRIDE))
    return nn.functional.avg_pool2d(blocks, (1, WINDOW // STRIDE), 1).squeeze(1)


class EvaluatorModel(nn.Module):
    """T5 with one decoder step over the reflection tokens.

    `forward(ids, mask)` takes integer tensors (batch, length) and gives logits of
    REFLECTION_TOKENS, shape (batch, 13). Padding does not move them.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.t5 = T5Model(t5_config(config))
        self.interaction = Interaction(config)
        self.matched = nn.Linear(TOKEN_FEATURES, config.d_model)
        self.opening = nn.Linear(PAIR_FEATURES, config.d_model)
        self.asking = nn.Linear(config.d_model, config.d_model, bias=False)
        self.coverage = nn.Sequential(nn.Linear(PAIR_FEATURES, 32), nn.GELU(), nn.Linear(32, 1))
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
