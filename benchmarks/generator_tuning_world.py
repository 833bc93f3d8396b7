"""A small world for tuning a generator: towers, bridges, rivers, gates and markets of some places.

Its base model is trained from nothing in a minute: it reads facts and repeats them, and was never
asked anything. Numbers are typical of their kind, as in the world, so that so small a model can
tell which of two numbers a question asks for. A demonstration of the machinery, not of what a
language model knows.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from evaluator.data.records import Record
from evaluator.tuning.contexts import CONTEXTS, context_rows
from evaluator.tuning.encoding import TuningTokenizer, batch
from evaluator.tuning.rows import TuningExample, TuningRow, messages_of

_FIRST = ("Ka", "Bel", "Dor", "Fen", "Gil", "Hur")
_LAST = ("mor", "dan", "wick", "ster", "vale", "holm")
_ZH_FIRST, _ZH_LAST = "临安定东南云", "海阳宁川关泉"
NAMES = {
    "en": [first + last for first in _FIRST for last in _LAST],
    "zh": [first + last for first in _ZH_FIRST for last in _ZH_LAST],
}
KINDS: dict[str, tuple[tuple[str, str, str, int], ...]] = {
    "en": (
        ("Towers", "The tower of {} is {} metres high.", "How high is the tower of {}?", 20),
        ("Bridges", "The bridge at {} is {} metres long.", "How long is the bridge at {}?", 120),
        ("Rivers", "The river through {} is {} km long.", "How long is the river through {}?", 300),
        ("Gates", "The gate of {} was built in {}.", "When was the gate of {} built?", 1510),
        ("Markets", "The market of {} has {} stalls.", "How many stalls has {}?", 70),
    ),
    "zh": (
        ("塔", "{}的塔高{}米。", "{}的塔有多高？", 20),
        ("桥", "{}的桥长{}米。", "{}的桥有多长？", 120),
        ("河", "流过{}的河长{}公里。", "流过{}的河有多长？", 300),
        ("门", "{}的城门建于{}年。", "{}的城门建于哪一年？", 1510),
        ("市场", "{}的市场有{}个摊位。", "{}的市场有多少摊位？", 70),
    ),
}
"""By language: title, fact, question and the least of forty typical numbers."""
NUMBERS = 40
POSITIONS = 1024


def records(count: int, seed: int) -> list[Record]:
    """Questions with the passage that answers; the numbers differ from record to record."""
    rng = random.Random(seed)
    made = []
    for number in range(count):
        language = ("en", "zh")[number % 2]
        (title, _, question, _), name, value, passage = _fact(language, rng)
        asked = question.format(name)
        made.append(Record("places", language, asked, (value,), True, title, passage))
    return made


def texts(seed: int) -> Iterator[tuple[str, str]]:
    """What the base reads, and what it is to say then: two facts, and one of them again."""
    rng = random.Random(seed)
    while True:
        language = rng.choice(("en", "zh"))
        said = [_fact(language, rng)[3] for _ in range(2)]
        yield "\n".join(said), f"\n{rng.choice(said)}"


def samples(tuned: list[TuningRow]) -> list[str]:
    """What the tokenizer is made from: the base's texts and the words of the rows."""
    asked = [message["content"] for row in tuned for message in messages_of(row)]
    return [*("".join(parts) for parts in itertools.islice(texts(9), 2000)), *asked]


def rows(count: int, seed: int) -> dict[str, list[TuningRow]]:
    """Of the same records the rows of each context; a random passage is of another kind."""
    known = records(count, seed)
    return {
        name: [
            replace(row, group=row.question)
            for row in context_rows(known, name, seed, lambda each: each.title)
        ]
        for name in CONTEXTS
    }


def _fact(language: str, rng: random.Random) -> tuple[tuple[str, str, str, int], str, str, str]:
    """Kind, name, value and the sentence."""
    kind = rng.choice(KINDS[language])
    name, value = rng.choice(NAMES[language]), str(kind[3] + rng.randrange(NUMBERS))
    return kind, name, value, kind[1].format(name, value)


def tokenizer(known: list[str], size: int = 1000) -> Any:
    """Byte-level BPE: reads whatever a prompt holds."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=["<s>", "</s>", "<pad>"], initial_alphabet=alphabet,
        show_progress=False,
    )  # fmt: skip
    made.train_from_iterator(known, trainer)
    fast: Any = transformers.PreTrainedTokenizerFast
    return fast(tokenizer_object=made, bos_token="<s>", eos_token="</s>", pad_token="<pad>")


def base_model(
    folder: Path, known: list[str], steps: int, seed: int = 1, width: int = 64, count: int = 32
) -> list[float]:
    """A Llama of two layers trained on `texts`, written to `folder`; its losses by step."""
    torch.manual_seed(seed)
    reader = tokenizer(known)
    config = transformers.LlamaConfig(
        vocab_size=len(reader), hidden_size=width, intermediate_size=2 * width,
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
        max_position_embeddings=POSITIONS, bos_token_id=reader.bos_token_id,
        eos_token_id=reader.eos_token_id, pad_token_id=reader.pad_token_id,
    )  # fmt: skip
    network = transformers.LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=0.01)
    source, losses = texts(seed), list[float]()
    encoder = TuningTokenizer(reader, is_seq2seq=False)
    for step in range(steps):
        for part in optimizer.param_groups:
            part["lr"] = 2e-3 * min((step + 1) / 50, 1 - 0.9 * step / steps)
        rows = [
            encoder.encode(TuningExample(*parts, (), ""))
            for parts in itertools.islice(source, count)
        ]
        loss = network(**batch(rows, encoder.pad)).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
    network.save_pretrained(folder)
    reader.save_pretrained(folder)
    return losses
