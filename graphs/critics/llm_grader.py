"""A chat model as CRAG's evaluator: relevance by a yes or no, asked in one of three ways (table 4).

One call a pair. Other tasks need a model that grades them: the T5 evaluator.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.runnables.utils import gather_with_concurrency

from graphs.critics import structured_output
from graphs.errors import EvaluatorFailed, GeneratorFailed
from graphs.generation.prompts import text_of
from graphs.text.language import language_of
from graphs.text.prompt_injection import as_data, without_control_tokens
from graphs.text.sentences import IDEOGRAPHS, sentence_spans
from graphs.types import Scores, Task, Thresholds, Usage
from prompts import prompt

Mode = Literal["direct", "chain_of_thought", "few_shot"]

THRESHOLDS = Thresholds(upper=0.5, lower=-0.5, strip_floor=-0.5)
"""Nothing calibrates a model that anyone may name: an action asks for odds of three to one, p(yes)
of 3/4 or 1/4, and strips are dropped on the same odds. Without log-probabilities, where scores are
1 and -1 alone, any bounds between decide alike and nothing is Ambiguous."""

_YES, _NO = ("yes", "是"), ("no", "否", "不")
_WORD = r"(\byes\b|\bno\b|是(?!否)|否|不)"
_LABELLED = re.compile(rf"^[^\w\n]*+(?:answer|回答)\W*{_WORD}", re.IGNORECASE | re.MULTILINE)
_FIRST = re.compile(rf"\A\W*{_WORD}", re.IGNORECASE)
# "no" before a word is one of its sentence, 是 within one the copula.
_HAN = f"[{IDEOGRAPHS}]"
_STATED = re.compile(
    rf"(\byes\b|\bno\b(?! \w)|(?:(?<!{_HAN})|(?<=答案是)|(?<=回答是)|(?<=答案为))[是否](?!{_HAN}))",
    re.IGNORECASE,
)


class LlmEvaluator:
    """Scores are 2·p(yes) - 1, or 1 and -1 where the endpoint tells no log-probabilities."""

    def __init__(self, chat: BaseChatModel, name: str, mode: Mode) -> None:
        self._chat = structured_output.FallbackChat(
            chat, structured_output.LOG_PROBABILITIES, structured_output.PLAIN
        )
        self._mode = mode
        self.name = f"{name} ({mode.replace('_', ' ')})"
        self.thresholds = THRESHOLDS

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        """None for a pair whose call failed or whose reply says neither.

        Raises EvaluatorFailed where no pair was scored, and for other tasks than relevance.
        """
        if task != "relevance":
            raise EvaluatorFailed(
                f"A language model as grader judges relevance alone, not {task};"
                " choose the grader evaluator for it."
            )
        results = await gather_with_concurrency(None, *(self._scored(*pair) for pair in pairs))
        values = tuple(value for value, _, _ in results)
        usage = sum((each for _, _, each in results), Usage())
        usage = replace(usage, grading_calls=usage.llm_calls, grading_tokens=usage.tokens)
        if pairs and all(value is None for value in values):
            raise EvaluatorFailed(next(why for _, why, _ in results if why), usage)
        return Scores(values, usage)

    async def ready(self) -> bool:
        """Endpoints have no question for it: the first call shows."""
        return True

    async def _scored(self, question: str, passage: str) -> tuple[float | None, str, Usage]:
        """The score, or None and why; what it has cost."""
        language = language_of(question)
        body = prompt(f"relevance_{self._mode}", language).render(
            question=without_control_tokens(question), passage=as_data(passage)
        )
        system = SystemMessage(prompt("relevance_system", language).render())
        try:
            reply, usage = await self._chat.reply([system, HumanMessage(body)])
        except GeneratorFailed as error:
            return None, str(error), error.usage
        value = _score_of(reply)
        why = "" if value is not None else f"{self.name} said neither yes nor no."
        return value, why, usage


def _score_of(reply: AIMessage) -> float | None:
    """By the last word labelled in a line of its own, the first word, or the last sentence's."""
    text = text_of(reply)
    labelled = list(_LABELLED.finditer(text))
    match = labelled[-1] if labelled else _FIRST.search(text) or _stated(text)
    if match is None:
        return None
    weights = structured_output.token_probabilities(reply, _spoken(match))
    yes, no = (sum(weights.get(word, 0.0) for word in words) for words in (_YES, _NO))
    if yes + no > 0:
        return 2 * yes / (yes + no) - 1
    return 1.0 if match[1].casefold() in _YES else -1.0


def _stated(text: str) -> re.Match[str] | None:
    """The verdict of the last sentence, if it says yes or no and not both."""
    start, end = next(reversed(sentence_spans(text)), (0, 0))
    verdicts = list(_STATED.finditer(text, start, end))
    return verdicts[-1] if len({each[1].casefold() in _YES for each in verdicts}) == 1 else None


def _spoken(match: re.Match[str]) -> re.Pattern[bytes]:
    """Where the decisive word stands among the tokens, thoughts among them."""
    before = match[0][: match.start(1) - match.start()]
    return re.compile(re.escape(before.encode()) + b"(" + re.escape(match[1].encode()) + b")")
