"""Every path through the real parts: index, evaluator, search and chat endpoint over HTTP."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from app.main import create_app
from app.settings import Settings
from tests.app.serving import BEGINNING, Serving
from tests.loopback.fixtures import Started
from tests.loopback.openai import MODEL, OPENAI_KEY, OpenAIServer
from tests.loopback.pages import PageServer
from tests.loopback.server import free_port
from tests.loopback.tavily import TAVILY_KEY, TavilyServer

# Nothing of these stands in the knowledge base, and all of it on a page of the little web.
BASALT = "Why do basalt columns mostly have six sides?"
TEA = "普洱茶产自哪里？"
INTERNAL = {
    "en": ("How tall is the red tower of Umbra?", "87 metres"),
    "zh": ("乌木城的红塔高多少米？", "八十七米"),
}
# Local and web knowledge both, whatever the evaluator thinks of it.
BOTH = {"ablation": {"only_action": "ambiguous"}, "strip_floor": -20.0, "lower": -20.0}
MIXED = {
    "en": "How tall is the red tower of Umbra, and how far does a lighthouse throw its beam?",
    "zh": "乌木城的红塔高多少米？灯塔的光为什么在三十公里以外也能看见？",
}
WRONG_KEY = "sk-wrong-and-secret-0815"
WRONG_KEYS = {"chat_api_key": WRONG_KEY, "tavily_api_key": WRONG_KEY}


class World:
    """Settings over the loopback servers, and services started from them once."""

    def __init__(self, stack: ExitStack, started: Started, data_dir: Path) -> None:
        self._stack, self._data_dir = stack, data_dir
        self._serving: dict[str, Serving] = {}
        self._pages = started.fresh(PageServer)
        self._tavily = started.fresh(TavilyServer, self._pages)
        self._openai = started.fresh(OpenAIServer)

    def serving(self, **changed: Any) -> Serving:
        """The service with Tavily and a chat endpoint, but for what is changed."""
        name = str(sorted(changed.items()))
        if name not in self._serving:
            settings: dict[str, Any] = {
                "data_dir": self._data_dir,
                "search": f"tavily@{self._tavily.url}",
                "tavily_api_key": TAVILY_KEY,
                "fetch_allowed_hosts": (self._pages.address,),
                "generator": "chat",
                "chat_model": f"openai:{MODEL}@{self._openai.base_url}",
                "chat_api_key": OPENAI_KEY,
                **changed,
            }
            app = create_app(Settings(_env_file=None, **settings))
            self._serving[name] = self._stack.enter_context(Serving(app))
        return self._serving[name]

    def close_circuits(self) -> None:
        for serving in self._serving.values():
            for breaker in serving.app.state.services.circuits.values():
                breaker.close()


@pytest.fixture(scope="module")
def world(started: Started, data_dir: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack, started, data_dir)


@pytest.fixture(autouse=True)
def _without_memory(
    world: World, pages: PageServer, tavily: TavilyServer, openai_server: OpenAIServer
) -> None:
    """The servers behave again after a test that broke one, and are asked again."""
    world.close_circuits()


def components(answer: dict[str, Any]) -> list[str]:
    return [entry["component"] for entry in answer["degraded"]]


@pytest.mark.parametrize(
    ("generator", "question", "slug", "keyword", "said"),
    [
        ("chat", TEA, "chaye", "普洱茶", "云南"),
        ("extractive", BASALT, "basalt", "basalt", "six sides"),
    ],
)
def test_incorrect_is_answered_from_the_web(
    world: World,
    tavily: TavilyServer,
    pages: PageServer,
    openai_server: OpenAIServer,
    question: str,
    slug: str,
    keyword: str,
    said: str,
    generator: str,
) -> None:
    events = world.serving(generator=generator).stream(question, workflow="crag")
    answer = events[-2].data

    assert answer["action"] == "incorrect"
    assert answer["degraded"] == []
    assert keyword in answer["rewritten_query"]
    assert tavily.queries == [answer["rewritten_query"]]
    assert tavily.queries[0] != question
    assert [request.path for request in pages.requests] == [f"/pages/{slug}"]
    assert [result["url"] for result in answer["web_results"]] == [pages.page_url(slug)]
    assert answer["usage"]["web_searches"] == 1
    kept = [strip for strip in answer["strips"] if strip["kept"]]
    assert kept
    assert {strip["document_id"] for strip in kept} == {pages.page_url(slug)}
    assert said in answer["answer"]
    assert {c["source"] for c in answer["citations"]} == {pages.page_url(slug)}
    assert {c["origin"] for c in answer["citations"]} == {"web"}
    if generator == "chat":
        rewriting, answering = openai_server.prompts
        assert question in rewriting
        assert question in answering
        assert pages.page_url(slug) in answering
        assert all(" ".join(strip["text"].split()) in answering for strip in kept)
        assert answer["usage"]["llm_calls"] == 2
        assert answer["usage"]["input_tokens"] > answer["usage"]["output_tokens"] > 0
        assert answer["models"]["generator"] == MODEL
    else:
        assert openai_server.requests == []
        assert answer["models"]["generator"] == "extractive"


@pytest.mark.parametrize(
    ("question", "said", "workflow", "generator"),
    [
        (BASALT, "six sides", "self_rag", "chat"),
        (TEA, "云南", "self_crag", "chat"),
        (TEA, "云南", "self_rag", "extractive"),
        (BASALT, "six sides", "self_crag", "extractive"),
    ],
)
def test_drafts_from_the_web_are_judged_and_revised(
    world: World,
    openai_server: OpenAIServer,
    question: str,
    said: str,
    workflow: str,
    generator: str,
) -> None:
    serving = world.serving(generator=generator)
    answer = serving.ask(question, workflow=workflow, options={"retrieval": "always"})

    assert said in answer["answer"]
    assert {candidate["origin"] for candidate in answer["candidates"]} == {"web"}
    assert {citation["origin"] for citation in answer["citations"]} == {"web"}
    assert answer["retrieval"] == {"decision": True, "probability": 1.0}
    assert 1 <= len(answer["critique"]) <= 4
    assert answer["stopped_by"] in {"accepted", "unchanged", "max_critic"}
    assert answer["degraded"] == []
    assert len(set(openai_server.prompts)) == len(openai_server.prompts), "nothing asked twice"
    assert answer["usage"]["llm_calls"] == len(openai_server.prompts)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_correct_is_answered_from_the_documents(
    world: World, tavily: TavilyServer, openai_server: OpenAIServer, language: str
) -> None:
    question, said = INTERNAL[language]
    answer = world.serving().ask(question, workflow="crag")

    assert answer["action"] == "correct"
    assert said in answer["answer"]
    assert {citation["origin"] for citation in answer["citations"]} == {"internal"}
    assert tavily.requests == [], "nothing leaves the house"
    assert len(openai_server.prompts) == answer["usage"]["llm_calls"] == 1
    assert answer["rewritten_query"] is None
    assert answer["web_results"] == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_ambiguous_joins_internal_before_external(
    world: World,
    tavily: TavilyServer,
    pages: PageServer,
    openai_server: OpenAIServer,
    language: str,
) -> None:
    answer = world.serving().ask(MIXED[language], workflow="crag", options=BOTH)
    slug = "lighthouse" if language == "en" else "dengta"
    origins = [citation["origin"] for citation in answer["citations"]]

    assert answer["action"] == "ambiguous"
    assert set(origins) == {"internal", "web"}
    assert origins == sorted(origins), "internal comes first"
    assert pages.page_url(slug) in {citation["source"] for citation in answer["citations"]}
    assert len(tavily.queries) == 1
    prompt = openai_server.prompts[-1]
    assert prompt.index("tower.md") < prompt.index(pages.page_url(slug))
    assert set(answer["timings_ms"]) == {
        *(*BEGINNING, "grade", "refine", "generate"),
        *("rewrite_query", "search_web", "select_web_strips"),
    }


def test_two_parts_may_fail_at_once(world: World, pages: PageServer, tavily: TavilyServer) -> None:
    """No chat endpoint, and hosts of this network, which are not read unless allowed."""
    port = free_port()
    nobody = f"openai:{MODEL}@http://127.0.0.1:{port}/v1"
    serving = world.serving(chat_model=nobody, fetch_allowed_hosts=())
    answer = serving.ask(BASALT, workflow="crag", options={"strip_floor": -20.0, "lower": -1.0})
    reasons = {entry["component"]: entry["reason"] for entry in answer["degraded"]}

    assert set(reasons) == {"generator", "fetch"}
    assert f"127.0.0.1:{port}" in reasons["generator"]
    assert answer["rewritten_query"], "by keywords, without a model"
    assert len(tavily.requests) == 1
    assert pages.requests == []
    assert "lava" in answer["answer"], "the result's own text"


@pytest.mark.parametrize(("failure", "language"), [("drop", "en"), ("error_event", "zh")])
def test_a_chat_endpoint_that_breaks_off_is_retracted(
    world: World, openai_server: OpenAIServer, failure: Any, language: str
) -> None:
    question, said = INTERNAL[language]
    openai_server.failure = failure
    events = world.serving().stream(question, workflow="crag")
    answer = events[-2].data
    names = [event.name for event in events]
    cut = names.index("retract")

    assert "token" in names[:cut]
    assert events[cut].data["round"] == 0
    assert events[cut].data["reason"]
    assert "".join(e.data["text"] for e in events[cut:] if e.name == "token") == answer["answer"]
    assert components(answer) == ["generator"]
    assert answer["models"]["generator"] == "extractive"
    assert said in answer["answer"]
    assert answer["citations"]


def test_a_refused_search_key_is_told_without_the_key(world: World, tavily: TavilyServer) -> None:
    serving = world.serving(**WRONG_KEYS)
    response = serving.client.post("/ask", json={"question": BASALT, "workflow": "crag"})
    answer = response.json()

    assert set(components(answer)) == {"generator", "web_search"}
    assert WRONG_KEY not in response.text
    assert len(tavily.requests) == 1
    assert answer["stopped_by"] == "no_evidence"
    assert answer["answer"]
