"""What goes over the wire: the request, the answer, the events of a run, the problem.

One model of events feeds every protocol; clients may import this module without the service.
"""

import json
import re
import unicodedata
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)
from pydantic_core import PydanticSerializationError

from graphs import types
from graphs.options import Context
from graphs.state import Question

MAX_USER_CHARS = 8000
MAX_IMAGE_CHARS = 950_000
"""Of a data URL: a body has 1,000,000 bytes."""
MAX_PASSAGES, MAX_PASSAGE_CHARS = 100, 20_000
RETRY_MS = 3000
"""How long a client waits before it follows a run again whose stream has broken off."""
ANOTHER_WAS_BETTER = "another draft was better"
CITATIONS_ADDED = "its citations are added"
"""Reasons of a retraction."""
# Unicode's line separators split lines in some clients; halves of a character are no UTF-8.
_UNSAFE = re.compile("[\u2028\u2029\x85\ud800-\udfff]")
_CONTROLS = r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"
_CONTROL = re.compile(rf"[{_CONTROLS}\ud800-\udfff]")


def has_no_control_characters(text: object) -> object:
    """The text, unless it holds what no keyboard writes: for validators before any trimming."""
    if isinstance(text, str) and (match := _CONTROL.search(text)):
        raise ValueError(f"holds the control character U+{ord(match[0]):04X}")
    return text


UserText = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_USER_CHARS),
    # Before the trimming, which takes some control characters for blanks.
    BeforeValidator(has_no_control_characters),
    # The same for whoever reads the schema.
    Field(json_schema_extra={"pattern": rf"^[^{_CONTROLS}]*[^\s{_CONTROLS}][^{_CONTROLS}]*$"}),
]
# Not of dots alone: `.` and `..` are no segment of a path that clients can ask for.
ThreadId = Annotated[
    str, StringConstraints(pattern=r"^\.*[A-Za-z0-9_:-][A-Za-z0-9_.:-]*$", max_length=128)
]
COLLECTION_RULE = "1 to 64 letters of any script, digits, . _ -; neither . nor - is the first"
CollectionName = Annotated[
    str,
    StringConstraints(pattern=r"^\w[\w.-]{0,63}$"),
    # What looks the same is the same, also in its length.
    BeforeValidator(
        lambda name: unicodedata.normalize("NFC", name) if isinstance(name, str) else name
    ),
]

AskedCollection = Annotated[
    CollectionName | None,
    Field(description="Whose documents are searched; left out: the key's first, or `default`."),
]


class GivenPassage(BaseModel):
    """Knowledge of the caller's own."""

    model_config = ConfigDict(extra="forbid", strict=True)

    text: Annotated[str, StringConstraints(min_length=1, max_length=MAX_PASSAGE_CHARS)] = Field(
        description="1 to 20,000 characters."
    )
    title: Annotated[str, StringConstraints(max_length=500)] = ""
    source: Annotated[str, StringConstraints(max_length=2000)] = Field(
        "", description="Its address or path, as citations tell it."
    )


class AskRequest(BaseModel):
    """A question and how to answer it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: UserText = Field(description="1 to 8,000 characters after trimming.")
    workflow: str | None = Field(None, description="See GET /workflows; left out: the default.")
    thread_id: ThreadId | None = Field(None, description="The conversation this belongs to.")
    stream: bool = Field(False, description="Answer with server-sent events.")
    detach: bool = Field(False, description="Go on to the deadline when the client leaves.")
    collection: AskedCollection = None
    passages: list[GivenPassage] = Field(
        default_factory=list,
        max_length=MAX_PASSAGES,
        description="Knowledge in place of the knowledge base, best first; at most 100 passages.",
    )
    image: str | None = Field(
        None,
        max_length=MAX_IMAGE_CHARS,
        pattern=r"^data:image/",
        description="An image as a data URL (PNG, JPEG, WebP or GIF), asked about by `illustrate`.",
    )
    options: Context = Field(default_factory=Context, description="Tunables of this run.")

    def as_question(self) -> Question:
        """What the graphs are asked."""
        question = Question(question=self.question)
        if self.passages:
            question["passages"] = [
                types.Passage(f"given-{n}", given.text, given.title, given.source)
                for n, given in enumerate(self.passages, start=1)
            ]
        return question


class Document(BaseModel):
    """A passage as it was graded, or as it was retrieved where nothing graded it."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    title: str
    source: str
    origin: types.Origin
    score: float


