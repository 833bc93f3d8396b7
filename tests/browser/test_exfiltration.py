"""A foreign server is asked for nothing, whatever an answer says and whoever renders it."""

import time
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from graphs.text.inert_markup import InertMarkup
from tests import fakes
from tests.app.serving import Serve
from tests.browser.page import Page
from tests.exfiltration import FORMS, GFM, HOST, LOADED, ORIGIN
from tests.loopback.server import LoopbackServer
from tests.umbra import ENGLISH, TOWER

pytestmark = pytest.mark.browser

SETTLES_S = 1.0


class CountingServer(LoopbackServer):
    """Counts whoever asks for anything; all it says is `html`."""

    html = ""

    def routes(self) -> Sequence[BaseRoute]:
        return [Route("/{path:path}", self.asked)]

    async def asked(self, request: Request) -> Response:
        self.record(request)
        return Response(self.html, media_type="text/html")


@pytest.fixture
def foreign() -> Iterator[CountingServer]:
    with CountingServer() as server:
        yield server


@pytest.fixture
def chat() -> Iterator[CountingServer]:
    with CountingServer() as server:
        yield server


def aimed(text: str, foreign: CountingServer) -> str:
    """The text with the foreign server's own address."""
    return text.replace(ORIGIN, foreign.url).replace(HOST, foreign.url.removeprefix("http://"))


def show(driver: Any, chat: CountingServer, texts: Sequence[str]) -> None:
    """Opens a page with a frame for each text, rendered as it is."""
    frames = (f'<iframe srcdoc="{escape(GFM.render(text))}"></iframe>' for text in texts)
    chat.html = f"<!doctype html>{''.join(frames)}"
    driver.get(chat.url)
    time.sleep(SETTLES_S)


def prefixes_of(text: str) -> list[str]:
    """What has been given out after every few characters, and in the end."""
    markup, given = InertMarkup([]), [""]
    for at in range(0, len(text), 16):
        given.append(given[-1] + markup.feed(text[at : at + 16]))
    return [*dict.fromkeys(given[1:]), given[-1] + markup.end()]


def test_a_plain_renderer_loads_nothing(
    driver: Any, chat: CountingServer, foreign: CountingServer
) -> None:
    show(driver, chat, [aimed(FORMS[name], foreign) for name in LOADED])
    assert len(foreign.requests) >= len(LOADED), "as they were written they are loaded"
    foreign.reset()

    texts = [aimed(text, foreign) for text in FORMS.values()]
    show(driver, chat, [prefix for text in texts for prefix in prefixes_of(text)])
    assert [request.path for request in foreign.requests] == []
    assert {request.path for request in chat.requests} <= {"/", "/favicon.ico"}


def test_our_page_loads_nothing(
    open_page: Callable[[str], Page], serve: Serve, foreign: CountingServer
) -> None:
    said = "\n\n".join(aimed(text, foreign) for text in FORMS.values())
    chunks = [said[at : at + 40] for at in range(0, len(said), 40)]
    model = fakes.FakeChat(chunks=["Told [1].\n\n", *chunks])
    page = open_page(serve(fakes.services(fakes.FakeRetriever([TOWER]), chat=model)).url)
    assert "hxxp://" in page.ask(ENGLISH)
    time.sleep(SETTLES_S)
    assert foreign.requests == []
    assert page.count("#answer a, #answer img") == 0
