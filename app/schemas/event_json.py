"""Events as text: what goes over the wire is what is stored, byte for byte."""

import json
import re

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from app.schemas.ask import AnswerEvent, ErrorEvent, Event

# Unicode's line separators split lines in some clients; halves of a character are no UTF-8.
_UNSAFE = re.compile("[\u2028\u2029\x85\ud800-\udfff]")


def payload(event: Event) -> dict[str, object]:
    """What goes into `data`."""
    content, without_none = _content(event)
    return content.model_dump(mode="json", exclude_none=without_none)


def _content(event: Event) -> tuple[BaseModel, bool]:
    """The data of an event, and whether fields that are None are left out: an answer has all."""
    if isinstance(event, AnswerEvent):
        return event.response, False
    return (event.problem if isinstance(event, ErrorEvent) else event), True


def as_json(value: object) -> str:
    """One line of JSON that can be sent as UTF-8 whatever a chat endpoint has said."""
    return _safe(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _safe(text: str) -> str:
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def data_of(event: Event) -> str:
    """The `data` line, made once: clients, followers and the store share it."""
    data = event._data
    if data is None:
        content, without_none = _content(event)
        try:
            data = _safe(content.model_dump_json(exclude_none=without_none))
        except PydanticSerializationError:  # half a character, which the quick way cannot write
            data = as_json(payload(event))
        event._data = data
    return data


def sent(number: int, name: str, data: str) -> str:
    """A server-sent event."""
    return f"event: {name}\ndata: {data}\nid: {number}\n\n"


def encoded(number: int, event: Event) -> str:
    return sent(number, event.name, data_of(event))
