"""A small knowledge base of our own words, in English and Chinese."""

import asyncio
import shutil
from pathlib import Path

from app.ingest.pipeline import ingest
from app.retrieval.embedder import StaticEmbedder
from app.retrieval.index import open_index
from app.retrieval.tokenizer import Segmenter

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


def write_pages(folder: Path) -> None:
    for name, text in PAGES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def fill(folder: Path, state: Path) -> None:
    """Writes the pages to `folder` and ingests them into `state`."""
    write_pages(folder)

    async def added() -> int:
        segmenter = Segmenter(state / "cache")
        index = await open_index(state / "index", StaticEmbedder(segmenter))
        return len((await ingest([folder], index, segmenter)).added)

    assert asyncio.run(added()) == len(PAGES)


def copied(state: Path, folder: Path) -> Path:
    """A copy of the knowledge base, without the database that a service of these tests may use.

    Whoever opens and closes SQLite's files within the process takes all of its locks on them away,
    and the next process to come takes the log that is being written for one left behind.
    """
    return Path(shutil.copytree(state, folder, ignore=shutil.ignore_patterns("selfcrag.db*")))
