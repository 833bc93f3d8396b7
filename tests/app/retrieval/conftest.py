"""One dictionary and one table for all tests here: they take a second to load."""

from pathlib import Path

import pytest

from app.retrieval.embed import StaticEmbedder
from app.retrieval.opening import open_index
from app.retrieval.retriever import HybridRetriever
from app.retrieval.segment import Segmenter


@pytest.fixture(scope="session")
def segmenter(tmp_path_factory: pytest.TempPathFactory) -> Segmenter:
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
