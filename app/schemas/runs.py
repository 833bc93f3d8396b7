"""What goes over the wire about runs and threads that are kept."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.schemas.ask import AskResponse, Problem, UserText
from graphs.options import Context
from graphs.types import Action, Citation, StoppedBy, Thresholds, Verdict

Status = Literal["running", "done", "cancelled", "failed", "lost"]
ForkStep = Literal["retrieve", "grade"]
"""The last step of a run whose result a fork keeps."""


class RunFacts(BaseModel):
    """What is known of every run; times are in UTC, ISO 8601."""

    run_id: str
    thread_id: str
    workflow: str
    status: Status
    question: str
    stopped_by: StoppedBy | None
    created_at: str
    ended_at: str | None


class RunSummary(RunFacts):
    """A run as it is listed; `answer`, `action` and `verdict` are null without one."""

    answer: str | None
    action: Action | None = None
    verdict: Verdict | None = None


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


class StoredRun(RunFacts):
    """The whole trace. `request` is what was asked, with the options that were set."""

    request: dict[str, Any]
    thresholds: Thresholds
    answer: AskResponse | None
    error: Problem | None
    events: list[TracedEvent]
    feedback: list[Feedback]


class SentMessage(BaseModel):
    """A message as it was sent; `role` is `prompt` where the model takes text without roles."""

    role: str
    text: str


class SentPrompt(BaseModel):
    """What one call sent to a language model; `step` is the number of its step's start event."""

    step: int | None = None
    path: list[str]
    model: str
    took_ms: float
    input_tokens: int | None
    output_tokens: int | None
    failed: bool
    messages: list[SentMessage]


class RunPrompts(BaseModel):
    """In the order in which the calls ended; empty where none was made, or none is kept."""

    prompts: list[SentPrompt]


class ForkRequest(BaseModel):
    """From which step a run is done again, and with which options."""

    model_config = ConfigDict(extra="forbid", strict=True)

    step: ForkStep = Field("grade", description="The last step whose result is kept.")
    options: Context = Field(
        default_factory=Context, description="In place of the run's own, where they are set."
    )
    stream: bool = Field(False, description="Answer with server-sent events.")
    detach: bool = Field(False, description="Go on to the deadline when the client leaves.")


class RunState(BaseModel):
    """What is known at once of a run that was told to stop."""

    run_id: str
    status: Status


class FeedbackRequest(BaseModel):
    """From -1, useless or wrong, to 1, right and useful."""

    model_config = ConfigDict(extra="forbid", strict=True)

    score: float = Field(ge=-1, le=1, allow_inf_nan=False, description="-1 to 1.")
    comment: UserText | None = Field(None, description="Why, in words; at most 8,000 characters.")
    corrected_answer: UserText | None = Field(None, description="What should have been answered.")


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
