"""/openapi.json: every route described, every example true to its own schema."""

import json
import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import jsonschema_rs
import pytest

from app.api.openapi import EVENTS, EXAMPLES
from app.main import create_app
from app.schemas.ask import Event
from app.settings import Settings

SPEC: dict[str, Any] = create_app(Settings(_env_file=None)).openapi()
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, methods in SPEC["paths"].items()
    for method, operation in methods.items()
}
SILENT = {
    "DELETE /threads/{thread_id}",
    "DELETE /documents/{document_id}",
    "DELETE /collections/{name}",
    "DELETE /evaluations/{evaluation_id}",
}


def fits(example: object, schema: dict[str, Any]) -> None:
    whole = {**schema, "components": SPEC["components"]}
    jsonschema_rs.Draft202012Validator(whole).validate(example)


def contents(operation: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(place, media type, content) of the request and of all responses."""
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield "request", kind, content
    for status, response in operation["responses"].items():
        for kind, content in response.get("content", {}).items():
            yield status, kind, content


def test_the_schema_of_a_request_refuses_what_the_service_does() -> None:
    asked = SPEC["components"]["schemas"]["AskRequest"]
    fits({"question": "How tall?\n\t是？", "workflow": "crag"}, asked)
    for wrong in (
        {"question": " \n"},
        {"question": "a\x07b"},
        {"question": "a", "workflow": "x"},
        {"question": "a", "options": {"nope": 1}},
    ):
        with pytest.raises(jsonschema_rs.ValidationError):
            fits(wrong, asked)


def test_an_ended_run_without_further_events_is_described() -> None:
    assert "204" in OPERATIONS["GET /runs/{run_id}/events"]["responses"]


def test_the_description_says_what_it_is() -> None:
    info = SPEC["info"]
    assert (info["title"], info["version"]) == ("self-crag", version("self-crag"))
    assert len(info["description"]) > 50
    assert all(len(tag["description"]) > 10 for tag in SPEC["tags"])
    assert {"bearer": []} in SPEC["security"]
    assert SPEC["components"]["securitySchemes"].keys() == {"bearer", "header"}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_route_is_described(name: str) -> None:
    operation = OPERATIONS[name]
    assert operation["summary"]
    assert len(operation["description"]) > 10
    assert set(operation["tags"]) <= {tag["name"] for tag in SPEC["tags"]}
    assert operation["tags"]
    for parameter in operation.get("parameters", ()):
        assert parameter["schema"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_route_has_examples_that_fit_their_schemas(name: str) -> None:
    answered = OPERATIONS[name]["responses"][min(OPERATIONS[name]["responses"])]
    assert bool(answered.get("content")) == (name not in SILENT)
    for place, kind, content in contents(OPERATIONS[name]):
        has_example = "example" in content or content.get("examples")
        assert has_example or kind == "multipart/form-data", (place, kind)
        assert content["schema"], (place, kind)
        if "example" in content:
            fits(content["example"], content["schema"])
        if "application/json" in kind and place == "200":
            assert content["schema"] != {}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_refusal_is_described(name: str) -> None:
    """Whoever may be asked for a key is told so."""
    operation = OPERATIONS[name]
    refusals = {status for status in operation["responses"] if int(status) >= 400}
    if name.startswith("GET /health/"):
        assert operation["security"] == []
    else:
        assert {"401", "403"} <= refusals
        assert "security" not in operation, "that of all"
    for status in refusals:
        (kind,) = operation["responses"][status]["content"]
        below_v1 = name.split()[1].startswith("/v1/")
        assert kind == ("application/json" if below_v1 else "application/problem+json")
    if "requestBody" in operation:
        assert {"413", "422"} <= refusals


@pytest.mark.parametrize("name", ["POST /ask", "POST /ask/ui", "POST /v1/chat/completions"])
def test_whoever_asks_learns_what_a_question_may_be_refused_with(name: str) -> None:
    """400 is OpenAI's `n` above 1 alone; too many runs are 503, a used-up quota is 429."""
    refusals = {status for status in OPERATIONS[name]["responses"] if int(status) >= 400}
    own = {"400"} if "/v1/" in name else set()
    assert refusals - own == {"401", "403", "404", "409", "413", "422", "429", "500", "503"}
    assert own <= refusals


STREAMED = {
    "POST /ask": {"run", "step", "token", "retract", "answer", "error", "done"},
    "GET /runs/{run_id}/events": {"run", "step", "token", "retract", "answer", "error", "done"},
    "POST /documents": {"progress", "report", "done"},
}


@pytest.mark.parametrize("name", STREAMED)
def test_every_event_is_documented_with_an_example(name: str) -> None:
    content = OPERATIONS[name]["responses"]["200"]["content"]["text/event-stream"]
    assert set(content["examples"]) == set(content["x-events"]) == STREAMED[name]
    for event, example in content["examples"].items():
        told = re.fullmatch(r"event: (\w+)\ndata: (.+)\nid: (\d+)\n\n", example["value"])
        assert told is not None
        assert told[1] == event
        fits(json.loads(told[2]), content["x-events"][event])


def test_no_kind_of_event_is_left_out() -> None:
    def kinds(model: type[Event]) -> Iterator[type[Event]]:
        for kind in model.__subclasses__():
            yield kind
            yield from kinds(kind)

    names = {kind.name for kind in kinds(Event)}
    assert names == {kind.name for kind in EVENTS} | {"answer", "error"}
    assert names == set().union(*STREAMED.values())


def test_no_example_is_left_over() -> None:
    for path, methods in json.loads(EXAMPLES.read_text(encoding="utf-8"))["paths"].items():
        assert {f"{method.upper()} {path}" for method in methods} <= set(OPERATIONS)
