"""The AI SDK: what `useChat` sends, and a run as its UI message stream: the parts of one message.

The message is one step. A rejected draft is taken back by `reset-step`, which clears the whole
step: what was told of the run's way is then told again, in one piece.
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from app.protocols.messages import DialogueTurn, TextPart, text_of
from app.protocols.openai import DONE, data, finish_reason, is_web_address
from app.protocols.progress_text import ProgressText
from app.runs.run import Run
from app.schemas import ask
from graphs.options import Context
from graphs.types import Citation

HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
METADATA = {"action", "verdict", "missing", "stopped_by", "degraded", "models", "usage"}
"""What of the answer the message keeps, beside its text and sources."""
ANSWERED = {"text", "reasoning", "source-url", "source-document", "step-start"}


class UIMessage(BaseModel):
    role: str
    parts: list[TextPart]

    @property
    def text(self) -> str:
        return text_of(self.parts)

    @property
    def unread(self) -> set[str]:
        """The types of parts that would matter; data of ours and marks of steps do not."""
        kinds = {part.type for part in self.parts}
        return {kind for kind in kinds - ANSWERED if not kind.startswith("data-")}


class UIRequest(BaseModel):
    """What `useChat` sends beside this (messageId, …) changes nothing."""

    model_config = ConfigDict(strict=True)

    messages: list[UIMessage] = Field(
        min_length=1, description="The dialogue; the last message of the user is the question."
    )
    id: ask.ThreadId | None = Field(None, description="The chat's id, which is the thread's.")
    workflow: str | None = Field(None, description="See GET /workflows; left out: the default.")
    options: Context = Field(default_factory=Context, description="Tunables of this run.")
    collection: ask.CollectionName | None = Field(
        None, description="Whose documents are searched; left out: the key's first, or `default`."
    )
    trigger: str = ""
    drafts: bool = Field(
        True,
        description="Show drafts as they are written and take rejected ones back (`reset-step`, "
        "AI SDK 7); false sends the answer alone, for AI SDK 5 and 6.",
    )

    def turns(self) -> list[DialogueTurn]:
        return [
            DialogueTurn(message.role, message.text, f"#/messages/{n}/parts", message.unread)
            for n, message in enumerate(self.messages)
        ]


class UIParts:
    """Called with each event of one run; without `drafts` the text comes once it is accepted."""

    def __init__(self, run: Run, question: str, drafts: bool) -> None:
        self._run, self._drafts = run, drafts
        self._progress = ProgressText(question)
        self._reasoning_lines: list[str] = []
        self._resets = 0
        self._texts: dict[int, str] = {}

    def __call__(self, _: int, event: ask.Event) -> str:
        parts = (part if isinstance(part, str) else data(part) for part in self.parts(event))
        return "".join(parts) + (DONE if isinstance(event, ask.DoneEvent) else "")

    def parts(self, event: ask.Event) -> Iterator[dict[str, Any] | str]:
        """Parts of the message; one that holds the event's own data is a line already."""
        match event:
            case ask.RunEvent():
                told = event.model_dump()
                yield {"type": "start", "messageId": event.run_id, "messageMetadata": told}
                yield {"type": "start-step"}
            case ask.StepEvent():
                yield _passing("data-step", event)
                yield from self._reasoning(event)
            case ask.TokenEvent() if self._drafts:
                yield from self._text(event.round, event.text)
            case ask.RetractEvent():
                yield _passing("data-retract", event)
                if self._drafts:
                    yield from self._reset(event.round)
                yield from self._reasoning(event)
            case ask.AnswerEvent():
                yield from self._answer(event)
            case ask.ErrorEvent():
                yield {"type": "error", "errorText": event.problem.detail}

    def _reasoning(self, event: ask.Event) -> Iterator[dict[str, Any]]:
        for line in self._progress.lines(event):
            if not self._reasoning_lines:
                yield {"type": "reasoning-start", "id": self._reasoning_id}
            self._reasoning_lines.append(f"{line}\n")
            delta = self._reasoning_lines[-1]
            yield {"type": "reasoning-delta", "id": self._reasoning_id, "delta": delta}

    @property
    def _reasoning_id(self) -> str:
        return f"reasoning-{self._resets}"

    def _text(self, round_: int, text: str) -> Iterator[dict[str, Any]]:
        if round_ not in self._texts:
            self._texts[round_] = ""
            yield {"type": "text-start", "id": f"text-{round_}"}
        self._texts[round_] += text
        yield {"type": "text-delta", "id": f"text-{round_}", "delta": text}

    def _reset(self, round_: int) -> Iterator[dict[str, Any]]:
        yield {"type": "reset-step"}
        self._resets += 1
        if self._reasoning_lines:
            yield {"type": "reasoning-start", "id": self._reasoning_id}
            whole = "".join(self._reasoning_lines)
            yield {"type": "reasoning-delta", "id": self._reasoning_id, "delta": whole}
        kept = {n: text for n, text in self._texts.items() if n != round_}
        self._texts = {}
        for n, text in kept.items():
            yield from self._text(n, text)

    def _answer(self, event: ask.AnswerEvent) -> Iterator[dict[str, Any] | str]:
        response = event.response
        if not self._texts:
            yield from self._text(0, response.answer)
        yield from ({"type": "text-end", "id": f"text-{n}"} for n in self._texts)
        if self._reasoning_lines:
            yield {"type": "reasoning-end", "id": self._reasoning_id}
        yield from _sources(response.citations)
        for cited in response.citations:
            yield {"type": "data-citation", "id": f"citation-{cited.n}", "data": asdict(cited)}
        yield _passing("data-answer", event)
        yield {"type": "finish-step"}
        yield {
            "type": "finish",
            "finishReason": finish_reason(response),
            "messageMetadata": response.model_dump(mode="json", include=METADATA),
        }


def _passing(kind: str, event: ask.Event) -> str:
    """A part that no message keeps, around the data of the event as it is sent and stored."""
    return f'data: {{"type":"{kind}","data":{event.data},"transient":true}}\n\n'


def _sources(citations: list[Citation]) -> Iterator[dict[str, Any]]:
    """Each page and each file once; `sourceId` is the `source` of its citations."""
    for source, cited in {cited.source: cited for cited in citations}.items():
        if cited.origin == "web" and is_web_address(source):
            yield {"type": "source-url", "sourceId": source, "url": source, "title": cited.title}
        else:
            yield {
                "type": "source-document",
                "sourceId": source,
                "mediaType": "text/plain",
                "title": cited.title,
                "filename": source,
            }
