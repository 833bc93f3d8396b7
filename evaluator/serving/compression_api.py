"""`POST /compress`: texts shortened by the self-information of their tokens.

A causal language model says how surprising each token is; what is kept is decided here, without
PyTorch.
"""

import asyncio
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

from evaluator.errors import TooManyPairs
from evaluator.inference.scorer import LanguageModel, ScoredToken
from evaluator.schema import CompressRequest, CompressResponse
from evaluator.serving.batching import Permits

MAX_CHARS = 200_000
"""Of all texts of a request: minutes of work for a small model on a CPU."""

SPREAD = 0.25
"""How much more of the best text is kept than asked, and less of the worst (delta tau, 4.2)."""

_LEADS = {
    False: "We can get the answer to this question in the given text.",
    True: "从给定的文字中可以得到这个问题的答案。",
}
_CLAUSE_END = re.compile(r"[，、；：。！？…\n]+[”’」』）】》]*|[,;:.!?]+[\"')\]]*(?=\s|$)")
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")

Span = tuple[int, int]
_Part = tuple[int, list["Unit"]]  # a text's tokens, and what is kept of it


class Compressing:
    """One text after another in a thread of its own; a request that has left stops between two."""

    def __init__(self, model: LanguageModel, max_texts: int) -> None:
        self.model = model
        self._permits = Permits(max_texts)
        self._thread = ThreadPoolExecutor(1, "evaluator-compressing")

    async def compress(self, body: CompressRequest) -> CompressResponse:
        """Raises TooManyPairs for too long texts, Overloaded where too many wait."""
        chars = sum(map(len, body.texts)) + len(body.question)
        if chars > MAX_CHARS:
            raise TooManyPairs(f"{chars:,} characters in one request; at most {MAX_CHARS:,}.")
        shortened = self._selected if body.method == "selective_context" else self._contrasted
        with self._permits.taken(len(body.texts)):
            parts = await shortened(body)
        return CompressResponse(
            texts=[
                excerpt(text, units) for text, (_, units) in zip(body.texts, parts, strict=True)
            ],
            model=self.model.name,
            before_tokens=sum(before for before, _ in parts),
            after_tokens=sum(unit.tokens for _, units in parts for unit in units),
        )

    async def _selected(self, body: CompressRequest) -> list[_Part]:
        """Of every text the clauses that say most (Li et al., arXiv 2310.06201)."""
        parts = []
        for text in body.texts:
            tokens = await self._tokens(text)
            units = weighed(clauses(text), tokens)
            parts.append((len(tokens), fitting(units, body.ratio)))
        return parts

    async def _contrasted(self, body: CompressRequest) -> list[_Part]:
        """The words that the question makes likelier, more of them from those texts that make the
        question likelier (LongLLMLingua, Jiang et al., arXiv 2310.06839, 4.1 and 4.2).
        """
        question = f"{body.question}\n{_LEADS[bool(_HAN.search(body.question))]}"
        surprise = []
        for text in body.texts:
            nats = [token.nats for token in await self._tokens(question, text)]
            surprise.append(sum(nats) / max(1, len(nats)))
        parts = []
        for text, ratio in zip(body.texts, shares(surprise, body.ratio), strict=True):
            alone = await self._tokens(text)
            given_question = await self._tokens(text, f"{body.question}\n")
            units = weighed(words(text, alone), minus(alone, given_question))
            parts.append((len(alone), fitting(units, ratio)))
        return parts

    async def _tokens(self, text: str, before: str = "") -> list[ScoredToken]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self.model.tokens, text, before)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of a text that is kept or left out whole; `nats` is the mean over its tokens."""

    start: int
    end: int
    nats: float
    tokens: int


def clauses(text: str) -> list[Span]:
    """Spans between marks, each with the mark that ends it, outer blanks aside."""
    cuts = [0, *(match.end() for match in _CLAUSE_END.finditer(text)), len(text)]
    spans = (_trimmed(text, a, b) for a, b in pairwise(cuts))
    return [span for span in spans if span]


def words(text: str, tokens: Sequence[ScoredToken]) -> list[Span]:
    """Spans of whole words, and between ideographs, which no blank parts, of the model's tokens."""
    spans: list[Span] = []
    for token in tokens:
        span = _trimmed(text, token.start, token.end)
        if span is None:
            continue
        start, end = spans[-1] if spans else (0, 0)
        is_one_word = end == span[0] and not _HAN.search(text[end - 1 : span[0] + 1])
        if spans and (span[0] < end or is_one_word):
            spans[-1] = (start, max(span[1], end))
        else:
            spans.append(span)
    return spans


def _trimmed(text: str, start: int, end: int) -> Span | None:
    piece = text[start:end]
    if not piece.strip():
        return None
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())


def weighed(spans: Sequence[Span], tokens: Sequence[ScoredToken]) -> list[Unit]:
    """Each span with the tokens that begin in it; of one that no token begins in, nothing known."""
    units, place = list[Unit](), 0
    for start, end in spans:
        nats: list[float] = []
        while place < len(tokens) and tokens[place].start < end:
            if tokens[place].end > start:
                nats.append(tokens[place].nats)
            place += 1
        units.append(Unit(start, end, sum(nats) / len(nats) if nats else 0.0, len(nats)))
    return units


def minus(alone: Sequence[ScoredToken], given_question: Sequence[ScoredToken]) -> list[ScoredToken]:
    """How much less surprising each token is once the question is known."""
    return [
        replace(one, nats=one.nats - other.nats)
        for one, other in zip(alone, given_question, strict=True)
    ]


def fitting(units: Sequence[Unit], ratio: float) -> list[Unit]:
    """The most telling units in their order, as many as come nearest to this share of the tokens.

    At least one, unless the share is 0; of equal ones the earlier.
    """
    budget = ratio * sum(unit.tokens for unit in units)
    chosen: list[Unit] = []
    taken = 0.0
    for unit in sorted(units, key=lambda unit: -unit.nats):
        if chosen and taken + unit.tokens / 2 > budget:
            break
        if ratio > 0:
            chosen.append(unit)
        taken += unit.tokens
    return sorted(chosen, key=lambda unit: unit.start)


def excerpt(text: str, units: Sequence[Unit]) -> str:
    """The units joined: with what stood between them, or a blank where a gap held one."""
    joined, last = "", None
    for unit in units:
        if last is not None:
            gap = text[last.end : unit.start]
            joined += gap if not gap.strip() else " " * any(map(str.isspace, gap))
        joined += text[unit.start : unit.end]
        last = unit
    return joined


def shares(surprise: Sequence[float], ratio: float) -> list[float]:
    """The share kept of each text: of the least surprising one most, SPREAD more than `ratio`."""
    count = len(surprise)
    if count < 2 or ratio >= 1:
        return [ratio] * count
    spread = [0.0] * count
    for rank, place in enumerate(sorted(range(count), key=surprise.__getitem__)):
        spread[place] = min(1.0, max(0.0, ratio + SPREAD * (1 - 2 * rank / (count - 1))))
    return spread
