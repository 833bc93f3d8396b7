"""The engines over real HTTP: what they find, and in which words they fail."""

import gzip
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from app.websearch import engines as module
from app.websearch.engines import (
    FixtureSearch,
    SearchEngine,
    SearxngSearch,
    TavilySearch,
    WikipediaSearch,
    score_of,
    text_of,
)
from graphs.errors import SearchFailed
from tests.loopback.corpus import BY_SLUG
from tests.loopback.pages import PageServer
from tests.loopback.searxng import SearxngServer
from tests.loopback.server import LoopbackServer, free_port
from tests.loopback.tavily import TAVILY_KEY, TavilyServer
from tests.loopback.wikipedia import WikipediaServer

Server = TavilyServer | WikipediaServer | SearxngServer
Make = Callable[..., SearchEngine]
NAMES = {"tavily": "Tavily", "wikipedia": "Wikipedia", "searxng": "SearXNG"}


class Endless(LoopbackServer):
    """Answers everything with more than anybody wants, and counts what it got rid of."""

    def __init__(self, is_chunked: bool) -> None:
        super().__init__()
        self.sent = 0
        self._headers = {} if is_chunked else {"Content-Length": str(10**9)}

    def routes(self) -> Sequence[BaseRoute]:
        return [Route("/{path:path}", self.reply, methods=["GET", "POST"])]

    async def reply(self, request: Request) -> Response:
        async def blanks() -> AsyncIterator[bytes]:
            while not await request.is_disconnected():
                self.sent += 2**18
                yield b" " * 2**18

        return StreamingResponse(blanks(), headers=self._headers, media_type="application/json")


def make_tavily(url: str) -> TavilySearch:
    return TavilySearch(TAVILY_KEY, base_url=url)


def make_wikipedia(url: str) -> WikipediaSearch:
    return WikipediaSearch(f"{url}/{{language}}/w/api.php")


MAKE: dict[str, Make] = {
    "tavily": make_tavily,
    "wikipedia": make_wikipedia,
    "searxng": SearxngSearch,
}


@pytest.fixture(params=list(MAKE))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def server(name: str, request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(name)
    return found


@pytest.fixture
async def engine(name: str, server: Server) -> AsyncIterator[SearchEngine]:
    engine = MAKE[name](server.url)
    yield engine
    await engine.aclose()


@pytest.mark.parametrize(
    ("query", "slug"), [("lighthouse, Fresnel lens", "lighthouse"), ("灯塔, 透镜", "dengta")]
)
async def test_it_finds_pages_with_their_text(
    engine: SearchEngine, server: Server, pages: PageServer, query: str, slug: str
) -> None:
    found = await engine.search(query, 3)
    assert found[0].url == pages.page_url(slug)
    assert found[0].title == BY_SLUG[slug].title
    assert found[0].text.startswith(BY_SLUG[slug].paragraphs[0])
    assert found[0].score > 0
    assert len(server.requests) == 1


async def test_nothing_found_is_no_failure(engine: SearchEngine) -> None:
    assert await engine.search("zzzz", 5) == []


async def test_no_more_results_than_asked_for(engine: SearchEngine) -> None:
    assert len(await engine.search("lighthouse", 1)) == 1


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (400, "did not accept"),
        (401, "refused access"),
        (403, "refused"),
        (429, "is limiting"),
        (432, "is limiting"),
        (503, "is failing on its side"),
    ],
)
async def test_a_refusal_names_the_provider_and_what_to_check(
    engine: SearchEngine, name: str, server: Server, status: int, told: str
) -> None:
    server.status = status
    with pytest.raises(SearchFailed, match=f"{NAMES[name]} .*{told}") as failure:
        await engine.search("lighthouse", 3)
    assert TAVILY_KEY not in repr(failure.value)
    assert failure.value.__suppress_context__
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "reply",
    [b"", b"<html>", b"[]", b'{"results": 3, "query": []}', b'{"error": {}}', b"[" * 100_000],
)
async def test_a_malformed_reply_is_said_so(
    engine: SearchEngine, name: str, server: Server, reply: bytes
) -> None:
    server.raw_reply = reply
    with pytest.raises(SearchFailed, match="could not be understood"):
        await engine.search("lighthouse", 3)


