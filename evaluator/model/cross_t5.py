"""The former T5, of the shipped weights: question and passage read together in every layer.

One encoder reads both texts with attention across them in every layer. A token is told on which
side it stands and how long a run of tokens it shares with each other side. The decoder takes one
step, from the encoder's mean state and the task, and its state gives the logits of the reflection
tokens (monoT5's way, Nogueira et al., arXiv 2003.06713). From the encoder's states come the logits
of where the second text's answer begins and ends; the row's first token stands for "nowhere"
(SQuAD 2.0's way, Rajpurkar et al., arXiv 1806.03822).

Kept until weights of the late-joining T5 (evaluator/model/t5.py) are better on every held-out set.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import T5Config, T5Model

from evaluator.model.checkpoint import CROSS_ARCHITECTURE
from evaluator.model.t5 import FIRST_TASK, SIDES, sides_of
from evaluator.model.tokenization import REFLECTION_TOKENS, SPECIAL_TOKENS, UNKNOWN
from evaluator.schema import TASKS

RUN = 3  # shared runs of more tokens count as runs of this many


@dataclass
class CrossConfig:
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
    architecture: str = CROSS_ARCHITECTURE
    made_by: dict[str, Any] = field(default_factory=dict)


class CrossModel(nn.Module):
    """T5 with one decoder step over the reflection tokens, and a span output.

    `forward(ids, mask)` takes integer tensors (batch, length) and gives logits of
    REFLECTION_TOKENS, shape (batch, 13), and of the answer's first and last token, shape
    (batch, length, 2), -inf where neither can stand. Padding moves neither.
    """

    def __init__(self, config: CrossConfig) -> None:
        super().__init__()
        self.config = config
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
        present = mask.unsqueeze(2).to(encoded.dtype)
        mean = (encoded * present).sum(1) / present.sum(1)
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
        stream = stream.to(self._precision())
        bias = torch.where(seen, 0.0, torch.finfo(stream.dtype).min).to(stream.dtype).unsqueeze(1)
        for block in self.t5.encoder.block:
            stream = block(stream, position_bias=bias)[0]
        return root_normal(stream)

    def embedded(self, ids: Tensor) -> Tensor:
        """The stream before the first layer, for each token by itself."""
        read = self.t5.shared(ids) + self.positions.weight[: ids.shape[1]]
        # The 1 carries the biases of the layers that were taken over.
        return nn.functional.layer_norm(read, (self.config.d_model,)) + 1

    def _precision(self) -> torch.dtype:
        return next(self.t5.encoder.block.parameters()).dtype


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


def t5_config(config: CrossConfig) -> T5Config:
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


def built(config: dict[str, Any]) -> CrossModel:
    """A new network; TypeError for fields that it has not."""
    return CrossModel(CrossConfig(**config))
