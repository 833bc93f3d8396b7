"""An evaluation's request, its answers, and what an answer depends on: its key."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from importlib.metadata import version
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

from app.errors import QuotaExceeded, TooManyRuns
from app.extensions.evaluation.judge import EvaluatorJudge, Judge, ModelJudge
from app.extensions.evaluation.measures import Judged, Outcome
from app.extensions.evaluation.questions import MAX_QUESTIONS, EvaluationQuestion
from app.retrieval.index import StoredDocument
from app.runs.manager import Runs
from app.runs.request import RunRequest
from app.schemas.ask import AnswerEvent, CollectionName
from graphs.errors import CriticFailed, EvaluatorFailed, GeneratorFailed
from graphs.options import Context, Scope
from graphs.ports import Services
from graphs.state import Question
from graphs.workflows.registry import WORKFLOWS

MAX_VARIANTS, MAX_ANSWERS = 12, 20_000
RAG_CALLS, CORRECTIVE_CALLS = 1, 2
"""Calls of a language model an answer takes about, without reflection; each round adds two."""

JudgeName = Literal["evaluator", "model", "none"]
VariantName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80)]


class Variant(BaseModel):
    """A workflow with its options, under the name that the report gives it."""

    model_config = ConfigDict(extra="forbid")

    name: VariantName
    workflow: str = Field(json_schema_extra={"enum": list(WORKFLOWS)})
    options: Context = Field(default_factory=Context)

    @field_validator("workflow")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name not in WORKFLOWS:
            raise ValueError(f"unknown workflow; there are: {', '.join(WORKFLOWS)}")
        return name


class EvaluationRequest(BaseModel):
    """What is evaluated: the first variant is what the others are compared with."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, StringConstraints(strip_whitespace=True, max_length=200)] = "evaluation"
    questions: list[EvaluationQuestion] = Field(min_length=1, max_length=MAX_QUESTIONS)
    variants: list[Variant] = Field(
        [Variant(name=name, workflow=name) for name in ("rag", "crag", "self_crag")],
        min_length=1,
        max_length=MAX_VARIANTS,
        description="Left out: rag, crag and self_crag as they are set.",
    )
    judge: JudgeName = Field(
        "evaluator", description="Who judges answers; model: the language model of the settings."
    )
    collection: CollectionName | None = Field(None, description="Whose documents are searched.")
    seed: int = Field(0, ge=0, le=2**31, description="Of the intervals' resampling.")

    @field_validator("variants")
    @classmethod
    def _names_differ(cls, variants: list[Variant]) -> list[Variant]:
        if len({variant.name for variant in variants}) < len(variants):
            raise ValueError("two variants have the same name")
        return variants

    @field_validator("questions")
    @classmethod
    def _ids_differ(cls, questions: list[EvaluationQuestion]) -> list[EvaluationQuestion]:
        if len({question.id for question in questions}) < len(questions):
            raise ValueError("two questions have the same id")
        return questions

    @model_validator(mode="after")
    def _fits_in_memory(self) -> Self:
        if len(self.cells) > MAX_ANSWERS:
            raise ValueError(f"questions times variants are more than {MAX_ANSWERS:,}")
        return self

    @property
    def cells(self) -> list[tuple[EvaluationQuestion, Variant]]:
        return [(question, variant) for question in self.questions for variant in self.variants]


class Answered(BaseModel):
    """One question under one variant: what came of it, or why nothing did."""

    question: str
    variant: str
    outcome: Outcome | None = None
    judged: Judged = Judged()
    measures: dict[str, float | None] = {}
    seconds: float = 0.0
    failure: str | None = None

    def called(self, question: EvaluationQuestion, variant: Variant) -> Self:
        """Under these names: another evaluation may have called them otherwise."""
        return self.model_copy(update={"question": question.id, "variant": variant.name})


def keys_of(request: EvaluationRequest, fingerprint: Mapping[str, Any]) -> list[str]:
    """By which each answer is known, in the order of `cells`."""
    return [_key(*cell, request.judge, fingerprint) for cell in request.cells]


def judge_of(name: JudgeName, services: Services) -> Judge | None:
    """The judge of this name; None where nobody judges, or where there is no language model."""
    if name == "model":
        return ModelJudge(services.chat, services.chat_name) if services.chat else None
    return EvaluatorJudge(services.evaluator) if name == "evaluator" else None


def fingerprint_of(services: Services, documents: Sequence[StoredDocument]) -> dict[str, Any]:
    """What answers depend on beside question and options: the models and the documents."""
    digest = sha256()
    for document in documents:
        digest.update(f"{document.id}\0{document.sha256}\0{document.chunking}\n".encode())
    return {
        "version": version("self-crag"),
        "generator": services.chat_name,
        "evaluator": services.evaluator.name,
        "embedder": services.embedder_name,
        "thresholds": asdict(services.evaluator.thresholds),
        "documents": len(documents),
        "knowledge": digest.hexdigest()[:16],
        "web": services.web_search is not None,
    }


def model_calls(request: EvaluationRequest, services: Services) -> int:
    """About how many calls of a language model the evaluation takes, if nothing is known yet."""
    calls = 0
    if services.writes_by_model:
        for variant in request.variants:
            calls += RAG_CALLS if variant.workflow == "rag" else CORRECTIVE_CALLS
            if variant.workflow in ("self_rag", "self_crag"):
                calls += 2 * variant.options.max_critic
    return (calls + len(request.variants) * (request.judge == "model")) * len(request.questions)


async def answered(
    question: EvaluationQuestion, variant: Variant, runs: Runs, judge: Judge | None, scope: Scope
) -> Answered:
    """A run and what the judge says of it; it waits for its place behind whoever asks beside."""
    it = Answered(question=question.id, variant=variant.name)
    payload = Question(question=question.question)
    request = RunRequest(variant.workflow, payload, variant.options, scope, keep=False)
    started, run = time.perf_counter(), None
    while run is None:
        try:
            run = await runs.start(request)
        except (TooManyRuns, QuotaExceeded) as error:
            await asyncio.sleep(float(error.headers["Retry-After"]))
    event = await run.outcome()
    it.seconds = round(time.perf_counter() - started, 3)
    if not isinstance(event, AnswerEvent):
        it.failure = event.problem.detail
        return it
    it.outcome = Outcome.of(event.response, run.passages, run.state.get("grades", ()))
    if judge is not None:
        try:
            it.judged, _ = await judge.judge(question, it.outcome)
        except (EvaluatorFailed, CriticFailed, GeneratorFailed) as error:
            it.failure = f"{judge.name} could not judge the answer: {error}"
    return it


def _key(
    question: EvaluationQuestion, variant: Variant, judge: str, fingerprint: Mapping[str, Any]
) -> str:
    """Gold counts where the judge sees it."""
    parts = {
        "question": question.question,
        "answers": question.answers,
        "workflow": variant.workflow,
        "options": variant.options.model_dump(mode="json"),
        "judge": judge,
        "fingerprint": fingerprint,
    }
    return sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
