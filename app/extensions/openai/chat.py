"""OpenAI's chat completions: its models, and a run as one, whole or as chunks, and errors.

A client of OpenAI's form cannot take text back, so drafts stay here until one is the answer; the
steps are told meanwhile as `reasoning_content`.
"""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.errors import ServiceError
from app.protocols.addresses import Addresses
from app.protocols.answers import DONE, address_of, data, finish_reason
from app.protocols.messages import TEXT_TYPES, DialogueTurn, TextPart, text_of
from app.protocols.progress_text import ProgressText, caution, text
from app.runs.run import Run
from app.schemas import ask
from graphs.options import Context
from graphs.text.inert_markup import inert
from graphs.text.language import script_of
from graphs.workflows.registry import IMAGE_WORKFLOW

KINDS = {
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_error", "permission_denied"),
    404: ("invalid_request_error", "not_found"),
    409: ("invalid_request_error", "conflict"),
    413: ("invalid_request_error", "request_too_large"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    503: ("server_error", "service_unavailable"),
}
"""Type and code of an error by its status; of others by whose fault it is."""
CLIENTS_FAULT = ("invalid_request_error", "invalid_request")
OUR_FAULT = ("server_error", "internal_error")


class ImageUrl(BaseModel):
    """A data URL; no address is followed."""

    url: str


class ContentPart(TextPart):
    """A part of a message: text, or an image for the model `illustrate`."""

    image_url: ImageUrl | None = None


class ChatMessage(BaseModel):
    """A turn; those of roles other than user and assistant are not read."""

    role: str
    content: str | list[ContentPart] | None = None

    @property
    def text(self) -> str:
        return text_of(self.content) if isinstance(self.content, list) else self.content or ""

    def turn(self, pointer: str, *, sees_images: bool) -> DialogueTurn:
        parts = self.content if isinstance(self.content, list) else []
        shown = [part for part in parts if part.type == "image_url"] if sees_images else []
        urls = [part.image_url.url if part.image_url else "" for part in shown]
        unread = {part.type for part in parts if part not in shown} - TEXT_TYPES
        return DialogueTurn(self.role, self.text, pointer, unread, urls)


class StreamOptions(BaseModel):
    model_config = ConfigDict(strict=True)

    include_usage: bool | None = None


class RunParameters(BaseModel):
    """What a run of this service takes beside OpenAI's own parameters."""

    model_config = ConfigDict(strict=True)

    options: Context | None = Field(None, description="Tunables of this run, as in POST /ask.")
    thread_id: ask.ThreadId | None = Field(None, description="The conversation this belongs to.")
    collection: ask.AskedCollection = None
    metadata: dict[str, Any] | None = Field(
        None,
        description="May hold `thread_id`, `collection`, and `options` as an object or as its"
        " JSON text.",
    )


class ChatRequest(RunParameters):
    """Parameters of OpenAI's that are not named here (temperature, tools, …) change nothing."""

    model: str = Field(description="The name of a workflow, see GET /v1/models.")
    messages: list[ChatMessage] = Field(
        min_length=1, description="The dialogue; the last message of the user is the question."
    )
    stream: bool | None = Field(None, description="Answer with chat.completion.chunk events.")
    stream_options: StreamOptions | None = None
    n: int | None = Field(
        None,
        description="1; one question has one answer.",
        json_schema_extra={"enum": [1, None]},
    )

    @property
    def wants_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def turns(self) -> list[DialogueTurn]:
        sees_images = self.model == IMAGE_WORKFLOW
        return [
            message.turn(f"#/messages/{n}/content", sees_images=sees_images)
            for n, message in enumerate(self.messages)
        ]


_BRACKETS = re.compile(r"[\[\]()!<>`\\\s]+")


class UrlCitation(BaseModel):
    """`[start_index, end_index)` of the content rests on what `url` shows.

    That is a page of the web, or a document of this service at the cited part.

    Indices count Unicode code points.
    """

    url: str
    title: str
    start_index: int
    end_index: int


class Annotation(BaseModel):
    type: Literal["url_citation"] = "url_citation"
    url_citation: UrlCitation


class CompletionMessage(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str
    reasoning_content: str = ""
    annotations: list[Annotation] = []
    refusal: None = None


class Choice(BaseModel):
    index: int = 0
    message: CompletionMessage
    finish_reason: Literal["stop", "length"]
    logprobs: None = None


class CompletionUsage(BaseModel):
    """Tokens of the language model; the extractive generator uses none."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


class ChatCompletion(BaseModel):
    """`id` is `chatcmpl-` and the run's id."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: CompletionUsage


class Model(BaseModel):
    """A workflow."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "self-crag"
    description: str


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[Model]


class OpenAIError(BaseModel):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class OpenAIErrorBody(BaseModel):
    error: OpenAIError


class NotOffered(ServiceError):
    """What OpenAI's interface allows to ask and this service does not have."""

    def __init__(self, status: int, message: str, *, param: str, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.body = _error(message, CLIENTS_FAULT[0], param, code)


def error_of(problem: ask.Problem) -> dict[str, Any]:
    """`{"error": {message, type, param, code}}`; `param` is its first field, `options.upper`."""
    kind, code = KINDS.get(problem.status, CLIENTS_FAULT if problem.status < 500 else OUR_FAULT)
    pointer = problem.errors[0].pointer if problem.errors else ""
    param = pointer.removeprefix("#").removeprefix("/").replace("/", ".")
    return _error(problem.detail, kind, param or None, code)


def _error(message: str, kind: str, param: str | None, code: str) -> dict[str, Any]:
    error = OpenAIError(message=message, type=kind, param=param, code=code)
    return OpenAIErrorBody(error=error).model_dump()


def annotations(response: ask.AskResponse, base_url: str) -> list[Annotation]:
    """One for every sentence of every citation, in the order of the text."""
    spans = ((start, end, cited) for cited in response.citations for start, end in cited.spans)
    return [
        Annotation(
            url_citation=UrlCitation(
                url=address_of(cited, base_url),
                title=cited.title,
                start_index=start,
                end_index=end,
            )
        )
        for start, end, cited in sorted(spans, key=lambda span: span[0])
    ]


def sources(response: ask.AskResponse) -> list[str]:
    """The verdict, and `[n]` with what it stands for: the last lines of the reasoning.

    Not all clients show annotations.
    """
    verdict = text(response.verdict, script_of(response.answer))
    lines = (inert(f"[{c.n}] {c.title} — {c.source}", [c.source]) for c in response.citations)
    return [verdict, *lines]


def cautious(response: ask.AskResponse, choices: Sequence[str]) -> ask.AskResponse:
    """The response for clients that show no verdict: an unsupported answer begins with a caution.

    One of `choices`, a closed set, stays as it is, for its client compares it.
    """
    begins = "" if choices else caution(response.verdict, response.answer)
    by = len(begins)
    moved = [
        replace(cited, spans=tuple((start + by, end + by) for start, end in cited.spans))
        for cited in response.citations
    ]
    return response.model_copy(update={"answer": begins + response.answer, "citations": moved})


def shown_images(response: ask.AskResponse, addresses: Addresses) -> str:
    """Stored images that were asked for, as Markdown: at this service and nowhere else."""
    if response.workflow != IMAGE_WORKFLOW:
        return ""
    return "".join(
        f"\n\n![{_BRACKETS.sub(' ', inert(image.caption or image.title))}]"
        f"({addresses.image(image)})"
        for image in response.images
        if image.origin == "stored"
    )


def usage(response: ask.AskResponse) -> CompletionUsage:
    spent = response.usage
    return CompletionUsage(
        prompt_tokens=spent.input_tokens,
        completion_tokens=spent.output_tokens,
        total_tokens=spent.input_tokens + spent.output_tokens,
    )


def completion(
    run: Run, response: ask.AskResponse, reasoning: list[str], addresses: Addresses
) -> ChatCompletion:
    """The whole answer; `reasoning` are the lines before its sources."""
    response = cautious(response, run.request.context.choices)
    message = CompletionMessage(
        content=response.answer + shown_images(response, addresses),
        reasoning_content="\n".join([*reasoning, *sources(response)]),
        annotations=annotations(response, addresses.page),
    )
    return ChatCompletion(
        id=f"chatcmpl-{run.id}",
        created=int(time.time()),
        model=run.workflow,
        choices=[Choice(message=message, finish_reason=finish_reason(response))],
        usage=usage(response),
    )


class Chunks:
    """One run's events as the lines of a streamed completion; called with each in turn."""

    def __init__(self, run: Run, question: str, include_usage: bool, addresses: Addresses) -> None:
        self._include_usage, self._addresses = include_usage, addresses
        self._progress, self._choices = ProgressText(question), run.request.context.choices
        self._head: dict[str, Any] = {
            "id": f"chatcmpl-{run.id}",
            "created": int(time.time()),
            "model": run.workflow,
            "object": "chat.completion.chunk",
        }

    def __call__(self, _: int, event: ask.Event) -> str:
        return "".join(self.lines(event))

    def lines(self, event: ask.Event) -> Iterator[str]:
        match event:
            case ask.RunEvent():
                yield self.chunk({"role": "assistant", "content": ""})
            case ask.AnswerEvent():
                yield from self.answer(cautious(event.response, self._choices))
            case ask.ErrorEvent():
                yield data(error_of(event.problem))
            case ask.DoneEvent():
                yield DONE
            case _:
                for line in self._progress.lines(event):
                    yield self.step(line)

    def step(self, line: str) -> str:
        return self.chunk({"reasoning_content": f"{line}\n"})

    def answer(self, response: ask.AskResponse) -> Iterator[str]:
        for line in sources(response):
            yield self.step(line)
        for piece in response.answer.splitlines(keepends=True):  # no line cuts code in two
            yield self.chunk({"content": piece})
        if images := shown_images(response, self._addresses):
            yield self.chunk({"content": images})
        if cited := annotations(response, self._addresses.page):
            yield self.chunk({"annotations": [entry.model_dump() for entry in cited]})
        yield from self.end(response)

    def end(self, response: ask.AskResponse) -> Iterator[str]:
        yield self.chunk({}, finish_reason(response))
        if self._include_usage:
            yield data({**self._head, "choices": [], "usage": usage(response).model_dump()})

    def chunk(self, delta: dict[str, Any], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return data({**self._head, "choices": [choice]})
