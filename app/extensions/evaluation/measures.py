"""Measures of one answer against its question's gold; which stage lost an answer.

What the gold cannot decide is None: it counts in no mean.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import log2
from typing import Literal

from pydantic import BaseModel, Field

from app.extensions.evaluation.matching import holds, token_f1, tokens
from app.extensions.evaluation.questions import EvaluationQuestion
from app.extensions.evaluation.statistics import rounded, share
from app.schemas.ask import AskResponse, Document, GradedStrip
from graphs.types import Action, AnswerSentence, Citation, Passage, Usage, Verdict

MAX_LITERAL_TOKENS = 10
"""A longer gold answer is not looked for letter by letter: it can be said in other words."""
UNGRADED = -1.0
"""The least grade: what nothing was graded by."""
RIGHT = 0.5
"""From this correctness or support on an answer, a sentence, a citation counts as right."""

Stage = Literal["retrieval", "judge", "reader", "refusal", "not_refused", "unknown"]
Values = dict[str, float | None]
Measured = Mapping[str, float | None]
Grades = Sequence[Sequence[float | None]]


@dataclass(frozen=True, slots=True)
class Measure:
    """What a column of the report is; `better` says which way, None where neither is."""

    group: str
    title: str
    better: Literal["higher", "lower"] | None


MEASURES: dict[str, Measure] = {
    "recall": Measure("retrieval", "Recall", "higher"),
    "ndcg": Measure("retrieval", "nDCG", "higher"),
    "action_right": Measure("action", "Action accuracy", "higher"),
    "needless_search": Measure("action", "Needless searches", "lower"),
    "missing_search": Measure("action", "Missing searches", "lower"),
    "contains_gold": Measure("answer", "Contains gold", "higher"),
    "token_f1": Measure("answer", "Token F1", "higher"),
    "correctness": Measure("answer", "Correctness", "higher"),
    "faithfulness": Measure("answer", "Faithfulness", "higher"),
    "context_relevancy": Measure("answer", "Context relevancy", "higher"),
    "answer_relevancy": Measure("answer", "Answer relevancy", "higher"),
    "right_abstention": Measure("abstention", "Right abstentions", "higher"),
    "wrong_abstention": Measure("abstention", "Wrong abstentions", "lower"),
    "citation_precision": Measure("citations", "Citation precision", "higher"),
    "citation_recall": Measure("citations", "Citation recall", "higher"),
    "llm_calls": Measure("cost", "Model calls", "lower"),
    "tokens": Measure("cost", "Tokens", "lower"),
    "scored_pairs": Measure("cost", "Scored pairs", "lower"),
    "web_searches": Measure("cost", "Web searches", None),
}
"""By name, as the handbook's page on evaluation explains them."""


class OutcomePassage(Document):
    """A passage as it was retrieved or graded, with its text."""

    text: str


class Outcome(BaseModel):
    """What one question brought under one setting: the answer and how it came about.

    `best_grades` are the best of its local documents by the question, then by each of its parts.
    """

    answer: str
    verdict: Verdict
    action: Action | None
    stopped_by: str
    documents: list[OutcomePassage]
    strips: list[GradedStrip]
    citations: list[Citation]
    sentences: list[AnswerSentence]
    missing: list[str]
    usage: Usage
    degraded: list[str] = Field(default_factory=list)
    best_grades: list[float] = Field(default_factory=list)

    @classmethod
    def of(
        cls, response: AskResponse, passages: Sequence[Passage], grades: Grades = ()
    ) -> "Outcome":
        texts = {passage.id: passage.text for passage in passages}
        documents = [
            OutcomePassage(
                **document.model_dump(exclude={"score"}),
                score=rounded(document.score) or 0.0,
                text=texts.get(document.id, ""),
            )
            for document in response.documents
        ]
        own = {"documents", "degraded", "best_grades"}
        fields = response.model_dump(include=set(cls.model_fields) - own)
        degraded = sorted({f"{each.component}: {each.reason}" for each in response.degraded})
        scores = ([it for it in row if it is not None] for row in grades)
        best = [rounded(max(row, default=UNGRADED)) or 0.0 for row in scores]
        return cls(**fields, documents=documents, degraded=degraded, best_grades=best)

    @property
    def abstained(self) -> bool:
        return self.verdict == "abstained"

    @property
    def kept_strips(self) -> list[GradedStrip]:
        return [strip for strip in self.strips if strip.kept]


class Judged(BaseModel):
    """What the judge says of one answer; None where there is nothing to judge.

    `supports` are the answer's sentences: [support by the kept knowledge, {n: support by [n]}].
    """

    context_relevancy: float | None = None
    answer_relevancy: float | None = None
    correctness: float | None = None
    supports: list[tuple[float, dict[int, float]]] = []


def measured(question: EvaluationQuestion, outcome: Outcome, judged: Judged) -> Values:
    """Every measure by its name in MEASURES."""
    values: Values = dict.fromkeys(MEASURES)
    values |= _retrieval(question, outcome) | _action(question, outcome)
    values |= _answer(question, outcome, judged) | _citations(outcome, judged)
    values |= {
        "llm_calls": float(outcome.usage.llm_calls),
        "tokens": float(outcome.usage.input_tokens + outcome.usage.output_tokens),
        "scored_pairs": float(outcome.usage.scored_pairs),
        "web_searches": float(outcome.usage.web_searches - outcome.usage.discarded_searches),
    }
    return {name: rounded(value) for name, value in values.items()}


