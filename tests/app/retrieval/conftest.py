from pathlib import Path

import pytest

from app.ingest.pipeline import ingest
from app.retrieval.retriever import HybridRetriever


@pytest.fixture
async def filled(
    request: pytest.FixtureRequest,
    retriever: HybridRetriever,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> HybridRetriever:
    """Over the module's PAGES, as `docs` of the current folder."""
    monkeypatch.chdir(tmp_path)
    for name, text in request.module.PAGES.items():
        file = tmp_path / "docs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    await ingest([Path("docs")], retriever.index, retriever.segmenter)
    return retriever
