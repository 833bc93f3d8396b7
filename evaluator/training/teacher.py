"""The pretrained encoder, untrained: how it ranks a question's passages by cosine.

As a teacher its soft targets keep what contrastive pretraining taught where the labelled sets say
little; as a baseline it tells what training is worth.
"""

from collections.abc import Sequence
from functools import cache
from itertools import chain

import torch
from tokenizers import Tokenizer
from torch import Tensor

from evaluator.inference.scorer import padded
from evaluator.model.t5 import autocast
from evaluator.model.tokenization import END, SEPARATOR, SPECIAL_TOKENS, PairTokenizer
from evaluator.schema import Row
from evaluator.training.pretrained_encoder import untrained

TEMPERATURE = 0.03  # of the cosines: they lie between .7 and .95
MAX_TOKENS = 512
_BATCH = 16
_BEGIN = SPECIAL_TOKENS.index("[task:relevance]")  # filled with the source's <s>
Ids = tuple[int, ...]


class Teacher:
    """multilingual-e5-small with the vocabulary of the network that it teaches, or its own."""

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        network, tokenizer = untrained(tokenizer)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        kind = "eager" if self._device.type == "cpu" else "sdpa"
        network.t5.encoder.set_attn_implementation(kind)
        self._encoder = network.to(self._device).requires_grad_(False)
        self._tokenizer = PairTokenizer(tokenizer, MAX_TOKENS)

    def cosines(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """The cosine of each pair's texts; -1 for a pair that cannot be read."""
        rows = self._tokenizer.encode("relevance", pairs)
        known = [_texts(row.ids) for row in rows if isinstance(row, Row)]
        places = {
            text: place for place, text in enumerate(dict.fromkeys(chain.from_iterable(known)))
        }
        vectors = self._vectors(list(places)).cpu() if places else torch.empty(0)
        values = iter([float(vectors[places[a]] @ vectors[places[b]]) for a, b in known])
        return [next(values) if isinstance(row, Row) else -1.0 for row in rows]

    def shares(self, groups: Sequence[Sequence[Ids]]) -> list[Tensor]:
        """For each question's rows the shares of their cosines' softmax; (rows,) each."""
        texts: list[Ids] = []
        for rows in groups:
            texts += [_texts(rows[0])[0], *(_texts(row)[1] for row in rows)]
        vectors = self._vectors(texts)
        shares, at = [], 0
        for rows in groups:
            cosines = vectors[at + 1 : at + 1 + len(rows)] @ vectors[at]
            shares.append((cosines / TEMPERATURE).softmax(0))
            at += 1 + len(rows)
        return shares

    @torch.no_grad()
    def _vectors(self, texts: Sequence[Ids]) -> Tensor:
        """Mean states of length 1, (texts, width), by the encoder's own prefixes."""
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        parts = []
        for first in range(0, len(order), _BATCH):
            rows = [Row(texts[place]) for place in order[first : first + _BATCH]]
            ids, mask = (torch.from_numpy(part).to(self._device) for part in padded(rows))
            with autocast(self._device):
                parts.append(self._encoder(ids, mask).float())
        back = torch.empty(len(order), dtype=torch.long)
        back[torch.tensor(order)] = torch.arange(len(order))
        return torch.cat(parts)[back.to(self._device)]


whole_encoder = cache(Teacher)  # with its whole vocabulary, read once


def cosines(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """The cosine of each pair's texts by the encoder with its whole vocabulary, untrained."""
    return whole_encoder().cosines(pairs)


def _texts(row: Ids) -> tuple[Ids, Ids]:
    """A row's two texts, each as the encoder was pretrained to read it alone."""
    cut = row.index(SEPARATOR)
    return (_BEGIN, *row[1:cut], END), (_BEGIN, *row[cut + 2 : -1], END)
