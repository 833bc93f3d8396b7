"""The AI SDK: what `useChat` sends, and a run as its UI message stream: the parts of one message.

The message is one step. Drafts are `data-draft` parts, of which AI SDK 5, 6 and 7 keep the latest
of each id, and the text follows once a draft is the answer. On request drafts are the text itself;
a rejected one is then taken back by `reset-step`, which clears the whole step: what was told of the
run's way is told again, in one piece.
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.protocols.addresses import Addresses
from app.protocols.answers import DONE, address_of, data, finish_reason, is_web_address
from app.protocols.messages import DialogueTurn, TextPart, text_of
from app.protocols.progress_text import ProgressText
from app.retrieval.images import MEDIA_TYPE
from app.schemas import ask
from graphs.options import Context
from graphs.types import Citation, Image
from graphs.workflows.registry import IMAGE_WORKFLOW

PROVIDER = "self-crag"
DRAFT_CHARS = 80
"""So much more of a draft is told at once: each time the whole draft is."""
HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}
METADATA = {
    *("action", "verdict", "confidence", "missing", "stopped_by", "degraded", "models", "usage")
}
"""What of the answer the message keeps, beside its text and sources."""
ANSWERED = {"text", "reasoning", "source-url", "source-document", "step-start"}


class UIPart(TextPart):
    """A part of a message: text, or a file, of which images are read, as data URLs."""

    media_type: str | None = Field(None, alias="mediaType")
    url: str | None = None

    @property
    def is_image(self) -> bool:
        return self.type == "file" and (self.media_type or "").startswith("image/")


class UIMessage(BaseModel):
    role: str
    parts: list[UIPart]

    def turn(self, pointer: str, *, sees_images: bool) -> DialogueTurn:
        """Unread are the parts that would matter; data of ours and marks of steps do not."""
        shown = [part for part in self.parts if part.is_image] if sees_images else []
        kinds = {part.type for part in self.parts if part not in shown} - ANSWERED
        unread = {kind for kind in kinds if not kind.startswith("data-")}
        urls = [part.url or "" for part in shown]
        return DialogueTurn(self.role, text_of(self.parts), pointer, unread, urls)


class UIRequest(BaseModel):
    """What `useChat` sends beside this (messageId, …) changes nothing."""

    model_config = ConfigDict(strict=True)

    messages: list[UIMessage] = Field(
        min_length=1, description="The dialogue; the last message of the user is the question."
    )
    id: ask.ThreadId | None = Field(None, description="The chat's id, which is the thread's.")
    workflow: str | None = Field(
        None,
        description="See GET /workflows; left out: the default, and about an image `illustrate`.",
    )
    options: Context = Field(default_factory=Context, description="Tunables of this run.")
    collection: ask.AskedCollection = None
    trigger: str = ""
    drafts: bool | Literal["data", "reset"] = Field(
        "data",
        description="How drafts are told as they are written: in `data-draft` parts beside the"
        " text (`data`, true), as the text, with `reset-step` where one is rejected (`reset`, AI"
        " SDK 7 alone), or not at all (false).",
    )

    @property
    def shows_image(self) -> bool:
        """Whether the user's last message does."""
        questions = [message for message in self.messages if message.role == "user"]
        return bool(questions) and any(part.is_image for part in questions[-1].parts)

    def turns(self, workflow: str) -> list[DialogueTurn]:
        sees_images = workflow == IMAGE_WORKFLOW
        return [
            message.turn(f"#/messages/{n}/parts", sees_images=sees_images)
            for n, message in enumerate(self.messages)
        ]


DraftState = Literal["writing", "withdrawn", "accepted"]


