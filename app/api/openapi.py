"""The description of the interface at `/openapi.json`: examples, problems, events, keys.

FastAPI describes what routes take and give; the examples beside it, in `openapi_examples.json`, are
taken from real runs.
"""

import json
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from app.schemas.ask import DoneEvent, Event, Problem, RetractEvent, RunEvent, StepEvent, TokenEvent
from app.schemas.documents import ProgressEvent, ReportEvent
from app.schemas.event_json import as_json

ABOUT: dict[str, Any] = {
    "title": "self-crag",
    "version": version("self-crag"),
    "description": "Answers questions from a knowledge base and corrects itself: retrieved passages"
    " are graded, cut into strips, completed from the web where they do not suffice; drafts are"
    " criticised and revised. Errors are problem details (RFC 9457).",
    "openapi_tags": [
        {"name": "ask", "description": "Questions, and the workflows that answer them."},
        {"name": "runs", "description": "What was asked, how it was answered, what users think."},
        {"name": "threads", "description": "Conversations."},
        {"name": "documents", "description": "The knowledge base."},
        {"name": "OpenAI", "description": "The workflows as models of OpenAI's chat completions."},
        {"name": "AI SDK", "description": "The message stream of the AI SDK's `useChat`."},
        {"name": "operation", "description": "Health and metrics, for supervisors."},
    ],
}

EXAMPLES: dict[str, Any] = json.loads(
    Path(__file__).with_name("openapi_examples.json").read_text(encoding="utf-8")
)
REF = "#/components/schemas/{model}"
PLAIN: tuple[type[Event], ...] = (
    *(RunEvent, StepEvent, TokenEvent, RetractEvent, DoneEvent),
    *(ProgressEvent, ReportEvent),
)
EVENT_MODELS = {"answer": "AskResponse", "error": "Problem"} | {
    kind.name: kind.__name__ for kind in PLAIN
}
"""What the `data` of each event are."""
EVENT_STREAMS = {
    "POST /ask": "run_events",
    "GET /runs/{run_id}/events": "run_events",
    "POST /documents": "upload_events",
}
KEYS = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key of `selfcrag keys add`."},
    "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}
OPEN_BELOW = "/health/"
BELOW_V1 = "/v1/"
DETAILS = {
    401: "Send a key as `Authorization: Bearer KEY`.",
    403: "This key does not allow it: the scope 'documents' is missing.",
    404: "There is no such thing, or it is another owner's.",
    409: "A run is under way on thread conversation-1; wait for it, or cancel it.",
    413: "The body is larger than 1,000,000 bytes.",
    422: "#/options/upper: Input should be a valid number",
    500: "The service failed at this request.",
    503: "64 runs are under way; try again in a moment.",
}
WRONG_FIELD = {"pointer": "#/options/upper", "detail": "Input should be a valid number"}


def describe(app: FastAPI) -> None:
    """Completes what `app.openapi` tells; made once, when it is first asked for."""
    plain = app.openapi

    @cache
    def completed() -> dict[str, Any]:
        return _completed(plain())

    app.openapi = completed  # type: ignore[method-assign]


def _completed(spec: dict[str, Any]) -> dict[str, Any]:
    components = spec.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    models = [(model, "serialization") for model in (*PLAIN, Problem)]
    schemas |= models_json_schema(models, ref_template=REF)[1]["$defs"]  # type: ignore[arg-type]
    for replaced in ("HTTPValidationError", "ValidationError"):
        schemas.pop(replaced, None)
    components["securitySchemes"] = KEYS
    for name, path, operation in _operations(spec):
        if not path.startswith(OPEN_BELOW):
            operation["security"] = [{scheme: []} for scheme in KEYS] + [{}]
            refusals = ("401", "403", "413") if "requestBody" in operation else ("401", "403")
            for status in refusals:
                operation["responses"].setdefault(status, {})
        for status, response in operation["responses"].items():
            if int(status) >= HTTPStatus.BAD_REQUEST:
                response.update(_refusal(int(status), path))
        _exemplify(name, operation)
    return spec


def _operations(spec: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """`POST /ask`, its path, its description."""
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", path, operation


def _exemplify(name: str, operation: dict[str, Any]) -> None:
    known = EXAMPLES["operations"].get(name, {})
    if "request" in known:
        (body,) = operation["requestBody"]["content"].values()
        body["example"] = known["request"]
    status = min(operation["responses"])
    content = operation["responses"][status].setdefault("content", {})
    if "response" in known:
        content["application/json"]["example"] = known["response"]
    if "text" in known:
        content["text/plain"] = {"schema": {"type": "string"}, "example": known["text"]}
    if "stream" in known:
        content["text/event-stream"] = {"schema": {"type": "string"}, "example": known["stream"]}
    if name in EVENT_STREAMS:
        content["text/event-stream"] = _stream(EXAMPLES[EVENT_STREAMS[name]])
    if not content:
        del operation["responses"][status]["content"]


def _stream(events: dict[str, Any]) -> dict[str, Any]:
    """Every kind of event with an example; `x-events` leads to the models of their data."""
    return {
        "schema": {
            "type": "string",
            "description": "Server-sent events: `event`, one line of JSON as `data`, `id`.",
        },
        "examples": {
            name: {"value": f"event: {name}\ndata: {as_json(event['data'])}\nid: {event['id']}\n\n"}
            for name, event in events.items()
        },
        "x-events": {name: {"$ref": REF.format(model=EVENT_MODELS[name])} for name in events},
    }


def _refusal(status: int, path: str) -> dict[str, Any]:
    """How a status is told: as a problem, below /v1 as an error of OpenAI's."""
    is_invalid = status == HTTPStatus.UNPROCESSABLE_ENTITY
    title = "Invalid request" if is_invalid else HTTPStatus(status).phrase
    detail = DETAILS.get(status, title)
    example: dict[str, Any]
    if path.startswith(BELOW_V1):
        model, kind = "OpenAIErrorBody", "application/json"
        told = {"message": detail, "type": "invalid_request_error", "param": None, "code": None}
        example = {"error": told}
    else:
        model, kind = "Problem", "application/problem+json"
        example = {"type": "about:blank", "title": title, "status": status, "detail": detail}
        if is_invalid:
            example["errors"] = [WRONG_FIELD]
    content = {kind: {"schema": {"$ref": REF.format(model=model)}, "example": example}}
    return {"description": title, "content": content}
