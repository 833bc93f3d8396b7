"""The T5 of weights that read each text for itself: to be served, no longer to be trained.

It reads each text for itself, then both together, then takes one decoder step.

The own encoder layers let a token see its own text only, as in a sentence encoder. The joint ones
see both, told how well each token is matched on the other side; they begin as copies of the last
own layers. Relevance is weighed from coverage measures and the nearness of the two texts.

Quantization: in model.safetensors large matrices lie as integers, the rest as float16: a row w as
round(w / s) with one scale s a row, one byte a value, or four bits in the tables of words. Loading
gives exactly the floats that both backends compute with.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from transformers import T5Config, T5Model

from evaluator.errors import WeightsError
from evaluator.model import features
from evaluator.model.checkpoint import TENSORS_FILE
from evaluator.model.t5 import FIRST_TASK, SCALE, fill, root_normal
from evaluator.model.tokenization import REFLECTION_TOKENS
from evaluator.schema import TASKS

ARCHITECTURE = "selfcrag-t5-judgements"
NIBBLES = "nibbles"


@dataclass
class MeasuredConfig:
    """Everything needed to rebuild the model; `made_by` is the story of its making."""

    vocab_size: int
    cjk_start: int
    d_model: int = 384
    d_words: int = 256
    d_ff: int = 1536
    heads: int = 12
    own_layers: int = 6
    joint_layers: int = 2
    decoder_layers: int = 1
    max_length: int = 512
    tasks: list[str] = field(default_factory=lambda: list(TASKS))
    architecture: str = ARCHITECTURE
    made_by: dict[str, Any] = field(default_factory=dict)

    @property
    def fork(self) -> int:
        """The own layer after which the joint ones go their own way."""
        return max(0, self.own_layers - self.joint_layers)


class MeasuredModel(nn.Module):
    """T5 with one decoder step over the reflection tokens.

    `forward(ids, mask)` takes integer tensors (batch, length) and gives logits of
    REFLECTION_TOKENS, shape (batch, 13). Padding does not move them.
    """

    def __init__(self, config: MeasuredConfig) -> None:
        super().__init__()
        self.config = config
        width = config.d_model
        self.t5 = T5Model(t5_config(config))
        self.positions = nn.Embedding(config.max_length, width)
        self.meaning = nn.Linear(width, width)
        self.words = nn.Embedding(config.vocab_size, config.d_words)
        self.interaction = features.Interaction(config.vocab_size, config.d_words, config.cjk_start)
        pair_features = features.PAIR_FEATURES
        self.coverage = nn.Sequential(nn.Linear(pair_features, 64), nn.GELU(), nn.Linear(64, 1))
        measures = pair_features + features.CLOSENESS
        self.nearness = nn.Linear(measures + 1, 1)
        self.tasks = nn.Embedding(len(TASKS), width)
        self.sides = nn.Embedding(features.SIDES, width)
        self.matched = nn.Linear(features.TOKEN_FEATURES, width)
        self.spelt = nn.Linear(config.d_words, width, bias=False)
        self.phrases = features.Phrases()
        inputs = measures + 2 * width + config.d_words + features.PHRASE_WIDTH
        self.opening = nn.Linear(inputs, width)
        self.head = nn.Linear(width, len(REFLECTION_TOKENS))
        self.wide = nn.Linear(inputs, len(REFLECTION_TOKENS), bias=False)
        nn.init.normal_(self.tasks.weight, std=0.02)
        # Step 0 is the coverage alone, and joint layers that read what they were made to read.
        for part in (self.nearness, self.head, self.wide, self.sides, self.matched, self.spelt):
            for parameter in part.parameters():
                nn.init.zeros_(parameter)
        nn.init.ones_(self.nearness.weight[:, -1])

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """As `judged`, of rows of one task; relevance comes from the measures alone."""
        if ids[0, 0] == FIRST_TASK:
            measured = self.relevance(ids, mask)
            return measured, measured
        return self.judged(ids, mask)

    def judged(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The logits, and those of relevance as the measures alone give them."""
        inputs, decoded, measured = self.considered(ids, mask)
        logits: Tensor = self.wide(inputs) + self.head(decoded)
        return logits + measured, measured

    def considered(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return decoder input features, decoder state and the feature-only relevance logits."""
        words = self.words(ids)
        tokens, pair, question = self.interaction(ids, words)
        sides = features.sides_of(ids)
        lower, states = self.read(ids, sides, mask)
        meaning = self.meaning(states.float())
        measures = self._measured(ids, pair, meaning, sides, mask)

        task = self.tasks(ids[:, 0] - FIRST_TASK)
        loud = self.config.d_words**0.5
        known = self.matched(tokens) + self.spelt(words) + self.sides(sides) + task.unsqueeze(1)
        all_seen = mask.bool().unsqueeze(1).expand(-1, mask.shape[1], -1)
        own_layers, joint_layers = self.config.own_layers, self.config.joint_layers
        joint = lower + known.to(lower.dtype)
        both = root_normal(self._layers(joint, all_seen, own_layers, own_layers + joint_layers))
        means = [features.mean_of(meaning, sides, mask, side) for side in (0, 1)]
        phrases = self.phrases(ids, sides)
        inputs = torch.cat([measures[:, :-1], *means, question * loud, phrases], dim=1)
        decoded = self._decoded(self.opening(inputs) + task, both, mask)
        return inputs, decoded, self.placed(self.margin(measures))

    def relevance(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The logits of relevance rows, which the measures alone judge: the decoder rests."""
        return self.placed(self.margin(self.measures(ids, mask)))

    def measures(self, ids: Tensor, mask: Tensor) -> Tensor:
        """All measures of a pair, the coverage's own logit last: (batch, measures + 1)."""
        sides = features.sides_of(ids)
        _, pair, _ = self.interaction(ids, self.words(ids))
        meaning = self.meaning(self.read(ids, sides, mask)[1].float())
        return self._measured(ids, pair, meaning, sides, mask)

    def _measured(
        self, ids: Tensor, pair: Tensor, meaning: Tensor, sides: Tensor, mask: Tensor
    ) -> Tensor:
        near = features.closeness(ids, meaning, sides, mask, self.interaction.weight_of(ids))
        return torch.cat([pair, near, self.coverage(pair)], dim=1)

    def margin(self, measures: Tensor) -> Tensor:
        """The relevance logit from measures alone, shape (batch, 1).

        In Chinese the coverage's, as the layers that read each text know little of it.
        """
        chinese = measures[:, features.CHINESE : features.CHINESE + 1]
        weighed: Tensor = self.nearness(measures)
        return chinese * measures[:, -1:] + (1 - chinese) * weighed

    def read(self, ids: Tensor, sides: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Each text read for itself: the stream where the joint layers fork off, and the last
        states, of root mean square 1; both (batch, length, width)."""
        embedded = self.t5.shared(ids) + self.positions(features.places_of(sides))
        # The 1 carries biases.
        stream = nn.functional.layer_norm(embedded, (self.config.d_model,)) + 1
        own = (sides.unsqueeze(1) == sides.unsqueeze(2)) & mask.bool().unsqueeze(1)
        lower = self._layers(stream, own, 0, self.config.fork)
        return lower, root_normal(
            self._layers(lower, own, self.config.fork, self.config.own_layers)
        )

    def _layers(self, stream: Tensor, seen: Tensor, first: int, last: int) -> Tensor:
        """T5 blocks `first` to `last` under a mask (batch, length, length)."""
        precision = self._precision()
        bias = torch.where(seen, 0.0, torch.finfo(precision).min).to(precision).unsqueeze(1)
        stream = stream.to(precision)
        for block in self.t5.encoder.block[first:last]:
            stream = block(stream, position_bias=bias)[0]
        return stream

    def _decoded(self, opening: Tensor, encoded: Tensor, mask: Tensor) -> Tensor:
        """The decoder's one step: it opens with what is known, not with a fixed token."""
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


def t5_config(config: MeasuredConfig) -> T5Config:
    """The T5 inside, as transformers describes it."""
    t5 = T5Config(
        vocab_size=config.vocab_size,
        d_model=config.d_model,
        d_kv=config.d_model // config.heads,
        d_ff=config.d_ff,
        num_layers=config.own_layers + config.joint_layers,
        num_decoder_layers=config.decoder_layers,
        num_heads=config.heads,
        dropout_rate=0.0,  # each row is read once or twice: nothing to forget
        feed_forward_proj="gelu",
        pad_token_id=0,
        eos_token_id=1,
    )
    t5.decoder_start_token_id = 0  # transformers 5 has no default of its own
    return t5


def load(folder: Path, config: dict[str, Any]) -> MeasuredModel:
    """The folder's model in float32; WeightsError when names or shapes do not fit."""
    try:
        model = MeasuredModel(MeasuredConfig(**config))
    except TypeError as error:
        raise WeightsError(f"{folder / 'config.json'} does not fit: {error}") from error
    fill(model, folder / TENSORS_FILE, unpacked)
    return model.eval()


def unpacked(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors in float32, as computed with."""
    tensors: dict[str, Tensor] = {}
    for entry, value in stored.items():
        name, _, form = entry.partition("|")
        if not form:
            tensors[name] = value.float()
        elif form != SCALE:
            whole = value.float()
            if form == NIBBLES:
                right = (whole / 16).floor()
                whole = torch.cat([whole - 16 * right, right], dim=1) - 8
            tensors[name] = whole * stored[f"{name}|{SCALE}"].float()
    return tensors
