"""Settles the token embeddings: their weighted mean learns to say what a text is about.

English learns from MiniLM's vectors of the same texts; Chinese, where MiniLM is blind, from which
passage answers which question. A mean of embeddings learns fast: minutes on one core.
"""

import random
from collections.abc import Callable, Sequence

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from evaluator.data.hard_negatives import Meaning
from evaluator.data.relevance_pairs import meaning_text
from evaluator.data.relevance_records import Record
from evaluator.model.t5 import EvaluatorModel

_SHARPNESS = 20.0  # inverse temperature of cosines when they compete
_LONGEST = 256


class _Side:
    """One language's questions and passages as token ids, with the teacher's vectors if any."""

    def __init__(self, records: Sequence[Record], tokenizer: Tokenizer, meaning: Meaning | None):
        asked = [r.question for r in records]
        told = [meaning_text(r) for r in records]
        self.asked, self.told = _ids(tokenizer, asked), _ids(tokenizer, told)
        places: dict[str, int] = {}
        self.passage = [places.setdefault(text, len(places)) for text in told]
        self.teacher: tuple[Tensor, Tensor] | None = None
        if meaning is not None:
            vectors = (torch.from_numpy(meaning.vectors(texts)) for texts in (asked, told))
            self.teacher = (next(vectors), next(vectors))


def _ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Tensor]:
    found = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return [torch.tensor(encoding.ids[:_LONGEST] or [0]) for encoding in found]


def distil(
    network: EvaluatorModel,
    tokenizer: Tokenizer,
    records: Sequence[Record],
    meaning: Meaning | None,
    steps: dict[str, int],
    seed: int,
    say: Callable[[str], None],
) -> None:
    """Train embeddings and pooling weights in place; `steps` by language, batches of 192."""
    loud = network.config.d_words**0.5
    table = nn.Parameter(network.words.weight.detach() / loud)
    first = network.interaction.token_weight.detach().abs().clamp(min=0.02)
    weight = nn.Parameter(first.log())
    for language, count in steps.items():
        mine = [r for r in records if r.language == language and r.question and r.relevant]
        taught = [r for r in mine if language == "zh" or is_short(r)]
        if len(taught) < 2:
            continue
        side = _Side(taught, tokenizer, meaning if language == "en" else None)
        loss = _settle(table, weight, side, count, seed)
        say(f"embeddings, {language}: {len(taught)} pairs, {count} steps, loss {loss:.3f}")
    with torch.no_grad():
        network.words.weight.copy_(table * loud)
        network.interaction.pool_weight.copy_(weight.exp())


def is_short(record: Record) -> bool:
    """Whether MiniLM, which reads 128 word pieces, can see the record's passage."""
    return bool(record.title) or len(record.passage) < 300


def _settle(table: Tensor, weight: Tensor, side: _Side, steps: int, seed: int) -> float:
    optimizer = torch.optim.Adam(
        [{"params": [table], "lr": 1e-3}, {"params": [weight], "lr": 1e-2}]
    )
    dice, size, running = random.Random(seed), min(192, len(side.asked)), 0.0
    for step in range(steps):
        numbers = dice.sample(range(len(side.asked)), size)
        questions = _means(table, weight, [side.asked[i] for i in numbers])
        passages = _means(table, weight, [side.told[i] for i in numbers])
        loss = _loss(questions, passages, side, numbers)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        for group, rate in zip(optimizer.param_groups, (1e-3, 1e-2), strict=True):
            group["lr"] = rate * (1 - step / steps)
        running = 0.95 * running + 0.05 * loss.item() if step else loss.item()
    return running


def _means(table: Tensor, weight: Tensor, rows: Sequence[Tensor]) -> Tensor:
    flat = torch.cat(list(rows))
    starts = torch.tensor([0, *(len(row) for row in rows[:-1])]).cumsum(0)
    shares = weight[flat].exp()
    summed = nn.functional.embedding_bag(flat, table, starts, mode="sum", per_sample_weights=shares)
    return nn.functional.normalize(summed, dim=-1)


def _loss(questions: Tensor, passages: Tensor, side: _Side, numbers: list[int]) -> Tensor:
    close = questions @ passages.T
    if side.teacher is None:
        places = torch.tensor([side.passage[i] for i in numbers])
        twin = (places[:, None] == places) & ~torch.eye(len(numbers), dtype=torch.bool)
        own = torch.arange(len(numbers))
        competing = (close * _SHARPNESS).masked_fill(twin, -1e9)
        return nn.functional.cross_entropy(competing, own)
    asked, told = (vectors[numbers] for vectors in side.teacher)
    wanted = asked @ told.T
    apart = (
        (close - wanted).square().mean()
        + (questions @ questions.T - asked @ asked.T).square().mean()
        + (passages @ passages.T - told @ told.T).square().mean()
    )
    choice = nn.functional.kl_div(
        (close * _SHARPNESS).log_softmax(1), (wanted * _SHARPNESS).softmax(1), reduction="batchmean"
    )
    return 10 * apart + choice
