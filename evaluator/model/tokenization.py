"""Tokenization of pairs: two texts as one row of token ids, special tokens in them neutralised.

Rows are `[task] query: question [SEP] [task] passage: passage </s>`: the encoder was pretrained
with these prefixes, and the task's token stands where it began its texts. Support, where the
passage must cover the answer, has the question as a third text. In rows of pairs the word `query`
is one unknown piece, as every evaluator so far was trained; a text alone has the prefix in full.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from opencc import OpenCC
from tokenizers import Encoding, Tokenizer

from evaluator.errors import WeightsError
from evaluator.schema import ANSWER_MARK, LABELS, TASKS, Row, Task, judged_as

PAD, END, UNKNOWN, SEPARATOR = range(4)
REFLECTION_TOKENS = tuple(label for task in TASKS for label in LABELS[task])
SPECIAL_TOKENS = (
    "<pad>",
    "</s>",
    "[UNK]",
    "[SEP]",
    *(f"[task:{task}]" for task in TASKS),
    *REFLECTION_TOKENS,
)
"""The vocabulary's first entries, in this order; texts cannot spell them."""


def stored_form(token: str) -> str:
    """A special token as tokenizer.json has it: no text holds a blank once it is cut."""
    return f" {token}"


CHARS_PER_TOKEN = 16  # more text than this can only be blanks or one endless word

_AT_ONCE = 2048  # pairs: an encoding is much larger than its row
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")


class PairTokenizer:
    """Cuts the passage to the room there is; the question may take a quarter of it."""

    def __init__(self, tokenizer: Tokenizer, max_length: int) -> None:
        self._tokenizer = tokenizer
        self._converter = OpenCC("t2s")
        self._max_length = max_length
        self._query, self._passage = (
            [tokenizer.token_to_id(piece) or UNKNOWN for piece in (f"▁{name}", ":")]
            for name in ("query", "passage")
        )
        self._query_alone: list[int] = tokenizer.encode("query:", add_special_tokens=False).ids

    @classmethod
    def from_folder(cls, folder: Path, max_length: int) -> Self:
        """The folder's tokenizer.json; WeightsError when missing or not made by `train`."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise WeightsError(f"{path} is missing.")
        tokenizer = Tokenizer.from_file(str(path))
        if any(
            tokenizer.id_to_token(i) not in (t, stored_form(t))
            for i, t in enumerate(SPECIAL_TOKENS)
        ):
            raise WeightsError(f"{path} is not the tokenizer of an evaluator of this project.")
        return cls(tokenizer, max_length)

    def encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        """A row a pair, or the reason why it cannot be scored; one bad pair spoils no other."""
        parts = (pairs[at : at + _AT_ONCE] for at in range(0, len(pairs), _AT_ONCE))
        return [row for part in parts for row in self._encode(task, part)]

    def encode_alone(self, texts: Sequence[str], *, are_questions: bool) -> list[Row]:
        """A row a text as the pretrained encoder reads it by itself: its prefix first, cut to fit.

        `[task] query: question </s>` or `[task] passage: passage </s>`.
        """
        prefix = self._query_alone if are_questions else self._passage
        start = (SPECIAL_TOKENS.index(f"[task:{TASKS[0]}]"), *prefix)
        room = self._max_length - len(start) - 1
        return [Row((*start, *read.ids[:room], END)) for read in self._encoded(texts)]

    def _encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        threes = [_in_order(task, first, second) for first, second in pairs]
        read = self._encoded([text for three in threes for text in three])
        rows = [
            self._row(judged_as(task), *(text.ids for text in read[3 * i : 3 * i + 3]))
            for i in range(len(pairs))
        ]
        if task != "answer":
            return rows
        return [
            row
            if isinstance(row, str)
            else replace(row, offsets=tuple(text.offsets[: len(row.ids) - 1 - row.begins]))
            for row, text in zip(rows, read[1::3], strict=True)
        ]

    def _encoded(self, texts: Sequence[str]) -> list[Encoding]:
        read = [self._simplified(text[: self._max_length * CHARS_PER_TOKEN]) for text in texts]
        return self._tokenizer.encode_batch(read, add_special_tokens=False)

    def _simplified(self, text: str) -> str:
        """Traditional characters as Simplified ones, most of what training reads; offsets hold."""
        converted: str = text if text.isascii() else self._converter.convert(text)
        return converted if len(converted) == len(text) else text

    def _row(self, task: Task, first: list[int], second: list[int], third: list[int]) -> Row | str:
        if not first:
            return "The first text holds nothing to read."
        if not second and task != "retrieval":
            return "The second text holds nothing to read."
        first, third = first[: self._max_length // 4], third[: self._max_length // 8]
        task_id = SPECIAL_TOKENS.index(f"[task:{task}]")
        end = [SEPARATOR, task_id, *self._query, *third, END] if third else [END]
        start = [task_id, *self._query, *first, SEPARATOR, task_id, *self._passage]
        room = self._max_length - len(start) - len(end)
        return Row((*start, *second[:room], *end), begins=len(start))


def _in_order(task: Task, first: str, second: str) -> tuple[str, str, str]:
    """The texts as the row holds them: what is to be covered, what covers it, and the rest."""
    if task != "support":
        return first, second, ""
    question, mark, answer = first.partition(ANSWER_MARK)
    return (answer, second, question) if mark else (first, second, "")


def neutraliser(special_tokens: Iterable[str]) -> Callable[[str], str]:
    """A function that breaks these strings with a blank wherever a text spells them.

    For tokenizers that read special tokens out of plain text: an end token inside a passage
    makes T5's heads refuse the whole batch. T5's tokenizer folds wide letters and drops
    invisible ones first, so a text that spells a token only then is returned folded and broken.
    """
    longest_first = sorted((token for token in special_tokens if token), key=len, reverse=True)
    if not longest_first:
        return lambda text: text
    spelt = re.compile("|".join(re.escape(token) for token in longest_first))

    def broken(text: str) -> str:
        return spelt.sub(lambda token: f"{token.group()[0]} {token.group()[1:]}", text)

    def neutral(text: str) -> str:
        as_written = broken(text)
        folded = _INVISIBLE.sub("", unicodedata.normalize("NFKC", as_written))
        return broken(folded) if spelt.search(folded) else as_written

    return neutral
