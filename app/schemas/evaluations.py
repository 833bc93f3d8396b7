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
