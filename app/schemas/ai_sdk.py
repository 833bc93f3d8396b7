"""What the AI SDK's `useChat` sends to `POST /ask/ui`."""

from pydantic import BaseModel, ConfigDict, Field

from app.schemas.ask import DialogueTurn, ThreadId
from graphs.options import Context

ANSWERED = {"text", "reasoning", "source-url", "source-document", "step-start"}


class UIPart(BaseModel):
    """A part of a message; those of type `text` are read."""

    model_config = ConfigDict(extra="ignore")

    type: str
    text: str | None = None


class UIMessage(BaseModel):
    model_config = ConfigDict(extra="ignore")

    role: str
    parts: list[UIPart]

    @property
    def text(self) -> str:
        return "\n".join(part.text or "" for part in self.parts if part.type == "text")

    @property
    def unread(self) -> set[str]:
        """The types of parts that would matter; data of ours and marks of steps do not."""
        kinds = {part.type for part in self.parts}
        return {kind for kind in kinds - ANSWERED if not kind.startswith("data-")}


class UIRequest(BaseModel):
    """What `useChat` sends beside this (messageId, …) changes nothing."""

    model_config = ConfigDict(extra="ignore", strict=True)

    messages: list[UIMessage] = Field(
        min_length=1, description="The dialogue; the last message of the user is the question."
    )
    id: ThreadId | None = Field(None, description="The chat's id, which is the thread's.")
    workflow: str | None = Field(None, description="See GET /workflows; left out: the default.")
    options: Context = Field(default_factory=Context, description="Tunables of this run.")
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
