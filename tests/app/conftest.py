"""The service over a small knowledge base, with the parts that ship."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.main import create_app
from app.retrieval.embedder import StaticEmbedder
from app.retrieval.index import open_index
from app.retrieval.retriever import HybridRetriever
from app.retrieval.tokenizer import Segmenter
from app.settings import Settings
from graphs.ports import Services
from tests.app.knowledge import fill
from tests.app.serving import Serving, app_of


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """State with the small knowledge base."""
    state = tmp_path_factory.mktemp("state")
    fill(tmp_path_factory.mktemp("pages"), state)
    return state


@pytest.fixture(scope="session")
def service(data_dir: Path) -> Iterator[Serving]:
    """The service with index, evaluator and extractive generator; the web is off."""
    with Serving(create_app(Settings(_env_file=None, data_dir=data_dir, search="off"))) as serving:
        yield serving


@pytest.fixture
def serve() -> Iterator[Callable[..., Serving]]:
    """Serves any parts, until the test ends."""
    with ExitStack() as stack:

        def start(parts: Services, settings: Settings | None = None) -> Serving:
            return stack.enter_context(Serving(app_of(parts, settings)))

        yield start


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests."""
    for name in list(os.environ):
        if name.startswith("SELFCRAG_") or name in {"OPENAI_API_KEY", "TAVILY_API_KEY"}:
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def segmenter(tmp_path_factory: pytest.TempPathFactory) -> Segmenter:
    """One dictionary for all tests, and one table below: they take a second to load."""
    segmenter = Segmenter(tmp_path_factory.mktemp("jieba"))
    segmenter.load()
    return segmenter


@pytest.fixture(scope="session")
def embedder(segmenter: Segmenter) -> StaticEmbedder:
    embedder = StaticEmbedder(segmenter)
    embedder.load()
    return embedder


@pytest.fixture
async def retriever(
    tmp_path: Path, embedder: StaticEmbedder, segmenter: Segmenter
) -> HybridRetriever:
    return HybridRetriever(await open_index(tmp_path / "data" / "index", embedder), segmenter)
