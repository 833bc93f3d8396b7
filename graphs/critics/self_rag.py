"""A Self-RAG model as the critic of its own drafts and of others'."""

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from graphs.critics.evaluator import criticism_of
from graphs.critics.llm import each_judged
from graphs.errors import CriticFailed, GeneratorFailed
from graphs.generation.answer import one_passage
from graphs.ports import ReflectiveGenerator
from graphs.types import Bars, Draft, Judgement, Strip, Usage


class SelfJudging(ReflectiveGenerator, Protocol):
    """A reflective generator that also judges what it did not write."""

    async def wants_retrieval(self, question: str) -> tuple[float, Usage]:
        """p(Retrieval) normalised at the first token. Raises GeneratorFailed."""
        ...

    async def judge(
        self, question: str, answer: str, passage: Strip | None
    ) -> tuple[Judgement, Usage]:
        """Its reflection tokens beside a given answer. Raises GeneratorFailed."""
        ...


class NativeCritic:
    """Takes the judgement that came with a draft; asks the model about drafts without one."""

    bars = Bars()

    def __init__(self, generator: SelfJudging) -> None:
        self._generator = generator
        self.name = generator.name

    async def needs_retrieval(self, question: str) -> tuple[float, Usage]:
        try:
            return await self._generator.wants_retrieval(question)
        except GeneratorFailed as error:
            raise CriticFailed(str(error), error.usage) from error

    async def judge(
        self, question: str, drafts: Sequence[Draft]
    ) -> tuple[Sequence[Judgement], Usage]:
        return await each_judged(partial(self._judged, question), drafts)

    async def criticise(
        self, question: str, _draft: Draft, judgement: Judgement, /
    ) -> tuple[str, Usage]:
        return criticism_of(question, judgement), Usage()

    async def _judged(self, question: str, draft: Draft) -> tuple[Judgement, Usage]:
        if draft.judgement is not None:
            return draft.judgement, Usage()
        return await self._generator.judge(question, draft.answer, one_passage(draft.knowledge))
