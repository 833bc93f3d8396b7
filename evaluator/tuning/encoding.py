"""Token ids of rows, and which of them the loss counts: those the generator itself writes.

Prompt and passages are masked. In a Self-RAG output so is what stands between `<paragraph>` and
`</paragraph>`, as in the published training (arXiv 2310.11511, section 3.2.2): each passage on its
own, where the published code masks from the first opening to the last closing mark.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from evaluator.errors import WeightsError
from evaluator.inference.scorer import padded
from evaluator.tuning.rows import TuningExample
from evaluator.tuning.self_rag import PARAGRAPH, TOKENS

MASKED = -100
"""What cross-entropy leaves out."""

CHAT_TEMPLATE = (
    "{% for message in messages %}### {{ message['role'] | capitalize }}:\n"
    "{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}\n\n{% endfor %}"
    "{% if add_generation_prompt %}### Assistant:\n{% endif %}"
)
"""For a base model that has none: it is stored with the tuned one, so that servers use it too."""

_QUOTED = re.compile(rf"(?<={re.escape(PARAGRAPH[0])}).*?(?={re.escape(PARAGRAPH[1])})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class EncodedRow:
    """`ids` and `targets` are of equal length for a causal model; a T5 reads `ids` alone."""

    ids: tuple[int, ...]
    targets: tuple[int, ...]


class TuningTokenizer:
    """A model's tokenizer with what tuning needs: an end, a chat template, Self-RAG's tokens."""

    def __init__(self, tokenizer: Any, *, is_seq2seq: bool) -> None:
        if not tokenizer.is_fast:
            raise WeightsError("The tokenizer tells no places: tokenizer.json is needed.")
        if tokenizer.eos_token_id is None:
            raise WeightsError("The tokenizer names no end token: eos_token is needed.")
        if not tokenizer.chat_template and not is_seq2seq:
            tokenizer.chat_template = CHAT_TEMPLATE
        self.tokenizer, self.is_seq2seq = tokenizer, is_seq2seq
        pad = tokenizer.pad_token_id
        self.pad = tokenizer.eos_token_id if pad is None else pad

    def add_reflection_tokens(self) -> list[int]:
        """Their ids. They are ordinary words of the vocabulary, not special ones, which servers
        leave out of what they return."""
        # Not split, stripped or changed in case, wherever they stand.
        self.tokenizer.add_tokens(list(TOKENS))
        ids: list[int] = self.tokenizer.convert_tokens_to_ids(list(TOKENS))
        return ids

    def prompt_ids(self, prompt: tuple[dict[str, str], ...] | str) -> list[int]:
        """What a server makes of the prompt, up to where the model begins to write."""
        if isinstance(prompt, str):
            return self._ids(prompt, special=True)
        if self.is_seq2seq:  # knows no roles
            return self._ids("\n\n".join(each["content"] for each in prompt), special=True)
        return self._ids(self._chat(prompt, begins=True), special=False)

    def encode(self, example: TuningExample) -> EncodedRow:
        """The row with its end token; the loss counts neither the prompt nor quoted passages."""
        prompt, text = self.prompt_ids(example.prompt), self._written(example)
        read = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        quoted = [match.span() for match in _QUOTED.finditer(text)]
        written = list(read["input_ids"])
        targets = [
            MASKED if any(start <= a and b <= end for start, end in quoted) else token
            for token, (a, b) in zip(written, read["offset_mapping"], strict=True)
        ]
        end = self.tokenizer.eos_token_id
        if not written or written[-1] != end:
            written.append(end)
            targets.append(end)
        if self.is_seq2seq:
            return EncodedRow(tuple(prompt), tuple(targets))
        return EncodedRow((*prompt, *written), (*[MASKED] * len(prompt), *targets))

    def _written(self, example: TuningExample) -> str:
        """The answer as the chat template ends it."""
        if self.is_seq2seq or isinstance(example.prompt, str):
            return example.text
        prompt = self._chat(example.prompt, begins=True)
        answer = {"role": "assistant", "content": example.text}
        whole = self._chat((*example.prompt, answer), begins=False)
        return whole[len(prompt) :].rstrip() if whole.startswith(prompt) else example.text

    def _chat(self, messages: Sequence[dict[str, str]], *, begins: bool) -> str:
        text: str = self.tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=begins
        )
        return text

    def _ids(self, text: str, *, special: bool) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=special)["input_ids"]
        return ids


def batch(rows: Sequence[EncodedRow], pad: int) -> dict[str, Tensor]:
    """The network's inputs, padded on the right; padding is masked everywhere."""
    ids, mask = (torch.from_numpy(part) for part in padded(rows, pad))
    targets = [torch.tensor(row.targets) for row in rows]
    labels = pad_sequence(targets, batch_first=True, padding_value=MASKED)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}