def is_source(source: str, gold: str) -> bool:
    """Whether a document's source is the gold one: the same, its end, or a match of its pattern."""
    return source == gold or source.endswith(f"/{gold.lstrip('/')}") or fnmatchcase(source, gold)


def literal_answers(question: EvaluationQuestion) -> list[str]:
    """The gold answers that are short enough to be looked for as they stand."""
    return [answer for answer in question.answers if len(tokens(answer)) <= MAX_LITERAL_TOKENS]


def has_evidence(question: EvaluationQuestion, outcome: Outcome) -> bool | None:
    """Whether the local documents that were retrieved hold the answer; None where gold is silent.

    By a short gold answer where there is one, else by the gold sources.
    """
    if question.is_answerable is False:
        return False
    flags = _relevant(question, [it for it in outcome.documents if it.origin == "internal"])
    return None if flags is None else any(flags)


def is_right(measures: Measured) -> bool | None:
    """Whether the answer is right: it contains the gold, or else is correct as the judge finds.

    To a question that the documents do not answer, only an abstention is. Of an answer that could
    not be judged nothing is known.
    """
    by_trust = (measures.get(name) for name in ("contains_gold", "correctness", "right_abstention"))
    value = next((value for value in by_trust if value is not None), None)
    return None if value is None else value >= RIGHT


def lost_at(question: EvaluationQuestion, outcome: Outcome, measures: Measured) -> Stage | None:
    """The stage that lost the answer; None where nothing was lost or nothing is known."""
    if question.is_answerable is False:
        return None if outcome.abstained else "not_refused"
    if is_right(measures) is not False:
        return None
    flags = _relevant(question, outcome.documents)
    if flags is None:
        return "refusal" if outcome.abstained else "unknown"
    if not any(flags) and not _in_strips(question, outcome, outcome.strips):
        return "retrieval"
    if not _in_strips(question, outcome, outcome.kept_strips):
        return "judge"
    return "refusal" if outcome.abstained else "reader"


def _relevant(
    question: EvaluationQuestion, documents: Sequence[OutcomePassage]
) -> list[bool] | None:
    if answers := literal_answers(question):
        return [holds(f"{it.title}\n{it.text}", answers) for it in documents]
    if question.sources:
        return [any(is_source(it.source, gold) for gold in question.sources) for it in documents]
    return None


def _in_strips(
    question: EvaluationQuestion, outcome: Outcome, strips: Sequence[GradedStrip]
) -> bool:
    if answers := literal_answers(question):
        return any(holds(strip.text, answers) for strip in strips)
    flags = _relevant(question, outcome.documents) or []
    right = {it.id for it, flag in zip(outcome.documents, flags, strict=True) if flag}
    return any(strip.document_id in right for strip in strips)


def _retrieval(question: EvaluationQuestion, outcome: Outcome) -> Values:
    local = [it for it in outcome.documents if it.origin == "internal"]
    if question.is_answerable is False:
        return {}
    if question.sources:
        first = [
            next((n for n, it in enumerate(local) if is_source(it.source, gold)), None)
            for gold in question.sources
        ]
        places = sorted({n for n in first if n is not None})
        ideal = range(min(len(question.sources), max(len(local), 1)))
        recall = sum(n is not None for n in first) / len(first)
        return {"recall": recall, "ndcg": min(1.0, _gain(places) / _gain(ideal))}
    flags = _relevant(question, local)
    if flags is None:
        return {}
    places = [n for n, flag in enumerate(flags) if flag]
    if not places:
        return {"recall": 0.0, "ndcg": 0.0}
    return {"recall": 1.0, "ndcg": _gain(places) / _gain(range(len(places)))}


def _gain(places: Sequence[int]) -> float:
    return sum(1 / log2(n + 2) for n in places)


def _action(question: EvaluationQuestion, outcome: Outcome) -> Values:
    evidence = has_evidence(question, outcome)
    if outcome.action is None or evidence is None:
        return {}
    expected: Action = "correct" if evidence else "incorrect"
    wrong = "needless_search" if evidence else "missing_search"
    is_correct = outcome.action == "correct"
    return {"action_right": float(outcome.action == expected), wrong: float(is_correct != evidence)}


def _answer(question: EvaluationQuestion, outcome: Outcome, judged: Judged) -> Values:
    values: Values = {}
    if question.is_answerable is False:
        values["right_abstention"] = float(outcome.abstained)
    if question.is_answerable:
        values["wrong_abstention"] = float(outcome.abstained)
    if question.answers:
        answer = "" if outcome.abstained else outcome.answer
        values["token_f1"] = token_f1(answer, question.answers)
        correct = 0.0 if outcome.abstained else judged.correctness
        if answers := literal_answers(question):
            values["contains_gold"] = float(holds(answer, answers))
            if values["contains_gold"]:
                correct = 1.0
        values["correctness"] = correct
    if not outcome.abstained:
        values["context_relevancy"] = judged.context_relevancy
        values["answer_relevancy"] = judged.answer_relevancy
        values["faithfulness"] = share([support >= RIGHT for support, _ in judged.supports])
    return values


def _citations(outcome: Outcome, judged: Judged) -> Values:
    if outcome.abstained or not judged.supports:
        return {}
    cited = [support >= RIGHT for _, by in judged.supports for support in by.values()]
    stand = [any(s >= RIGHT for s in by.values()) for _, by in judged.supports]
    return {"citation_precision": share(cited), "citation_recall": share(stand)}
