"""A small knowledge base of our own words, and the service over it with the parts that ship."""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.main import create_app
from app.retrieval.embed import StaticEmbedder
from app.retrieval.index import Index
from app.retrieval.ingest import ingest
from app.retrieval.segment import Segmenter
from app.settings import Settings
from graphs.ports import Services
from tests.app.serving import Serving, app_of

PAGES = {
    "en/tower.md": """# The red tower

## Height

The red tower of Umbra is 87 metres tall. Its foundation of granite reaches nine metres deep.

## Keeper

The keeper of the red tower of Umbra lights the lamp at dusk. She rings a bell in fog.
""",
    "en/bread.md": """# Bread of the harbour

## Dough

Harbour bread dough rests for fourteen hours in a cool cellar. Salt is added last.

## Oven

The oven of the harbour bakery burns olive wood. A loaf bakes for fifty minutes.
""",
    "zh/tower.md": """# 乌木城的红塔

## 高度

乌木城的红塔高八十七米。塔的花岗岩地基深九米。

## 守塔人

守塔人黄昏时点亮红塔的灯。有雾的时候，守塔人敲钟。
""",
    "zh/bread.md": """# 港口的面包

## 面团

港口面包的面团在阴凉的地窖里静置十四个小时。盐要最后放。
""",
}


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """State with the pages above ingested."""
    folder, state = tmp_path_factory.mktemp("pages"), tmp_path_factory.mktemp("state")
    for name, text in PAGES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    async def fill() -> int:
        segmenter = Segmenter(state / "cache")
        index = await Index.open(state / "index", StaticEmbedder(segmenter))
        return len((await ingest([folder], index, segmenter)).added)

    assert asyncio.run(fill()) == len(PAGES)
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
