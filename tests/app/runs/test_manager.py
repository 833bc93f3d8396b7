"""What a run may choose here, and the service's preset."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.errors import InvalidRequest
from app.runs.manager import checked_options
from app.settings import Settings
from graphs.state import Context
from tests.app.serving import Serve, Serving, app_of
from tests.fakes import FakeChat
from tests.graphs.languages import EN, ZH, World, both_languages


@pytest.fixture(scope="module")
def limited() -> Iterator[Serving]:
    """A service without a chat model, rerankers and compressors."""
    with Serving(app_of(EN.parts(EN.full).services)) as serving:
        yield serving


@pytest.mark.parametrize(
    "options",
    [
        {"rerank": "model"},
        {"rerank": "lexical"},
        {"compress": "abstractive"},
        {"compress": "longllmlingua"},
        {"compress": "selective_context"},
        {"lower": 0.9, "upper": 0.1},
    ],
)
def test_what_the_service_cannot_do_is_422_with_its_pointer(
    limited: Serving, options: dict[str, Any]
) -> None:
    body = {"question": EN.question, "options": options}
    response = limited.client.post("/ask", json=body)

    assert response.status_code == 422
    [error] = response.json()["errors"]
    assert error["pointer"] == f"#/options/{next(iter(options))}"
    assert error["detail"]
    if options.get("compress") in ("longllmlingua", "selective_context"):
        assert "SELFCRAG_EVALUATOR_COMPRESSOR" in error["detail"]


def test_what_it_can_do_is_let_through() -> None:
    services = replace(EN.parts(EN.full, chat=FakeChat()).services, reranks=True)
    options = Context(rerank="model", compress="abstractive")

    assert checked_options(options, "none", services) is options
    with pytest.raises(InvalidRequest):
        checked_options(Context(rerank="lexical"), "none", services)


@both_languages
def test_a_preset_never_asks_for_too_much(serve: Serve, world: World) -> None:
    serving = serve(world.parts(world.full).services)
    for preset in ("best", "balanced", "fast"):
        answer = serving.ask(world.question, options={"preset": preset})
        assert (answer["stopped_by"] != "no_evidence", answer["degraded"]) == (True, []), preset


def test_the_services_preset_serves_runs_that_name_none(serve: Serve) -> None:
    settings = Settings(_env_file=None, preset="balanced")
    serving = serve(ZH.parts(ZH.full).services, settings)

    plain = serving.ask(ZH.question, workflow="crag")
    assert "rerank" in plain["timings_ms"]
    named = serving.ask(ZH.question, workflow="crag", options={"preset": "none"})
    assert "rerank" not in named["timings_ms"]


def test_the_answer_tells_its_queries_and_the_steps_do(serve: Serve) -> None:
    chat = FakeChat(chunks=["a [1]"], keywords="Bergen mill opening")
    serving = serve(EN.parts(EN.full, chat=chat).services)
    events = serving.stream(EN.question, workflow="rag", options={"expand": ["rewrite"]})

    [step] = [
        sent for sent in events if sent.data.get("step") == "expand" and "took_ms" in sent.data
    ]
    answer = next(sent.data for sent in events if sent.name == "answer")
    assert (
        step.data["detail"]["queries"] == answer["queries"] == [EN.question, "Bergen mill opening"]
    )
    assert answer["standalone_question"] is None
