"""What several protocols tell of an answer alike: lines of events, sources, why it ended."""

import re
from typing import Literal

from app.schemas.ask import AskResponse, as_json
from graphs.types import Citation

DONE = "data: [DONE]\n\n"
CUT_SHORT = ("deadline", "budget")
STORED_PART = re.compile(r"[0-9a-f]{16}-[0-9a-f]{8}-\d+(?:\.\.\d+)?")
"""The id of a part of a stored document, or of parts that follow each other."""
_NAME = re.compile(r"(?![\\/\s]{2})[^:\x00-\x1f]*")  # without a scheme or a host


def is_web_address(source: str) -> bool:
    """Whether a frontend may make a link of it."""
    return source.startswith(("https://", "http://"))


def address_of(cited: Citation, base_url: str) -> str:
    """Where the cited text can be read: its web page, or the page of this service, at its part.

    What a caller gave along has no place: its own name then, unless that is an address of a kind
    that no frontend should open.
    """
    part, _, _ = cited.strip_id.partition("#")
    if STORED_PART.fullmatch(part):
        return f"{base_url}#document={part}"
    is_harmless = is_web_address(cited.source) or _NAME.fullmatch(cited.source)
    return cited.source if is_harmless else base_url


def finish_reason(response: AskResponse) -> Literal["stop", "length"]:
    """`length` where time, calls or tokens ran out before the answer was good enough."""
    return "length" if response.stopped_by in CUT_SHORT else "stop"


def data(value: object) -> str:
    return f"data: {as_json(value)}\n\n"