async def test_results_without_an_address_are_left_out(
    engine: SearchEngine, name: str, server: Server
) -> None:
    hits = [{"title": "no url"}, {"url": "https://a.example", "fullurl": "https://a.example"}]
    reply = {"query": {"pages": hits}, "results": hits}
    server.raw_reply = json.dumps(reply).encode()
    assert [hit.url for hit in await engine.search("lighthouse", 3)] == ["https://a.example"]


async def test_only_addresses_that_a_browser_may_follow_are_results(
    engine: SearchEngine, name: str, server: Server
) -> None:
    urls = [
        *(
            "javascript:alert(1)",
            "data:text/html,x",
            "//a.example/",
            "https://",
            "http://[x/",
            "/a",
            "http://exa mple.com/",
            "https://a.example/灯\x00塔",
            "https://a.example/灯\n塔",
        ),
        "https://\u202ea.example/",
        "https://灯塔.example/塔",
        " https://a.example/灯 塔.pdf?part=b c ",
    ]
    hits = [{"url": url, "fullurl": url} for url in urls]
    server.raw_reply = json.dumps({"query": {"pages": hits}, "results": hits}).encode()
    assert [hit.url for hit in await engine.search("lighthouse", len(urls))] == [
        "https://灯塔.example/塔",
        "https://a.example/灯%20塔.pdf?part=b%20c",
    ]


async def test_halves_of_characters_and_controls_do_not_get_in(
    engine: SearchEngine, name: str, server: Server
) -> None:
    text = '"\\ud83d\\udca1 light \\ud83d\\u0000\\u001b[31m 灯塔\\n"'
    hit = f'{{"url": "https://a.example", "fullurl": "https://a.example", "title": {text},'
    hit += f' "content": {text}, "extract": {text}}}'
    reply = f'{{"query": {{"pages": [{hit}]}}, "results": [{hit}]}}'
    server.raw_reply = reply.encode()
    (found,) = await engine.search("lighthouse", 3)
    assert found.title == found.text == "💡 light �  [31m 灯塔"


@pytest.mark.parametrize(
    ("sent", "told"),
    [("a\rb\x0cc", "a b c"), ("灯\r塔\x0c", "灯 塔"), ("a\n\tb", "a\n\tb"), (7, "")],
)
def test_a_control_character_parts_what_stands_around_it(sent: object, told: str) -> None:
    assert text_of(sent) == told


@pytest.mark.parametrize("score", ["1" + "0" * 400, "1e999", "-1e999", "NaN", '"high"', "true"])
def test_a_score_that_is_no_number_is_made_of_the_rank(score: str) -> None:
    assert score_of(json.loads(score), 1) == 0.5


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_reply_without_end_is_not_read_on(is_chunked: bool, name: str) -> None:
    with Endless(is_chunked) as server:
        engine = MAKE[name](server.url)
        with pytest.raises(SearchFailed, match="sent more than 8 MB"):
            await engine.search("lighthouse", 3)
        await engine.aclose()
    assert server.sent < 4 * module.MAX_REPLY_BYTES


async def test_a_reply_that_grows_when_unpacked_is_not_unpacked(
    engine: SearchEngine, server: Server
) -> None:
    server.raw_reply = gzip.compress(b" " * 10**8)
    server.reply_headers = {"Content-Encoding": "gzip"}
    with pytest.raises(SearchFailed, match="could not be understood"):
        await engine.search("lighthouse", 3)
    assert "gzip" not in server.requests[0].headers["accept-encoding"]