class WebResult(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    url: str
    title: str
    score: float


class GradedStrip(BaseModel):
    """A knowledge strip; the kept ones were given to the generator.

    `similarity` is the encoder's centred cosine of question and strip, null without an encoder.
    """

    model_config = ConfigDict(from_attributes=True)

    id: str
    document_id: str
    text: str
    score: float
    similarity: float | None = None
    kept: bool


class Candidate(BaseModel):
    """A draft that was judged before the choice."""

    n: int
    origin: types.Origin
    document_ids: list[str]
    answer: str
    relevance: float | None
    support: float | None
    utility: float | None
    score: float
    chosen: bool


class Models(BaseModel):
    generator: str
    evaluator: str
    embedder: str


class AskResponse(BaseModel):
    """The answer and how it came about."""

    run_id: str
    thread_id: str
    workflow: str
    answer: str
    verdict: types.Verdict = "not_judged"
    confidence: float | None = Field(
        None,
        description="Calibrated probability that the answer is right; null: nothing judged it.",
    )
    sentences: list[types.AnswerSentence] = Field(default_factory=list)
    missing: list[str] = Field(default_factory=list)
    citations: list[types.Citation]
    standalone_question: str | None = None
    queries: list[str] = Field(default_factory=list)
    retrieval: types.Retrieval | None
    action: types.Action | None
    thresholds: types.Thresholds
    documents: list[Document]
    rewritten_query: str | None
    web_results: list[WebResult]
    strips: list[GradedStrip]
    candidates: list[Candidate]
    critique: list[types.Critique]
    stopped_by: types.StoppedBy
    degraded: list[types.Degraded]
    images: list[types.Image] = Field(default_factory=list)
    image_threshold: float | None = None
    models: Models
    timings_ms: dict[str, float]
    usage: types.Usage


class SearchRequest(BaseModel):
    """A question whose knowledge is corrected, but not answered from."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: UserText = Field(description="1 to 8,000 characters after trimming.")
    collection: AskedCollection = None
    options: Context = Field(default_factory=Context, description="Tunables of this run.")


class KnowledgePassage(BaseModel):
    """A kept strip with its grade; `source` is its document's path or its web page's address."""

    strip_id: str
    document_id: str
    origin: types.Origin
    title: str
    source: str
    text: str
    score: float


class SearchResponse(BaseModel):
    """Corrected knowledge, best first, and how it came about."""

    run_id: str
    action: types.Action | None
    thresholds: types.Thresholds
    rewritten_query: str | None
    passages: list[KnowledgePassage]
    degraded: list[types.Degraded]


class FieldError(BaseModel):
    """What is wrong with one field; `pointer` is a JSON pointer into the request."""

    pointer: str
    detail: str


class Problem(BaseModel):
    """RFC 9457 problem details, sent as `application/problem+json`."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[FieldError] | None = None


class Event(BaseModel):
    """Something that happened in a run; `name` is the SSE event's name."""

    name: ClassVar[str]

    @property
    def content(self) -> BaseModel:
        """What is told of it."""
        return self

    @cached_property
    def data(self) -> str:
        """The SSE `data` line, made once: clients, followers and the store share it."""
        content, lacks_none = self.content, not isinstance(self, AnswerEvent)
        try:
            return _safe(content.model_dump_json(exclude_none=lacks_none))
        except PydanticSerializationError:  # half a character, which the quick way cannot write
            return as_json(content.model_dump(mode="json", exclude_none=lacks_none))


class RunEvent(Event):
    name: ClassVar[str] = "run"
    run_id: str
    thread_id: str
    workflow: str
    owner: str = Field("", exclude=True, description="For listeners alone: it is not sent.")


class StepEvent(Event):
    """A node starts or ends; `path` leads from the root graph to it, `at_ms` from the start."""

    name: ClassVar[str] = "step"
    step: str
    path: list[str]
    phase: Literal["start", "end"]
    at_ms: float
    took_ms: float | None = None
    detail: dict[str, Any]


class GradedItem(BaseModel):
    """A passage or strip; `kept`: at or above the bar of its step, before any limit of number."""

    id: str
    score: float | None = None
    kept: bool


class StepProgress(Event):
    """Within a step: `done` of `total` texts are graded, `item` the latest."""

    name: ClassVar[str] = "progress"
    step: str
    path: list[str]
    done: int
    total: int
    item: GradedItem


class TokenEvent(Event):
    name: ClassVar[str] = "token"
    round: int
    text: str


class RetractEvent(Event):
    """What was streamed in this round is void."""

    name: ClassVar[str] = "retract"
    round: int
    reason: str


class AnswerEvent(Event):
    """Exactly the JSON body, with all its fields."""

    name: ClassVar[str] = "answer"
    response: AskResponse

    @property
    def content(self) -> BaseModel:
        return self.response


class ErrorEvent(Event):
    name: ClassVar[str] = "error"
    problem: Problem

    @property
    def content(self) -> BaseModel:
        return self.problem


class DoneEvent(Event):
    name: ClassVar[str] = "done"


PLAIN_EVENTS: dict[str, type[Event]] = {
    kind.name: kind
    for kind in (RunEvent, StepEvent, StepProgress, TokenEvent, RetractEvent, DoneEvent)
}
"""Events whose data are their own fields."""


def event_of(name: str, data: str) -> Event | None:
    """A run's event again from what was sent; None of a kind unknown to this version.

    Raises pydantic's ValidationError where the data are not those of such an event.
    """
    if name == AnswerEvent.name:
        return AnswerEvent(response=AskResponse.model_validate_json(data))
    if name == ErrorEvent.name:
        return ErrorEvent(problem=Problem.model_validate_json(data))
    kind = PLAIN_EVENTS.get(name)
    return None if kind is None else kind.model_validate_json(data)


def sent(number: int, name: str, data: str) -> str:
    """A server-sent event; a run's first one says when to come back with `Last-Event-ID`."""
    retry = f"retry: {RETRY_MS}\n" if number == 0 else ""
    return f"event: {name}\ndata: {data}\nid: {number}\n{retry}\n"


def encoded(number: int, event: Event) -> str:
    return sent(number, event.name, event.data)


def as_json(value: object) -> str:
    """One line of JSON that can be sent as UTF-8 whatever a chat endpoint has said."""
    return _safe(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _safe(text: str) -> str:
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class WorkflowInfo(BaseModel):
    name: str
    description: str
    mermaid: str
    context_schema: dict[str, Any]


class Workflows(BaseModel):
    """`language_model`: whether options that need one can be chosen."""

    workflows: list[WorkflowInfo]
    default: str
    language_model: bool


class Health(BaseModel):
    """`degraded` names dependencies that runs go on without; left out where there are none."""

    status: Literal["live", "ready", "starting"]
    degraded: list[str] = Field(default_factory=list)