class UIParts:
    """Called with each event of one run; but for `reset` the text comes once it is accepted."""

    def __init__(
        self, question: str, drafts: bool | Literal["data", "reset"], addresses: Addresses
    ) -> None:
        self._tells_drafts = drafts in ("data", True)
        self._resets_text = drafts == "reset"
        self._addresses = addresses
        self._progress = ProgressText(question)
        self._drafts: dict[int, str] = {}
        self._unsent = 0
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
                metadata = event.model_dump()
                yield {"type": "start", "messageId": event.run_id, "messageMetadata": metadata}
                yield {"type": "start-step"}
            case ask.StepEvent():
                yield from self._draft_so_far()
                yield _passing("data-step", event)
                yield from self._reasoning(event)
            case ask.StepProgress():
                yield _passing("data-progress", event)
            case ask.TokenEvent():
                yield from self._token(event)
            case ask.RetractEvent():
                yield _passing("data-retract", event)
                if self._resets_text:
                    yield from self._reset(event.round)
                elif event.round in self._drafts:
                    yield self._ended_draft(event.round, "withdrawn", event.reason)
                yield from self._reasoning(event)
            case ask.AnswerEvent():
                yield from self._answer(event)
            case ask.ErrorEvent():
                yield {"type": "error", "errorText": event.problem.detail}

    def _token(self, event: ask.TokenEvent) -> Iterator[dict[str, Any]]:
        if self._resets_text:
            yield from self._text(event.round, event.text)
        elif self._tells_drafts:
            yield from self._draft(event.round, event.text)

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

    def _draft(self, round_: int, text: str) -> Iterator[dict[str, Any]]:
        """The draft as far as it is written, each time some more of it is."""
        if round_ != next(reversed(self._drafts), None):
            yield from self._draft_so_far()
        self._drafts[round_] = self._drafts.pop(round_, "") + text
        self._unsent += len(text)
        if self._unsent == len(self._drafts[round_]) or self._unsent >= DRAFT_CHARS:
            yield from self._draft_so_far()

    def _draft_so_far(self) -> Iterator[dict[str, Any]]:
        """The draft that was written last, where some of it is not told yet."""
        if self._unsent:
            self._unsent = 0
            round_, text = next(reversed(self._drafts.items()))
            yield _draft_part(round_, "writing", text)

    def _ended_draft(
        self, round_: int, state: DraftState, reason: str | None = None
    ) -> dict[str, Any]:
        """Without its text, which nobody should take for the answer, or which is the answer now."""
        del self._drafts[round_]
        self._unsent = 0
        return _draft_part(round_, state, "", reason)

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
        remaining = {n: text for n, text in self._texts.items() if n != round_}
        self._texts = {}
        for n, text in remaining.items():
            yield from self._text(n, text)

    def _answer(self, event: ask.AnswerEvent) -> Iterator[dict[str, Any] | str]:
        response = event.response
        for round_ in list(self._drafts):
            yield self._ended_draft(round_, "accepted")
        if not self._texts:
            yield from self._text(0, response.answer)
        yield from ({"type": "text-end", "id": f"text-{n}"} for n in self._texts)
        if self._reasoning_lines:
            yield {"type": "reasoning-end", "id": self._reasoning_id}
        yield from _sources(response.citations, self._addresses.page)
        yield from (_image(image, self._addresses) for image in response.images)
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


def _draft_part(
    round_: int, state: DraftState, text: str, reason: str | None = None
) -> dict[str, Any]:
    data = {"round": round_, "state": state, "text": text}
    return {
        "type": "data-draft",
        "id": f"draft-{round_}",
        "data": {**data, "reason": reason} if reason else data,
    }


def _image(image: Image, addresses: Addresses) -> dict[str, Any]:
    """A file as AI SDK 5, 6 and 7 show one: of a cited source, or as a model made it."""
    names = {"caption": image.caption, "title": image.title, "source": image.source}
    return {
        "type": "file",
        "url": addresses.image(image),
        "mediaType": MEDIA_TYPE,
        "providerMetadata": {PROVIDER: {**names, "origin": image.origin}},
    }


def _sources(citations: list[Citation], base_url: str) -> Iterator[dict[str, Any]]:
    """Each page and each file once; `sourceId` is the `source` of its citations.

    A file has its address at this service, where it has one, in the metadata.
    """
    for source, cited in {cited.source: cited for cited in citations}.items():
        if cited.origin == "web" and is_web_address(source):
            yield {"type": "source-url", "sourceId": source, "url": source, "title": cited.title}
        else:
            address = address_of(cited, base_url)
            shown = {PROVIDER: {"url": address}} if is_web_address(address) else None
            yield {
                "type": "source-document",
                "sourceId": source,
                "mediaType": "text/plain",
                "title": cited.title,
                "filename": source,
                **({"providerMetadata": shown} if shown else {}),
            }