async def test_a_slow_engine_fails_within_its_time(
    name: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.delay_s = 30
    monkeypatch.setattr(module, "SEARCH_TIMEOUT_S", 0.2)
    engine = MAKE[name](server.url)
    started = time.monotonic()
    with pytest.raises(SearchFailed, match="did not answer in time"):
        await engine.search("lighthouse", 3)
    assert time.monotonic() - started < 2
    await engine.aclose()


async def test_an_engine_that_is_down_fails_fast(name: str) -> None:
    engine = MAKE[name](f"http://127.0.0.1:{free_port()}")
    started = time.monotonic()
    with pytest.raises(SearchFailed, match="could not be reached"):
        await engine.search("lighthouse", 3)
    assert time.monotonic() - started < 2
    await engine.aclose()


def test_tavily_is_not_made_without_a_key() -> None:
    with pytest.raises(ValueError, match="needs an API key"):
        TavilySearch("  ")


async def test_tavily_gets_what_it_accepts(
    tavily: TavilyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAVILY_PROJECT", "from-the-environment")
    engine = make_tavily(tavily.url)
    await engine.search("灯塔" * 400, 50)
    request = tavily.requests[0]
    assert len(request.body["query"]) == 400
    assert request.body["max_results"] == 20
    assert request.body["search_depth"] == "advanced"
    assert request.body["include_raw_content"] == "text"
    assert request.headers["authorization"] == f"Bearer {TAVILY_KEY}"
    assert "x-project-id" not in request.headers
    await engine.aclose()


async def test_wikipedia_is_asked_in_the_language_of_the_query(wikipedia: WikipediaServer) -> None:
    engine = WikipediaSearch(wikipedia.api_url)
    await engine.search("lighthouse", 3)
    await engine.search("灯塔", 3)
    assert [request.path.split("/")[1] for request in wikipedia.requests] == ["en", "zh"]
    await engine.aclose()


@pytest.mark.parametrize(("query", "host"), [("tallow", "en.wiki.test"), ("牛脂", "zh.wiki.test")])
async def test_a_failure_names_the_wikipedia_that_was_asked(query: str, host: str) -> None:
    engine = WikipediaSearch("http://{language}.wiki.test:99999/w/api.php")  # no such port
    with pytest.raises(SearchFailed, match=re.escape(f"({host})")):
        await engine.search(query, 1)
    await engine.aclose()


async def test_wikipedia_is_asked_for_any_keyword_when_none_has_all(
    wikipedia: WikipediaServer, pages: PageServer
) -> None:
    engine = WikipediaSearch(wikipedia.api_url)
    found = await engine.search("waggle dance, submarine", 3)
    assert [hit.url for hit in found] == [pages.page_url("bees")]
    assert wikipedia.queries == ["waggle dance submarine", "waggle dance OR submarine"]
    await engine.aclose()


async def test_wikipedia_results_come_by_rank(wikipedia: WikipediaServer) -> None:
    engine = WikipediaSearch(wikipedia.api_url)
    found = await engine.search("waggle dance, lighthouse", 5)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert len(found) == 2
    await engine.aclose()


async def test_searxng_without_its_json_format_says_how_to_switch_it_on(
    searxng: SearxngServer,
) -> None:
    searxng.has_json = False
    engine = SearxngSearch(searxng.url + "/")
    with pytest.raises(SearchFailed, match=r"search\.formats"):
        await engine.search("lighthouse", 3)
    await engine.aclose()


async def test_a_recording_answers_its_queries(tmp_path: Path) -> None:
    path = tmp_path / "searches.json"
    hit = {"url": "https://a.example/", "title": "灯塔", "text": "强光", "score": 0.5}
    path.write_text(
        json.dumps({"Light,  Tower": [hit, {"url": "https://b.example/"}], "*": [hit] * 3}),
        encoding="utf-8",
    )
    engine = FixtureSearch(path)
    found = await engine.search(" light, TOWER ", 5)
    assert [(hit.url, hit.title, hit.score) for hit in found] == [
        ("https://a.example/", "灯塔", 0.5),
        ("https://b.example/", "", 0.5),
    ]
    assert len(await engine.search("anything", 2)) == 2


async def test_a_recording_without_a_star_finds_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "searches.json"
    path.write_text('{"light": []}', encoding="utf-8")
    assert await FixtureSearch(path).search("other", 5) == []


@pytest.mark.parametrize("text", ["", "[]", "{", '{"q": [{}]}', '{"q": [{"url": 3}]}', "\xff"])
def test_a_wrong_recording_shows_at_once(tmp_path: Path, text: str) -> None:
    path = tmp_path / "searches.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(SearchFailed, match=r"searches\.json are not in the expected format"):
        FixtureSearch(path)


def test_a_missing_recording_shows_at_once(tmp_path: Path) -> None:
    with pytest.raises(SearchFailed, match=r"none\.json could not be read"):
        FixtureSearch(tmp_path / "none.json")
