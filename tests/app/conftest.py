"""The service over a small knowledge base, with the parts that ship."""

import os
import subprocess
import sys
import venv
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI
from filelock import FileLock

from app.cli import ingest as ingest_command
from app.composition import services
from app.composition.embedder import encoder_of
from app.ingest.pipeline import ingest
from app.main import create_app
from app.retrieval.embedder import Embedder, StaticEmbedder
from app.retrieval.index import make_folder, open_index
from app.retrieval.retriever import HybridRetriever
from app.retrieval.tokenizer import Segmenter
from app.settings import Settings, StateSettings
from evaluator.inference.scorer import Scorer, load_scorer
from evaluator.serving.app import create_app as create_worker
from evaluator.settings import EvaluatorSettings
from graphs.ports import Services
from tests.app.knowledge import fill
from tests.app.serving import Serve, Serving, app_of
from tests.app.slow import SlowRetriever, Waiting
from tests.fakes import services as services_of
from tests.umbra import TOWER


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
def serve() -> Iterator[Serve]:
    """Serves any parts, until the test ends."""
    with ExitStack() as stack:

        def start(parts: Services, settings: Settings | None = None) -> Serving:
            return stack.enter_context(Serving(app_of(parts, settings)))

        yield start


@pytest.fixture
def slow(serve: Serve) -> Serving:
    """A service that searches for half a minute."""
    return serve(services_of(SlowRetriever([TOWER], waiting=Waiting())))


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests."""
    for name in list(os.environ):
        if name.startswith("SELFCRAG_") or name in {"OPENAI_API_KEY", "TAVILY_API_KEY"}:
            monkeypatch.delenv(name)


class Loaded:
    """What takes seconds to load, once for all tests: dictionary, table, weights."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def segmenter(self) -> Segmenter:
        segmenter = Segmenter(self._folder)
        segmenter.load()
        return segmenter

    @cached_property
    def embedder(self) -> StaticEmbedder:
        embedder = StaticEmbedder(self.segmenter)
        embedder.load()
        return embedder

    @cached_property
    def scorer(self) -> Scorer:
        return load_scorer(EvaluatorSettings(_env_file=None))  # type: ignore[call-arg]

    async def open_retriever(
        self, data_dir: Path, embedder: Embedder | None = None, url: str = "", token: str = ""
    ) -> HybridRetriever:
        make_folder(data_dir)
        index = await open_index(data_dir / "index", embedder or self.embedder, url, token)
        return HybridRetriever(index, self.segmenter)

    def create_worker(self, settings: EvaluatorSettings) -> FastAPI:
        is_shipped = "weights" not in settings.model_fields_set
        return create_worker(settings, *([self.scorer] if is_shipped else []))

    def chosen_embedder(self, settings: StateSettings, _: Segmenter) -> Embedder:
        return encoder_of(settings) or self.embedder


@pytest.fixture(scope="session", autouse=True)
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    """Services and commands in this process take what is loaded already."""
    loaded = Loaded(tmp_path_factory.mktemp("jieba"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(services, "open_retriever", loaded.open_retriever)
        patch.setattr(services, "create_worker", loaded.create_worker)
        patch.setattr(ingest_command, "Segmenter", lambda _: loaded.segmenter)
        patch.setattr(ingest_command, "chosen_embedder", loaded.chosen_embedder)
        yield loaded


@pytest.fixture(scope="session")
def segmenter(loaded: Loaded) -> Segmenter:
    return loaded.segmenter


@pytest.fixture(scope="session")
def embedder(loaded: Loaded) -> StaticEmbedder:
    return loaded.embedder


@pytest.fixture
async def retriever(
    tmp_path: Path, embedder: StaticEmbedder, segmenter: Segmenter
) -> HybridRetriever:
    return HybridRetriever(await open_index(tmp_path / "data" / "index", embedder), segmenter)


LLAMA_INDEX = ("llama-index-core==0.14.25", "llama-index-llms-openai-like==0.8.1")


@pytest.fixture(scope="session")
def llama_index_python(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """An interpreter with LlamaIndex, installed once for all workers.

    Its packages are many, want an older client of OpenAI's and are no part of this project's.
    """
    folder = tmp_path_factory.getbasetemp()
    home = (folder if worker_id == "master" else folder.parent) / "llama-index"
    python, installed = home / "bin/python", home / "installed"
    with FileLock(f"{home}.lock"):
        if not installed.exists():
            venv.create(home, clear=True)
            pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
            subprocess.run([*pip, "--no-compile", *LLAMA_INDEX], check=True, capture_output=True)
            installed.touch()
    return python


ROOT = Path(__file__).resolve().parents[2]
# A port nobody listens on: Wikipedia cannot be reached.
NOWHERE = "wikipedia@http://127.0.0.1:9/w/api.php"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def handbook(
    tmp_path_factory: pytest.TempPathFactory, loaded: Loaded
) -> AsyncIterator[httpx.AsyncClient]:
    """The service over the handbook, as `make run` has it."""
    data = tmp_path_factory.mktemp("state")
    settings = Settings(_env_file=None, data_dir=data, search=NOWHERE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        retriever = await loaded.open_retriever(data, encoder_of(settings))
        report = await ingest([Path("docs")], retriever.index, retriever.segmenter)
    assert len(report.added) >= 16
    app = create_app(settings)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost"
        ) as client,
    ):
        yield client
