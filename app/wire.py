"""Events as text: what goes over the wire is what is stored, byte for byte."""

import json
import re

from app.schemas import AnswerEvent, ErrorEvent, Event

# Unicode's line separators split lines in some clients; halves of a character are no UTF-8.
_UNSAFE = re.compile("[\u2028\u2029\x85\ud800-\udfff]")


def payload(event: Event) -> dict[str, object]:
    """What goes into `data`."""
    if isinstance(event, AnswerEvent):
        return event.response.model_dump(mode="json")
    if isinstance(event, ErrorEvent):
        return event.problem.model_dump(mode="json", exclude_none=True)
    return event.model_dump(mode="json", exclude_none=True)


def as_json(value: object) -> str:
    """One line of JSON that can be sent as UTF-8 whatever a chat endpoint has said."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def data_of(event: Event) -> str:
    """The `data` line, made once: clients, followers and the store share it."""
    if event._data is None:
        event._data = as_json(payload(event))
    return event._data


def sent(number: int, name: str, data: str) -> str:
    """A server-sent event."""
    return f"event: {name}\ndata: {data}\nid: {number}\n\n"


def encoded(number: int, event: Event) -> str:
    return sent(number, event.name, data_of(event))
