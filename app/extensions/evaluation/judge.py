"""Judges of answers by RAGAs' measures (arXiv 2309.15217): the evaluator, or a language model.

Faithfulness: sentences of the answer that follow from the knowledge. Context relevancy: sentences
of the knowledge that help. Answer relevancy: how well the answer serves the question; a sentence
that stands in the knowledge is as relevant as where it stands, for a bare name answers by what is
said around it. Correctness: whether a gold answer follows from the answer.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

from langchain_core.language_models import BaseChatModel

from app.extensions.evaluation.matching import holds, tokens
from app.extensions.evaluation.measures import UNGRADED, Judged, Outcome
from app.extensions.evaluation.questions import EvaluationQuestion
from app.extensions.evaluation.statistics import share
from app.schemas.ask import GradedStrip
from graphs.critics.assessor import Assessor
from graphs.ports import Evaluator, with_answer
from graphs.text.citations import cited_numbers, without_markers
from graphs.text.inert_markup import is_quoted
from graphs.text.sentences import sentences
from graphs.types import Task, Usage

MAX_CONTEXT_SENTENCES = 40
MAX_STRIPS = 10
MAX_GOLD = 5
HELPS = 0.0
"""Above it, of -1…1, a sentence of the knowledge counts as relevant."""


class Judge(Protocol):
    """Judges one answer. Raises EvaluatorFailed, CriticFailed or GeneratorFailed."""

    @property
    def name(self) -> str: ...

    async def judge(
        self, question: EvaluationQuestion, outcome: Outcome
    ) -> tuple[Judged, Usage]: ...


class EvaluatorJudge:
    """The evaluator: relevance of each sentence, support of each claim.

    A sentence that is quoted from the knowledge is supported by it.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self.name = evaluator.name

    async def judge(self, question: EvaluationQuestion, outcome: Outcome) -> tuple[Judged, Usage]:
        if outcome.abstained:
            return Judged(), Usage()
        text = question.question
        strips = outcome.kept_strips[:MAX_STRIPS]
        lines = [line for strip in strips for line in sentences(strip.text)]
        context = lines[:MAX_CONTEXT_SENTENCES]
        claims = [standing_in(context, claim) or claim for claim, _ in claims_of(outcome)]
        graded = list(dict.fromkeys([*context, *claims]))
        scores = await self._scores("relevance", [(text, line) for line in graded])
        relevance = dict(zip(graded, scores, strict=True))
        golds = question.answers[:MAX_GOLD]
        correct = await self._scores(
            "support", [(with_answer(text, gold), said_of(outcome)) for gold in golds]
        )
        supports, support_pairs = await self._supports(text, outcome, strips)
        judged = Judged(
            context_relevancy=share([relevance[line] > HELPS for line in context]),
            answer_relevancy=share([(relevance[claim] + 1) / 2 for claim in claims]),
            correctness=max(correct, default=None),
            supports=supports,
        )
        pairs = len(relevance) + len(golds) + support_pairs
        return judged, Usage(scored_pairs=pairs)

    async def _supports(
        self, question: str, outcome: Outcome, strips: Sequence[GradedStrip]
    ) -> tuple[list[tuple[float, dict[int, float]]], int]:
        """By the knowledge and by each citation; and how many pairs were scored."""
        evidence = list(_evidence(question, outcome, strips))
        pairs = list(dict.fromkeys(pair for _, _, pending in evidence for pair in pending.values()))
        scores = dict(zip(pairs, await self._scores("support", pairs), strict=True))
        judged = []
        for cited, quoted, pending in evidence:
            by = dict.fromkeys(quoted, 1.0) | {key: scores[pair] for key, pair in pending.items()}
            judged.append((max(by.values(), default=0.0), {n: by[key] for n, key in cited.items()}))
        return judged, len(pairs)

    async def _scores(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """What cannot be scored counts as the lowest."""
        if not pairs:
            return []
        scores = await self._evaluator.score(task, pairs)
        least = UNGRADED if task == "relevance" else 0.0
        return [least if score is None else score for score in scores.values]


def _evidence(
    question: str, outcome: Outcome, strips: Sequence[GradedStrip]
) -> Iterator[tuple[dict[int, str], set[str], dict[str, tuple[str, str]]]]:
    """Of each claim the strips that it cites and quotes, and the pairs to score by strip.

    A sentence that is quoted from a strip needs no other one.
    """
    texts = {strip.id: strip.text for strip in strips}
    texts |= {each.strip_id: each.text for each in outcome.citations}
    by_number = {each.n: each.strip_id for each in outcome.citations}
    sources = [document.source for document in outcome.documents]
    for claim, numbers in claims_of(outcome):
        cited = {n: by_number[n] for n in numbers if n in by_number}
        quoted = {key for key, text in texts.items() if is_quoted(claim, text, sources)}
        keys = (set(cited.values()) if quoted else set(texts)) - quoted
        answered = with_answer(question, claim)
        yield cited, quoted, {key: (answered, texts[key]) for key in sorted(keys)}


class ModelJudge:
    """A language model, called once per answer."""

    def __init__(self, chat: BaseChatModel, name: str) -> None:
        self.name = name
        self._assessor = Assessor(chat)

    async def judge(self, question: EvaluationQuestion, outcome: Outcome) -> tuple[Judged, Usage]:
        if outcome.abstained:
            return Judged(), Usage()
        numbers = {each.strip_id: each.n for each in outcome.citations}
        context = [
            (numbers.get(strip.id), line)
            for strip in outcome.kept_strips[:MAX_STRIPS]
            for line in sentences(strip.text)
        ][:MAX_CONTEXT_SENTENCES]
        claims, gold = claims_of(outcome), question.answers[:MAX_GOLD]
        assessment, usage = await self._assessor.assess(question.question, context, claims, gold)
        helpful, weak = set(assessment.helpful), set(assessment.unsupported)
        wrong = {(each.sentence, each.citation) for each in assessment.miscited}
        judged = Judged(
            context_relevancy=share([n in helpful for n in range(1, len(context) + 1)]),
            answer_relevancy=(assessment.relevance - 1) / 4,
            correctness=assessment.correct / 2 if gold else None,
            supports=[
                (float(n not in weak), {c: float((n, c) not in wrong) for c in cited})
                for n, (_, cited) in enumerate(claims, start=1)
            ],
        )
        return judged, usage


def said_of(outcome: Outcome) -> str:
    """The answer without markers and without what it names as not found."""
    answer = outcome.answer.rpartition("\n\n")[0] if outcome.missing else outcome.answer
    return without_markers(answer).strip()


def claims_of(outcome: Outcome) -> list[tuple[str, list[int]]]:
    """The answer's sentences without markers, and the numbers that each cites."""
    end = len(outcome.answer.rpartition("\n\n")[0]) if outcome.missing else len(outcome.answer)
    spans = [(it.start, it.end) for it in outcome.sentences if it.start < end]
    texts = [outcome.answer[start:stop] for start, stop in spans] or [outcome.answer[:end]]
    claims = [(without_markers(text).strip(), cited_numbers(text)) for text in texts]
    return [(text, numbers) for text, numbers in claims if text]


def standing_in(lines: Sequence[str], claim: str) -> str | None:
    """The line that has all words of the claim: one that quotes it, then the shortest."""
    words = Counter(tokens(claim))
    having = [line for line in lines if words and words <= Counter(tokens(line))]
    return min(having, key=lambda line: (not holds(line, [claim]), len(line)), default=None)
