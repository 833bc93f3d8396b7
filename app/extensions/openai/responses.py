"""OpenAI's Responses: a run as a response with its output items, whole or as its stream of events.

As in chat completions a client cannot take text back: the steps of a run are the reasoning's
summary, told as they happen, and the text follows once a draft is the answer.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel, Field

from app.extensions.openai.chat import (
    RunParameters,
    UrlCitation,
    annotations,
    cautious,
    error_of,
    shown_images,
    sources,
)
from app.protocols.addresses import Addresses
from app.protocols.answers import CUT_SHORT, STORED_PART, is_web_address
from app.protocols.messages import TEXT_TYPES, DialogueTurn, TextPart, text_of
from app.protocols.progress_text import ProgressText
from app.schemas import ask
from app.storage.runs import RunRecord
from graphs.types import Citation, Verdict

RESPONSE, MESSAGE, REASONING = "resp_", "msg_", "rs_"
"""What the ids of a run's response and of its output items begin with; the run's id follows."""
REFERENCE = "item_reference"
Run = RunRecord | Mapping[str, Any]
"""A run's record, or its row."""
Status = Literal["in_progress", "completed", "incomplete", "cancelled", "failed"]
ItemStatus = Literal["in_progress", "completed", "incomplete"]


class ResponsePart(TextPart):
    """A part of a message: text, or an image for the model `illustrate`, as a data URL."""

    image_url: str | None = None


class ResponseInputItem(BaseModel):
    """A message, or a reference to one that was answered; items of other types are not read."""

    type: str | None = None
    role: str | None = None
    content: str | list[ResponsePart] | None = None
    id: str | None = None

    @property
    def kind(self) -> str:
        return self.type or ("message" if self.role else REFERENCE)

    def turn(self, pointer: str, *, sees_images: bool) -> DialogueTurn:
        parts = self.content
        if not isinstance(parts, list):
            return DialogueTurn(self.role or "", parts or "", pointer, set())
        shown = [part for part in parts if part.type == "input_image"] if sees_images else []
        urls = [part.image_url or "" for part in shown]
        unread = {part.type for part in parts if part not in shown} - TEXT_TYPES
        return DialogueTurn(self.role or "", text_of(parts), pointer, unread, urls)


class ConversationReference(BaseModel):
    id: ask.ThreadId


class ResponseRequest(RunParameters):
    """Parameters of OpenAI's that are not named here (temperature, tools, …) change nothing."""

    model: str = Field(description="The name of a workflow, see GET /v1/models.")
    input: str | list[ResponseInputItem] = Field(
        description="The question, or the dialogue; the last message of the user is the question."
    )
    instructions: str | None = Field(
        None, description="Told again, but not read: the service answers by its own rules."
    )
    previous_response_id: str | None = Field(
        None, description="The answer this goes on from: its dialogue comes before the input."
    )
    conversation: ask.ThreadId | ConversationReference | None = Field(
        None, description="The thread this belongs to, in place of `previous_response_id`."
    )
    stream: bool | None = Field(None, description="Answer with the events of a response.")
    background: bool | None = Field(
        None, description="Answer at once and go on; the response is asked for by its id."
    )
    store: bool | None = Field(
        None,
        description="false: of this run nothing is kept, and it cannot be asked for by its id.",
    )

    @property
    def thread(self) -> str | None:
        """The conversation; `thread_id` says the same."""
        named = self.conversation
        return named.id if isinstance(named, ConversationReference) else named


class SummaryText(BaseModel):
    type: Literal["summary_text"] = "summary_text"
    text: str = ""


class ReasoningOutput(BaseModel):
    """The steps of the run, a line each."""

    id: str
    type: Literal["reasoning"] = "reasoning"
    status: ItemStatus = "in_progress"
    summary: list[SummaryText] = []


class UrlAnnotation(UrlCitation):
    type: Literal["url_citation"] = "url_citation"


class FileAnnotation(BaseModel):
    """A cited document: `file_id` is its id below /documents, `index` its place among the files."""

    type: Literal["file_citation"] = "file_citation"
    file_id: str
    filename: str
    index: int


class OutputText(BaseModel):
    type: Literal["output_text"] = "output_text"
    text: str = ""
    annotations: list[UrlAnnotation | FileAnnotation] = []
    logprobs: list[dict[str, Any]] = []


