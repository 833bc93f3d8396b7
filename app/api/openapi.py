"""The description of the interface at `/openapi.json`.

FastAPI describes what routes take and give. Added here: the models of events, the names of
workflows, the keys, and the examples of `openapi_examples.json`, taken from real runs.
"""

import json
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from app.schemas.ask import PLAIN_EVENTS, Problem
from app.schemas.documents import ProgressEvent, ReportEvent
from graphs.workflows.registry import WORKFLOWS

ABOUT: dict[str, Any] = {
    "title": "self-crag",
    "version": version("self-crag"),
    "description": "Answers questions from a knowledge base and corrects itself: retrieved passages"
    " are graded, cut into strips, completed from the web where they do not suffice; drafts are"
    " criticised and revised. Errors are problem details (RFC 9457).",
    # Their pages run scripts of a foreign server, with all that this service's own page may do.
    "docs_url": None,
    "redoc_url": None,
    "openapi_tags": [
        {"name": "ask", "description": "Questions, and the workflows that answer them."},
        {"name": "runs", "description": "What was asked, how it was answered, what users think."},
        {"name": "threads", "description": "Conversations."},
        {"name": "documents", "description": "The knowledge base."},
        {"name": "evaluations", "description": "Question sets, measured on one's own documents."},
        {
            "name": "OpenAI",
            "description": "The workflows as models of OpenAI's chat completions and responses;"
            " embeddings.",
        },
        {"name": "AI SDK", "description": "The message stream of the AI SDK's `useChat`."},
        {"name": "operation", "description": "Health and metrics, for supervisors."},
    ],
}
EXAMPLES = Path(__file__).with_name("openapi_examples.json")
EVENTS = (*PLAIN_EVENTS.values(), ProgressEvent, ReportEvent)
KEYS = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key of `selfcrag keys add`."},
    "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
}


def describe(app: FastAPI) -> None:
    """Completes what `app.openapi` tells; made once, when it is first asked for."""
    plain = app.openapi

    @cache
    def completed() -> dict[str, Any]:
        models = [(model, "serialization") for model in (*EVENTS, Problem)]
        ref = "#/components/schemas/{model}"
        schemas = models_json_schema(models, ref_template=ref)[1]["$defs"]  # type: ignore[arg-type]
        names = {"properties": {"workflow": {"enum": [*WORKFLOWS, None]}}}
        described = plain()
        own = described["components"]["schemas"]
        requests = (name for name in own if name.endswith("Request"))
        schemas |= {n: names for n in requests if "workflow" in own[n].get("properties", ())}
        added = {
            "components": {"schemas": schemas, "securitySchemes": KEYS},
            "security": [*({scheme: []} for scheme in KEYS), {}],
        }
        examples = json.loads(EXAMPLES.read_text(encoding="utf-8"))
        paths = {p: own for p, own in examples.pop("paths").items() if p in described["paths"]}
        return merged(merged(described, added), {**examples, "paths": paths})

    app.openapi = completed  # type: ignore[method-assign]


def merged(into: dict[str, Any], added: dict[str, Any]) -> dict[str, Any]:
    """Both, in depth; what is added wins."""
    both = {
        name: merged(into[name], value) if isinstance(value, dict) else value
        for name, value in added.items()
        if name in into
    }
    return {**added, **into, **both}
