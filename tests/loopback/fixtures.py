"""The loopback servers as fixtures: started once, without memory of the test before."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TypeVar

import pytest

from tests.loopback.critic import CriticServer
from tests.loopback.openai import OpenAIServer
from tests.loopback.pages import PageServer
from tests.loopback.reflective import ReflectiveServer
from tests.loopback.searxng import SearxngServer
from tests.loopback.server import LoopbackServer
from tests.loopback.site import SiteServer
from tests.loopback.tavily import TavilyServer
from tests.loopback.wikipedia import WikipediaServer

Server = TypeVar("Server", bound=LoopbackServer)


class Started:
    """One server of each class, started when it is first wanted."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._servers: dict[type[LoopbackServer], LoopbackServer] = {}

    def fresh(self, server_class: type[Server], *arguments: object) -> Server:
        server = self._servers.get(server_class)
        if not isinstance(server, server_class):
            server = self._stack.enter_context(server_class(*arguments))
            self._servers[server_class] = server
        server.reset()
        return server


@pytest.fixture(scope="session")
def started() -> Iterator[Started]:
    with ExitStack() as stack:
        yield Started(stack)


@pytest.fixture
def pages(started: Started) -> PageServer:
    return started.fresh(PageServer)


@pytest.fixture
def tavily(started: Started, pages: PageServer) -> TavilyServer:
    return started.fresh(TavilyServer, pages)


@pytest.fixture
def wikipedia(started: Started, pages: PageServer) -> WikipediaServer:
    return started.fresh(WikipediaServer, pages)


@pytest.fixture
def searxng(started: Started, pages: PageServer) -> SearxngServer:
    return started.fresh(SearxngServer, pages)


@pytest.fixture
def openai_server(started: Started) -> OpenAIServer:
    return started.fresh(OpenAIServer)


@pytest.fixture
def reflective_server(started: Started) -> ReflectiveServer:
    return started.fresh(ReflectiveServer)


@pytest.fixture
def critic_server(started: Started) -> CriticServer:
    return started.fresh(CriticServer)


@pytest.fixture
def site_server(started: Started) -> SiteServer:
    return started.fresh(SiteServer)
