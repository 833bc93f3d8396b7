"""The evaluator as Self-RAG's critic: sentences judged for support, parts for coverage."""

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.runnables.utils import gather_with_concurrency

from graphs.errors import CriticFailed, EvaluatorFailed
from graphs.grading.relevance import best_of, mean_of
from graphs.grading.strips import evaluator_text
from graphs.ports import Evaluator, with_answer
from graphs.reflection.scores import SUPPORTED
from graphs.text.citations import answer_sentences, cited_numbers, without_markers
from graphs.text.inert_markup import is_quoted
from graphs.text.language import language_of
from graphs.text.questions import subquestions_of
from graphs.types import Bars, Draft, Judgement, Strip, Task, Usage
from prompts import prompt

COVERED = 0.0
"""Below it one of several parts is called uncovered: no sentence is of use for it (grade 3)."""


@dataclass(frozen=True, slots=True)
class JudgedSentence:
    """One sentence of a draft without its markers, and the strips that may carry it."""

    text: str
    evidence: tuple[Strip, ...]

    @property
    def is_quoted(self) -> bool:
        """Whether it stands word for word in its evidence, which supports it then."""
        linked = [strip.source for strip in self.evidence]
        return any(is_quoted(self.text, strip.full_text, linked) for strip in self.evidence)


class EvaluatorCritic:
    """Judges without a language model.

    A draft's relevance is that of its best strip, its support the mean over its sentences, each by
    the best of the strips it cites. Its utility is that of the whole answer; of a question of
    several parts the mean of it and of how well the best sentence serves each part.
    """

    def __init__(self, evaluator: Evaluator, bars: Bars | None = None) -> None:
        self._evaluator = evaluator
        self.name, self.bars = evaluator.name, bars or Bars()

    async def needs_retrieval(self, question: str) -> tuple[float, Usage]:
        pairs = _Pairs()
        place = pairs.add("retrieval", question, "")
        scores, usage = await self._scores(pairs)
        share = scores[place]
        if share is None:
            raise CriticFailed("The evaluator could not judge whether to retrieve.")
        return share, usage

    async def judge(
        self, question: str, drafts: Sequence[Draft]
    ) -> tuple[Sequence[Judgement], Usage]:
        pairs = _Pairs()
        examined = [_Examined(question, draft, pairs) for draft in drafts]
        scores, usage = await self._scores(pairs)
        return [draft.judgement(scores) for draft in examined], usage

    async def criticise(
        self, question: str, _draft: Draft, judgement: Judgement, /
    ) -> tuple[str, Usage]:
        return criticism_of(question, judgement), Usage()

    async def _scores(self, pairs: "_Pairs") -> tuple[dict["_Place", float | None], Usage]:
        """Scores of all pairs, one request per task, each pair once."""
        tasks = [task for task, of_task in pairs.by_task.items() if of_task]
        try:
            answers = await gather_with_concurrency(
                None,  # one request a task: the worker bounds what is under way
                *(self._evaluator.score(task, list(pairs.by_task[task])) for task in tasks),
            )
        except EvaluatorFailed as error:
            raise CriticFailed(str(error), error.usage) from error
        scores = {
            (task, *pair): value
            for task, answer in zip(tasks, answers, strict=True)
            for pair, value in zip(pairs.by_task[task], answer.values, strict=True)
        }
        spent = sum((answer.usage for answer in answers), Usage(scored_pairs=len(scores)))
        return scores, spent


_Place = tuple[Task, str, str]


class _Pairs:
    """The pairs to be scored, by task, in the order they were added."""

    def __init__(self) -> None:
        self.by_task: dict[Task, dict[tuple[str, str], None]] = {}

    def add(self, task: Task, first: str, second: str) -> _Place:
        self.by_task.setdefault(task, {})[first, second] = None
        return task, first, second


class _Examined:
    """The pairs of one draft, and the judgement that their scores make."""

    def __init__(self, question: str, draft: Draft, pairs: _Pairs) -> None:
        self._sentences = sentences_of(draft)
        parts = subquestions_of(question)
        self._strips = [
            pairs.add("relevance", each, evaluator_text(strip, with_title=True))
            for each in dict.fromkeys([question, *parts])
            for strip in draft.knowledge
        ]
        self._support = [
            [
                pairs.add("support", with_answer(question, sentence.text), strip.text)
                for strip in (() if sentence.is_quoted else sentence.evidence)
            ]
            for sentence in self._sentences
        ]
        self._utility = pairs.add("utility", question, without_markers(draft.answer_body))
        self._parts = {
            part: [pairs.add("utility", part, sentence.text) for sentence in self._sentences]
            for part in (parts if len(parts) > 1 else ())
        }

    def judgement(self, scores: dict[_Place, float | None]) -> Judgement:
        def best(places: Sequence[_Place]) -> float | None:
            return best_of(scores[place] for place in places)

        relevance = best(self._strips)
        judged = (
            (it.text, 1.0 if it.is_quoted else best(places))
            for it, places in zip(self._sentences, self._support, strict=True)
        )
        supports = tuple((text, support) for text, support in judged if support is not None)
        coverage = {part: best(places) for part, places in self._parts.items()}
        uncovered = tuple(
            part for part, value in coverage.items() if value is not None and value < COVERED
        )
        return Judgement(
            relevance=None if relevance is None else (relevance + 1) / 2,
            support=mean_of(support for _, support in supports),
            utility=mean_of([scores[self._utility], mean_of(coverage.values())]),
            supports=supports,
            weak=tuple(text for text, support in supports if support < SUPPORTED),
            uncovered=uncovered,
        )


def sentences_of(draft: Draft) -> list[JudgedSentence]:
    """The draft's sentences; one that cites nothing may rest on any strip of its knowledge."""
    judged = []
    for start, end in answer_sentences(draft.answer_body):
        line = draft.answer_body[start:end]
        named = [n for n in cited_numbers(line) or draft.cites if n <= len(draft.knowledge)]
        evidence = tuple(draft.knowledge[n - 1] for n in named) or draft.knowledge
        if text := without_markers(line).strip():
            judged.append(JudgedSentence(text, evidence))
    return judged


def criticism_of(question: str, judgement: Judgement) -> str:
    """What is held against a draft, a line each: weak sentences, then uncovered parts."""
    language = language_of(question)
    lines = [prompt("weak", language).render(sentence=text) for text in judgement.weak]
    lines += [prompt("uncovered", language).render(part=part) for part in judgement.uncovered]
    if not lines:
        is_supported = judgement.support is None or judgement.support >= SUPPORTED
        lines = [prompt("unhelpful" if is_supported else "unsupported", language).render()]
    return "\n".join(lines)