class MessageOutput(BaseModel):
    """The answer."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    status: ItemStatus = "in_progress"
    content: list[OutputText] = []


class ResponseUsage(BaseModel):
    """Tokens of the language model; the extractive generator uses none."""

    input_tokens: int
    input_tokens_details: dict[str, int] = {"cached_tokens": 0, "cache_write_tokens": 0}
    output_tokens: int
    output_tokens_details: dict[str, int] = {"reasoning_tokens": 0}
    total_tokens: int


class ResponseFailure(BaseModel):
    code: str
    message: str


class IncompleteDetails(BaseModel):
    reason: Literal["max_output_tokens"] = "max_output_tokens"


class ResponseEcho(BaseModel):
    """What a response tells again of its request."""

    instructions: str | None = None
    metadata: dict[str, Any] = {}
    previous_response_id: str | None = None
    conversation: ConversationReference | None = None
    background: bool = False
    store: bool = True


class ResponseObject(ResponseEcho):
    """A run. `id` is `resp_` and the run's id; `incomplete` where time or budget ran out.

    `thread_id`, `verdict` and `confidence` are this service's own.
    """

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: Status = "in_progress"
    error: ResponseFailure | None = None
    incomplete_details: IncompleteDetails | None = None
    model: str
    output: list[ReasoningOutput | MessageOutput] = []
    usage: ResponseUsage | None = None
    thread_id: str
    verdict: Verdict | None = None
    confidence: float | None = None
    max_output_tokens: None = None
    parallel_tool_calls: bool = True
    reasoning: dict[str, str | None] = {"effort": None, "summary": "auto"}
    temperature: None = None
    text: dict[str, dict[str, str]] = {"format": {"type": "text"}}
    tool_choice: Literal["auto"] = "auto"
    tools: list[dict[str, Any]] = []
    top_p: None = None
    truncation: Literal["disabled"] = "disabled"
    user: None = None


class DeletedResponse(BaseModel):
    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True


class ResponseEvents:
    """A run's events as those of a response; called with each in turn, from the first one on.

    Events numbered up to `after` are left out. `response` is what has come about so far.
    """

    def __init__(
        self,
        run: Run,
        addresses: Addresses,
        *,
        after: int = -1,
        ended_at: float | None = None,
    ) -> None:
        row = run if isinstance(run, Mapping) else asdict(run)
        self._addresses, self._after, self._ended_at = addresses, after, ended_at
        request = json.loads(row["request"])
        self._choices = request.get("options", {}).get("choices", [])
        self._progress = ProgressText(row["question"])
        self._sequence = 0
        self._reasoning = ReasoningOutput(id=REASONING + row["id"])
        self._place = {"item_id": self._reasoning.id, "output_index": 0, "summary_index": 0}
        self._message = MessageOutput(id=MESSAGE + row["id"])
        self.response = ResponseObject(
            **request.get("protocol", {}),  # of other protocols' runs nothing
            id=RESPONSE + row["id"],
            created_at=int(row["created_at"]),
            model=row["workflow"],
            thread_id=row["thread_id"],
        )

    def __call__(self, _: int, event: ask.Event) -> str:
        return "".join(self.lines(event))

    def lines(self, event: ask.Event) -> Iterator[str]:
        match event:
            case ask.RunEvent():
                yield self._whole("created")
                yield self._whole("in_progress")
            case ask.AnswerEvent():
                yield from self._answer(cautious(event.response, self._choices))
            case ask.ErrorEvent():
                yield from self._failure(event.problem)
            case _:
                for line in self._progress.lines(event):
                    yield from self._step(line)

    def _step(self, line: str) -> Iterator[str]:
        reasoning, place = self._reasoning, self._place
        if not reasoning.summary:
            yield self._item("added", 0, reasoning)
            self.response.output.append(reasoning)
            reasoning.summary.append(SummaryText())
            yield self._event("reasoning_summary_part.added", **place, part=SummaryText())
        (part,) = reasoning.summary
        delta = f"\n{line}" if part.text else line
        part.text += delta
        yield self._event("reasoning_summary_text.delta", **place, delta=delta)

    def _answer(self, answer: ask.AskResponse) -> Iterator[str]:
        for line in sources(answer):
            yield from self._step(line)
        yield from self._end_reasoning("completed")
        is_cancelled = answer.stopped_by == "cancelled"
        is_whole = not is_cancelled and answer.stopped_by not in CUT_SHORT
        yield from self._text(answer, "completed" if is_whole else "incomplete")
        response, spent = self.response, answer.usage
        response.verdict, response.confidence = answer.verdict, answer.confidence
        response.usage = ResponseUsage(
            input_tokens=spent.input_tokens,
            output_tokens=spent.output_tokens,
            total_tokens=spent.input_tokens + spent.output_tokens,
        )
        if is_whole:
            yield self._end("completed")
            return
        if not is_cancelled:
            response.incomplete_details = IncompleteDetails()
        # Clients know no event of their own for a cancelled response.
        yield self._end("cancelled" if is_cancelled else "incomplete", "incomplete")

    def _end_reasoning(self, status: ItemStatus) -> Iterator[str]:
        reasoning, place = self._reasoning, self._place
        reasoning.status = status
        for part in reasoning.summary:
            yield self._event("reasoning_summary_text.done", **place, text=part.text)
            yield self._event("reasoning_summary_part.done", **place, part=part)
            yield self._item("done", 0, reasoning)

    def _text(self, answer: ask.AskResponse, status: ItemStatus) -> Iterator[str]:
        message, at = self._message, len(self.response.output)
        place = {"item_id": message.id, "output_index": at, "content_index": 0}
        yield self._item("added", at, message)
        self.response.output.append(message)
        yield self._event("content_part.added", **place, part=OutputText())
        text = answer.answer + shown_images(answer, self._addresses)
        for piece in text.splitlines(keepends=True):  # no line cuts code in two
            yield self._event("output_text.delta", **place, delta=piece, logprobs=[])
        notes = response_annotations(answer, self._addresses.page)
        for n, note in enumerate(notes):
            yield self._event(
                "output_text.annotation.added", **place, annotation_index=n, annotation=note
            )
        part = OutputText(text=text, annotations=notes)
        message.content, message.status = [part], status
        yield self._event("output_text.done", **place, text=part.text, logprobs=[])
        yield self._event("content_part.done", **place, part=part)
        yield self._item("done", at, message)

    def _failure(self, problem: ask.Problem) -> Iterator[str]:
        yield from self._end_reasoning("incomplete")
        self.response.error = ResponseFailure(code="server_error", message=problem.detail)
        # Both, as OpenAI does: some clients read the one, some the other.
        yield self._event("", **error_of(problem))
        yield self._end("failed")

    def _end(self, status: Status, kind: str = "") -> str:
        self.response.status = status
        self.response.completed_at = int(self._ended_at or time.time())
        return self._whole(kind or status)

    def _whole(self, kind: str) -> str:
        return self._event(kind, response=self.response)

    def _item(self, kind: str, at: int, item: ReasoningOutput | MessageOutput) -> str:
        return self._event(f"output_item.{kind}", output_index=at, item=item)

    def _event(self, kind: str, **fields: Any) -> str:
        number, self._sequence = self._sequence, self._sequence + 1
        if number <= self._after:
            return ""
        name = f"response.{kind}" if kind else "error"
        values = {
            field: value.model_dump() if isinstance(value, BaseModel) else value
            for field, value in fields.items()
        }
        body = ask.as_json({"type": name, "sequence_number": number, **values})
        return f"event: {name}\ndata: {body}\n\n"


def response_of(
    run: Run,
    events: Iterable[ask.Event],
    addresses: Addresses,
    ended_at: float | None = None,
) -> ResponseObject:
    """What the events of a run have brought about."""
    builder = ResponseEvents(run, addresses, ended_at=ended_at)
    for number, event in enumerate(events):
        builder(number, event)
    return builder.response


def response_annotations(
    answer: ask.AskResponse, base_url: str
) -> list[UrlAnnotation | FileAnnotation]:
    """One `url_citation` for every cited sentence whose source has an address, then the files."""
    cited = (note.url_citation for note in annotations(answer, base_url))
    notes: list[UrlAnnotation | FileAnnotation] = [
        UrlAnnotation(**each.model_dump()) for each in cited if is_web_address(each.url)
    ]
    files = {each.source: each for each in answer.citations if not is_web_address(each.source)}
    return [*notes, *(_file(index, each) for index, each in enumerate(files.values()))]


def _file(index: int, cited: Citation) -> FileAnnotation:
    part, _, _ = cited.strip_id.partition("#")
    file_id = part.partition("-")[0] if STORED_PART.fullmatch(part) else part
    return FileAnnotation(
        file_id=file_id, filename=cited.source or cited.title or file_id, index=index
    )
