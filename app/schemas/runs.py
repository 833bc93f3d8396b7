"""What goes over the wire about runs and threads that are kept."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from app.schemas.ask import AskResponse, Problem, has_no_control_characters
from graphs.types import Citation, StoppedBy, Thresholds

Status = Literal["running", "done", "cancelled", "failed", "lost"]
Said = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=8000),
    BeforeValidator(has_no_control_characters),
]


class RunSummary(BaseModel):
    """A run as it is listed; times are in UTC, ISO 8601. `answer` is null without one."""

    run_id: str
    thread_id: str
    workflow: str
    status: Status
    question: str
    answer: str | None
    stopped_by: StoppedBy | None
    created_at: str
    ended_at: str | None


class RunList(BaseModel):
    """Newest first; `total` counts those on other pages, too."""

    runs: list[RunSummary]
    total: int
    limit: int
    offset: int


class TracedEvent(BaseModel):
    """An event as the stream told it: `number` is its SSE id, `at_ms` counts from the start."""

    number: int
    at_ms: float
    name: str
    data: dict[str, Any]


class Feedback(BaseModel):
    """What a user says of an answer, kept."""

    id: str
    run_id: str
    score: float
    comment: str | None
    corrected_answer: str | None
    created_at: str


class StoredRun(BaseModel):
    """The whole trace. `request` is what was asked, with the options that were set."""

    run_id: str
    thread_id: str
    workflow: str
    status: Status
    question: str
    stopped_by: StoppedBy | None
    created_at: str
    ended_at: str | None
    request: dict[str, Any]
    thresholds: Thresholds
    answer: AskResponse | None
    error: Problem | None
    events: list[TracedEvent]
    feedback: list[Feedback]


class RunState(BaseModel):
    """What is known at once of a run that was told to stop."""

    run_id: str
    status: Status


class FeedbackRequest(BaseModel):
    """From -1, useless or wrong, to 1, right and useful."""

    model_config = ConfigDict(extra="forbid", strict=True)

    score: float = Field(ge=-1, le=1, allow_inf_nan=False, description="-1 to 1.")
    comment: Said | None = Field(None, description="Why, in words; at most 8,000 characters.")
    corrected_answer: Said | None = Field(None, description="What should have been answered.")


class ThreadMessage(BaseModel):
    """One turn's question or answer; `citations` are an answer's."""

    role: Literal["user", "assistant"]
    content: str
    run_id: str
    created_at: str
    citations: list[Citation] | None = None


class Thread(BaseModel):
    """A conversation, oldest message first."""

    thread_id: str
    created_at: str
    updated_at: str
    messages: list[ThreadMessage]
