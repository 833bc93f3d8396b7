"""LangSmith gets what is asked over HTTP where our setting says so, whatever its own variables."""

from collections.abc import Callable, Iterator, Sequence

import langsmith
import pytest
from langsmith.utils import get_env_var
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from app.settings import Settings
from tests import fakes
from tests.app.serving import Serving, wait_until
from tests.loopback.server import LoopbackServer

Serve = Callable[..., Serving]
QUESTION = "How tall is the red tower of Umbra?"
SENT_WITHIN_S = 20.0


class LangSmith(LoopbackServer):
    """Takes whatever it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []

    def routes(self) -> Sequence[BaseRoute]:
        return [Route("/{path:path}", self.take, methods=["GET", "POST", "PATCH"])]

    async def take(self, request: Request) -> Response:
        self.record(request)
        self.bodies.append(await request.body())
        return JSONResponse({})


@pytest.fixture
def langsmith_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LangSmith]:
    """In whose favour the environment speaks."""
    with LangSmith() as server:
        monkeypatch.setenv("LANGSMITH_TRACING", "true")
        monkeypatch.setenv("LANGCHAIN_TRACING_V2", "true")
        monkeypatch.setenv("LANGSMITH_ENDPOINT", server.url)
        monkeypatch.setenv("LANGSMITH_API_KEY", "ls-of-the-test")
        get_env_var.cache_clear()
        langsmith.configure(client=None, enabled=None)
        yield server
        langsmith.configure(client=None, enabled=False)
        monkeypatch.undo()
        get_env_var.cache_clear()


def ask(serve: Serve, **settings: bool) -> None:
    parts = fakes.services(fakes.FakeRetriever([fakes.passage("The red tower is tall.")]))
    serve(parts, Settings(_env_file=None, **settings)).ask(QUESTION)


def test_nothing_is_sent_unless_our_setting_says_so(
    serve: Serve, langsmith_server: LangSmith
) -> None:
    ask(serve)
    langsmith.run_trees.get_cached_client().flush()
    assert not any(langsmith_server.bodies)  # the client that is flushed here may ask for /info


def test_with_the_setting_runs_are_sent(serve: Serve, langsmith_server: LangSmith) -> None:
    ask(serve, langsmith=True)
    langsmith.run_trees.get_cached_client().flush()
    wait_until(lambda: any(langsmith_server.bodies), SENT_WITHIN_S)
