"""What a generator writes for held-out rows: greedy answers, their token F1 and coverage.

Coverage, the share of texts that hold a right answer, is the measure of arXiv 2407.01219, 3.8.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from evaluator.data.text import contains_answer, normal_form
from evaluator.tuning.encoding import TuningTokenizer
from evaluator.tuning.rows import TuningExample
from evaluator.tuning.self_rag import TOKEN

MAX_NEW_TOKENS = 64
_ROWS = 16  # written at once
_MARK = re.compile(r"\s*\[\d+\]")
_WORD = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[^\W\u3400-\u9fff\uf900-\ufaff]+")


@dataclass(frozen=True, slots=True)
class WrittenFigures:
    """Means over the rows, 0…1."""

    f1: float
    coverage: float
    rows: int


def write(
    network: Any,
    tokenizer: TuningTokenizer,
    examples: Sequence[TuningExample],
    max_new_tokens: int = MAX_NEW_TOKENS,
) -> list[str]:
    """What the network writes at temperature 0, in order, without its end."""
    prompts = [tokenizer.prompt_ids(example.prompt) for example in examples]
    order = sorted(range(len(prompts)), key=lambda n: len(prompts[n]))
    texts = [""] * len(prompts)
    device = next(network.parameters()).device
    for first in range(0, len(order), _ROWS):
        places = order[first : first + _ROWS]
        rows = [torch.tensor(prompts[n]) for n in places]
        # On the left: what is written follows the prompt.
        ids = pad_sequence(rows, True, tokenizer.pad, padding_side="left")
        mask = pad_sequence([torch.ones_like(row) for row in rows], True, padding_side="left")
        with torch.inference_mode():
            made = network.generate(
                input_ids=ids.to(device), attention_mask=mask.to(device), do_sample=False,
                max_new_tokens=max_new_tokens, pad_token_id=tokenizer.pad,
            )  # fmt: skip
        new = made if tokenizer.is_seq2seq else made[:, ids.shape[1] :]
        for n, text in zip(
            places, tokenizer.tokenizer.batch_decode(new, skip_special_tokens=True), strict=True
        ):
            texts[n] = text.strip()
    return texts


def figures(texts: Sequence[str], answers: Sequence[Sequence[str]]) -> WrittenFigures:
    plain = [_plain(text) for text in texts]
    pairs = list(zip(plain, answers, strict=True))
    count = max(1, len(pairs))
    f1 = sum(max((token_f1(text, _plain(a)) for a in right), default=0.0) for text, right in pairs)
    covered = sum(contains_answer(text, [_plain(a) for a in right]) for text, right in pairs)
    return WrittenFigures(round(f1 / count, 4), round(covered / count, 4), len(pairs))


def token_f1(text: str, answer: str) -> float:
    """Harmonic mean of precision and recall over words; a Chinese character counts as a word."""
    predicted, expected = Counter(_words(text)), Counter(_words(answer))
    common = sum((predicted & expected).values())
    return 2 * common / (predicted.total() + expected.total()) if common else 0.0


def _words(text: str) -> list[str]:
    return _WORD.findall(normal_form(text))


def _plain(text: str) -> str:
    """Without citation markers and reflection tokens."""
    return _MARK.sub("", TOKEN.sub(" ", text)).strip()
