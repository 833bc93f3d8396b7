"""What goes over the wire about evaluations."""

from typing import Any, Literal

from pydantic import BaseModel, Field

EvaluationStatus = Literal["running", "done", "cancelled", "interrupted", "failed"]


class EvaluationSummary(BaseModel):
    """An evaluation as it is listed; times are in UTC, ISO 8601."""

    evaluation_id: str
    name: str
    status: EvaluationStatus
    done: int = Field(description="Answers that are there.")
    total: int = Field(description="Questions times variants.")
    problem: str | None = Field(description="Why it failed.")
    created_at: str
    ended_at: str | None


class EvaluationList(BaseModel):
    """Newest first; `total` counts those on other pages, too."""

    evaluations: list[EvaluationSummary]
    total: int
    limit: int
    offset: int


class EvaluationState(EvaluationSummary):
    """With its results, once it has ended: means, intervals, differences, every question."""

    results: dict[str, Any] | None
    times: dict[str, dict[str, float | None]] | None = Field(
        description="Seconds an answer took, by variant: p50 and p95."
    )


class ComparedMeasure(BaseModel):
    """A measure of one variant before and now, over the questions that both know it of."""

    variant: str
    measure: str
    title: str = Field(description="The measure in English words.")
    group: str = Field(description="`cost` for what is counted; others are shares, 0 to 1.")
    before: float
    after: float
    difference: float
    low: float | None = Field(description="Of the 95 % interval of paired differences.")
    high: float | None
    n: int = Field(description="Questions that it rests on.")
    turned: Literal["better", "worse"] | None = Field(
        description="Where the interval excludes zero."
    )


class ComparedAnswer(BaseModel):
    """One side of a changed answer; of a failed run `failure` alone."""

    answer: str | None
    action: str | None
    verdict: str | None
    right: bool | None = Field(description="Null where the gold does not tell.")
    lost_at: str | None = Field(description="The stage that lost it.")
    failure: str | None


class ComparedQuestion(BaseModel):
    """A question whose answer changed under a variant."""

    id: str
    question: str
    variant: str
    before: ComparedAnswer
    after: ComparedAnswer

    @property
    def has_turned(self) -> bool:
        """Right before and wrong now, or the other way round."""
        return self.before.right is not self.after.right


class EvaluationComparison(BaseModel):
    """What differs from a baseline, over the questions and variants that both have."""

    questions: int = Field(description="Questions of the same id in both.")
    variants: list[str] = Field(description="Variants of the same name in both.")
    measures: list[ComparedMeasure]
    changed: list[ComparedQuestion] = Field(
        description="What became wrong, then what became right, then other changes."
    )

    @property
    def regressions(self) -> list[ComparedMeasure]:
        """Costs are reported, but are no regression."""
        return [it for it in self.measures if it.turned == "worse" and it.group != "cost"]

    @property
    def turned(self) -> list[ComparedQuestion]:
        return [each for each in self.changed if each.has_turned]
