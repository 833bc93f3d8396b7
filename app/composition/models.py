"""Models behind the graphs' ports: evaluator, grader, critic, compressors, by the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from app.errors import StartFailed
from app.settings import Settings
from evaluator.client import EvaluatorClient, WorkerError
from evaluator.schema import CompressMethod, Ready
from graphs.critics.evaluator import EvaluatorCritic
from graphs.critics.llm import LlmCritic
from graphs.critics.llm_grader import LlmEvaluator, Mode
from graphs.critics.self_rag import NativeCritic
from graphs.errors import CompressorFailed, EvaluatorFailed
from graphs.ports import Compressor, Critic, Evaluator
from graphs.types import Scores, Task, Thresholds

if TYPE_CHECKING:
    from app.llm.chat import EndpointChat
    from app.llm.self_rag_model import NativeGenerator

MODES: dict[str, Mode] = {
    "llm_direct": "direct",
    "llm_chain_of_thought": "chain_of_thought",
    "llm_few_shot": "few_shot",
}


class WorkerEvaluator:
    """Scores through a worker, in-process or over HTTP; made by `connect`."""

    def __init__(self, client: EvaluatorClient, name: str, thresholds: Thresholds) -> None:
        self._client = client
        self.name, self.thresholds = name, thresholds

    @classmethod
    async def connect(cls, client: EvaluatorClient, preset: Thresholds | None) -> WorkerEvaluator:
        """Asks the worker for its name and, without a preset, its thresholds. Raises WorkerError.

        Presets are for the authors' checkpoint, which only regresses: raises StartFailed where one
        is given for an evaluator that tells probabilities.
        """
        warm_up = await client.score("relevance", [("Is it warm?", "It is warm now.")])
        if preset is None:
            own = await client.thresholds()
            preset = Thresholds(own.upper, own.lower, own.strip_floor)
        elif any(warm_up.probabilities):
            raise StartFailed(
                "The thresholds of SELFCRAG_THRESHOLDS were made for the CRAG authors' evaluator, "
                f"not for {warm_up.model}: choose calibrated."
            )
        return cls(client, warm_up.model, preset)

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        try:
            response = await self._client.score(task, pairs)
        except WorkerError as error:
            raise EvaluatorFailed(str(error)) from error
        return Scores(tuple(response.scores), tuple(response.labels), tuple(response.probabilities))

    async def ready(self) -> bool:
        return await self._client.ready()


class WorkerCompressor:
    """One method of a worker's `POST /compress`."""

    def __init__(self, client: EvaluatorClient, method: CompressMethod) -> None:
        self._client, self._method = client, method

    async def compress(self, question: str, texts: Sequence[str], ratio: float) -> Sequence[str]:
        try:
            return (await self._client.compress(self._method, question, texts, ratio)).texts
        except WorkerError as error:
            raise CompressorFailed(str(error)) from error


def compressors_of(client: EvaluatorClient, worker: Ready) -> Mapping[str, Compressor]:
    """By the name they have among the options; none where the worker has no language model."""
    if worker.compressor is None:
        return {}
    return {method: WorkerCompressor(client, method) for method in get_args(CompressMethod)}


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
