"""A frontend's messages as a question and its history; fields checked by hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

from app.errors import InvalidRequest, message_of
from app.protocols.progress_text import without_caution
from app.schemas.ask import UserText
from app.storage.signed_addresses import without_signatures
from graphs.state import Question
from graphs.types import Message
from graphs.workflows.registry import IMAGE_WORKFLOW

MAX_MESSAGES = 40
"""Of a longer dialogue the workflows read no more."""
MAX_KINDS, MAX_KIND_CHARS = 5, 40
T = TypeVar("T")
_QUESTION: TypeAdapter[str] = TypeAdapter(UserText)


TEXT_TYPES = frozenset(("text", "input_text", "output_text"))


class TextPart(BaseModel):
    """A part of a message; only those of TEXT_TYPES are read."""

    type: str
    text: str | None = None


def text_of(parts: Sequence[TextPart]) -> str:
    return "\n".join(part.text or "" for part in parts if part.type in TEXT_TYPES)


@dataclass(frozen=True, slots=True)
class DialogueTurn:
    """One message of a frontend.

    `unread` are the types of its parts that nothing here reads, `images` the URLs of its images.
    """

    role: str
    text: str
    pointer: str
    unread: set[str]
    images: Sequence[str] = ()


def question_of(turns: Sequence[DialogueTurn], pointer: str = "#/messages") -> Question:
    """The user's last message as the question, and the history before it. Raises InvalidRequest.

    `pointer` is where the messages stand in the request.

    The service answers by its own rules, so what a frontend tells the model (system) is left out,
    and so are the results of tools.
    """
    last = _last_question(turns)
    if last is None:
        raise InvalidRequest(pointer, "holds no message of the user")
    turn = turns[last]
    if turn.unread:
        # Names that a client chose, fit to be sent back.
        kinds = (repr(kind[:MAX_KIND_CHARS])[1:-1] for kind in sorted(turn.unread)[:MAX_KINDS])
        raise InvalidRequest(
            turn.pointer,
            f"holds {', '.join(kinds)}; only text can be asked about, and an image with"
            f" {IMAGE_WORKFLOW}",
        )
    question = checked(_QUESTION, turn.text, turn.pointer)
    history = [
        Message(role=cast("Any", turn.role), content=without_caution(without_signatures(turn.text)))
        for turn in turns[:last]
        if turn.role in ("user", "assistant") and turn.text.strip()
    ]
    return Question(question=question, history=history[-MAX_MESSAGES:])


def image_of(turns: Sequence[DialogueTurn]) -> tuple[str, str] | None:
    """The image of the question, and where it stands. Raises InvalidRequest where it has more."""
    last = _last_question(turns)
    if last is None or not turns[last].images:
        return None
    if (count := len(turns[last].images)) > 1:
        raise InvalidRequest(turns[last].pointer, f"holds {count} images; ask about one at a time")
    return turns[last].images[0], turns[last].pointer


def _last_question(turns: Sequence[DialogueTurn]) -> int | None:
    """The place of the user's last message."""
    return max((n for n, turn in enumerate(turns) if turn.role == "user"), default=None)


def prefer_thread(question: Question) -> None:
    """Leaves the dialogue to the thread where the messages hold none."""
    if not question["history"]:
        del question["history"]


def checked(kind: TypeAdapter[T], value: object, pointer: str) -> T:
    """`value` as what it has to be. Raises InvalidRequest below `pointer`."""
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        item = error.errors()[0]
        place = "/".join([pointer, *map(str, item["loc"])])
        raise InvalidRequest(place, message_of(cast("Any", item))) from None
