"""What goes over the wire below /v1, in the form of OpenAI's chat completions."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.schemas.ask import DialogueTurn, ThreadId
from graphs.options import Context


class ContentPart(BaseModel):
    """A piece of a message; only those of type `text` are read."""

    model_config = ConfigDict(extra="ignore")

    type: str
    text: str | None = None


class ChatMessage(BaseModel):
    """A turn; those of roles other than user and assistant are not read."""

    model_config = ConfigDict(extra="ignore")

    role: str
    content: str | list[ContentPart] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text or "" for part in self.content if part.type == "text")
        return self.content or ""

    @property
    def kinds(self) -> set[str]:
        """The types of its parts."""
        return {part.type for part in self.content} if isinstance(self.content, list) else {"text"}


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")

    include_usage: bool | None = None


class ChatRequest(BaseModel):
    """Parameters of OpenAI's that are not named here (temperature, tools, …) change nothing."""

    model_config = ConfigDict(extra="ignore", strict=True)

    model: str = Field(description="The name of a workflow, see GET /v1/models.")
    messages: list[ChatMessage] = Field(
        min_length=1, description="The dialogue; the last message of the user is the question."
    )
    stream: bool | None = Field(None, description="Answer with chat.completion.chunk events.")
    stream_options: StreamOptions | None = None
    n: int | None = Field(None, description="1; one question has one answer.")
    options: Context | None = Field(None, description="Tunables of this run, as in POST /ask.")
    thread_id: ThreadId | None = Field(None, description="The conversation this belongs to.")
    metadata: dict[str, Any] | None = Field(
        None, description="May hold `thread_id`, and `options` as an object or as its JSON text."
    )

    @property
    def wants_usage(self) -> bool:
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def turns(self) -> list[DialogueTurn]:
        return [
            DialogueTurn(
                message.role, message.text, f"#/messages/{n}/content", message.kinds - {"text"}
            )
            for n, message in enumerate(self.messages)
        ]


class UrlCitation(BaseModel):
    """`[start_index, end_index)` of the content rests on `url`: a page's address, a file's path.

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
