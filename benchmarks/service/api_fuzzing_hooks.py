"""Hooks of Schemathesis, for `api_fuzzing`: what a schema cannot say of a valid request.

Requests made to be invalid are sent as they are.
"""

from typing import Any
from uuid import uuid4

import schemathesis
from schemathesis import GenerationMode

DEADLINE_MS = 300
NEEDS_OTHER_FIELDS_OR_PARTS = ("compress", "lower", "rerank", "upper")
"""Options that are valid by other options, or where the service has a part."""
QUESTION = "What does the upper threshold decide?"
MESSAGES: dict[str, dict[str, Any]] = {
    "/ask/ui": {"role": "user", "parts": [{"type": "text", "text": QUESTION}]},
    "/v1/chat/completions": {"role": "user", "content": QUESTION},
}


def before_load_schema(_: schemathesis.HookContext, raw_schema: dict[str, Any]) -> None:
    """The schema of an event stream is that of the whole text; it would be read as an event's."""
    for methods in raw_schema["paths"].values():
        for operation in methods.values():
            for response in operation["responses"].values():
                response.get("content", {}).get("text/event-stream", {}).pop("schema", None)


def before_call(_: schemathesis.HookContext, case: schemathesis.Case, __: dict[str, Any]) -> None:
    is_valid = case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE
    body = case.body
    if is_valid and "idempotency-key" in (case.headers or {}):
        case.headers["idempotency-key"] = uuid4().hex  # a key goes with one body
    if (
        not is_valid
        or not isinstance(body, dict)
        or case.path not in {"/ask", "/search", *MESSAGES}
    ):
        return
    options = {
        name: _whole(value)
        for name, value in (body.get("options") or {}).items()
        if name not in NEEDS_OTHER_FIELDS_OR_PARTS
    }
    body["options"] = {**options, "deadline_ms": DEADLINE_MS}
    body.pop("image", None)  # a pattern tells a data URL, not what can be opened
    if case.path in MESSAGES:
        body["messages"] = [MESSAGES[case.path]]
        body.pop("metadata", None)


def _whole(value: Any) -> Any:
    """7 for 7.0: to JSON Schema an integer, to the service's strict options none."""
    if isinstance(value, dict):
        return {name: _whole(part) for name, part in value.items()}
    return int(value) if isinstance(value, float) and value.is_integer() else value


for hook in (before_load_schema, before_call):
    schemathesis.hook(hook)
