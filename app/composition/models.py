"""Who grades passages and who judges drafts, as the settings choose them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.settings import Settings
from graphs.critics.evaluator import EvaluatorCritic
from graphs.critics.llm import LlmCritic
from graphs.critics.llm_grader import LlmEvaluator, Mode
from graphs.critics.self_rag import NativeCritic
from graphs.ports import Critic, Evaluator
from graphs.types import Scores, Task

if TYPE_CHECKING:
    from app.llm.chat import EndpointChat
    from app.llm.self_rag_model import NativeGenerator

MODES: dict[str, Mode] = {
    "llm_direct": "direct",
    "llm_chain_of_thought": "chain_of_thought",
    "llm_few_shot": "few_shot",
}


class GradedApart:
    """Relevance and thresholds by the grader, all other tasks by the evaluator."""

    def __init__(self, grader: Evaluator, evaluator: Evaluator) -> None:
        self._grader, self._evaluator = grader, evaluator
        self.name, self.thresholds = grader.name, grader.thresholds

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        judge = self._grader if task == "relevance" else self._evaluator
        return await judge.score(task, pairs)

    async def ready(self) -> bool:
        return await self._grader.ready() and await self._evaluator.ready()


def asks_chat(settings: Settings) -> bool:
    """Whether any part speaks to the chat endpoint."""
    return settings.generator == "openai" or settings.critic == "llm" or settings.grader in MODES


def chosen_grader(settings: Settings, chat: EndpointChat | None, evaluator: Evaluator) -> Evaluator:
    """What passages, strips and sentences are graded by."""
    if chat is None or settings.grader not in MODES:
        return evaluator
    by_chat = LlmEvaluator(chat, settings.openai_model, MODES[settings.grader])
    return GradedApart(by_chat, evaluator)


def chosen_critic(
    settings: Settings,
    chat: EndpointChat | None,
    native: NativeGenerator | None,
    evaluator: Evaluator,
) -> Critic:
    """The evaluator's own relevance where it is the critic: a call a sentence would be too many."""
    if settings.critic == "llm" and chat is not None:
        return LlmCritic(chat, settings.openai_model)
    if settings.critic == "native" and native is not None:
        return NativeCritic(native)
    return EvaluatorCritic(evaluator)
