"""GET /workflows: what can be asked, drawn and tuned."""

from typing import Any

import pytest
from langgraph.graph.state import CompiledStateGraph

from graphs.state import Context
from tests.app.serving import Serving

PROMISED = {
    "retrieve_k": 10,
    "upper": None,
    "lower": None,
    "strip_floor": None,
    "max_critic": 3,
    "max_web_searches": 1,
    "web": "auto",
    "deadline_ms": 60_000,
}


@pytest.fixture(scope="module")
def told(service: Serving) -> dict[str, Any]:
    response = service.client.get("/workflows")
    assert response.status_code == 200
    body: dict[str, Any] = response.json()
    return body


@pytest.mark.parametrize("accepts", ["gzip", "identity"])
def test_bodies_are_compressed_where_the_client_takes_it(service: Serving, accepts: str) -> None:
    response = service.client.get("/workflows", headers={"Accept-Encoding": accepts})
    is_compressed = response.headers.get("content-encoding") == "gzip"

    assert is_compressed == (accepts == "gzip")
    assert (response.num_bytes_downloaded * 5 < len(response.content)) == is_compressed
    assert response.headers["vary"] == "Accept-Encoding" or not is_compressed
    assert len(response.headers["x-request-id"]) == 32


def test_the_workflows_are_listed_with_their_fields(told: dict[str, Any]) -> None:
    assert set(told) == {"workflows", "default", "language_model"}
    assert told["language_model"] is False
    names = [workflow["name"] for workflow in told["workflows"]]
    assert names == ["rag", "crag", "self_rag", "self_crag", "illustrate"]
    assert told["default"] == "self_crag"
    for workflow in told["workflows"]:
        assert set(workflow) == {"name", "description", "mermaid", "context_schema"}
        assert len(workflow["description"]) > 20


def test_subgraphs_are_drawn_open_where_that_is_asked(service: Serving) -> None:
    outer = service.client.get("/workflows").json()["workflows"][3]["mermaid"]
    opened = service.client.get("/workflows?xray=1").json()["workflows"][3]["mermaid"]

    assert "reflect(reflect)" in outer
    assert "critique" not in outer
    assert "retrieve\\3asearch" in opened
    assert "reflect\\3acritique" in opened
    assert service.client.get("/workflows?xray=much").status_code == 422


def test_every_tunable_is_described_and_bounded(told: dict[str, Any]) -> None:
    for workflow in told["workflows"]:
        schema = workflow["context_schema"]
        assert schema["additionalProperties"] is False
        assert set(schema["properties"]) == set(Context.model_fields)
        for name, field in schema["properties"].items():
            assert len(field["description"]) > 15, name
            assert "default" in field, name
            kinds = field.get("anyOf", [field])
            numeric = [kind for kind in kinds if kind.get("type") in {"integer", "number"}]
            assert all({"minimum", "maximum"} <= set(kind) for kind in numeric), name
            choices = [kind for kind in kinds if kind.get("type") == "string"]
            assert all(kind["enum"] for kind in choices), name


def test_the_promised_options_have_their_defaults(told: dict[str, Any]) -> None:
    properties = told["workflows"][1]["context_schema"]["properties"]
    assert {name: properties[name]["default"] for name in PROMISED} == PROMISED


def test_every_default_can_be_sent_back(service: Serving, told: dict[str, Any]) -> None:
    properties = told["workflows"][1]["context_schema"]["properties"]
    options = {name: field["default"] for name, field in properties.items()}
    assert service.ask("How tall is the red tower of Umbra?", options=options)["answer"]


def test_the_workflows_are_drawn_once(service: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes as long as many requests."""
    first = service.client.get("/workflows").content

    def draw(*_: object, **__: object) -> None:
        raise AssertionError("drawn again")

    monkeypatch.setattr(CompiledStateGraph, "get_graph", draw)
    assert service.client.get("/workflows").content == first


def test_images_of_a_knowledge_base_without_any(service: Serving) -> None:
    answer = service.ask("Show me the red tower", workflow="illustrate")
    assert (answer["workflow"], answer["stopped_by"]) == ("illustrate", "no_evidence")
    assert answer["images"] == []
