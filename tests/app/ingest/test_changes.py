"""What could not be had but is not gone."""

from pathlib import Path

import pytest

from app.ingest.pipeline import ingest
from app.retrieval.retriever import HybridRetriever
from graphs.options import Scope


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "阀门.md").write_text("阀门在夜里打开。\n", "utf-8")
    (folder / "pump.md").write_text("It was serviced in March.\n", "utf-8")
    return folder


async def run(retriever: HybridRetriever, docs: Path, prune: bool = False) -> None:
    await ingest([docs], retriever.index, retriever.segmenter, prune=prune)


async def test_a_file_that_cannot_be_read_for_now_is_not_pruned(
    retriever: HybridRetriever, docs: Path, tmp_path: Path
) -> None:
    await run(retriever, docs)
    # A link in a circle is an error of the file system to everyone, root included.
    (docs / "阀门.md").unlink()
    (docs / "阀门.md").symlink_to(docs / "阀门.md")
    report = await ingest([docs], retriever.index, retriever.segmenter, prune=True)
    (refused,) = report.refused
    assert refused.reason.endswith("; its earlier version stays, for this may pass")
    assert (report.removed, await retriever.index.count(Scope())) == ([], 2)
