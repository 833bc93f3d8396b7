"""What is skipped without opening the index, and what could not be had but is not gone."""

import subprocess
import sys
from pathlib import Path

import pytest

from app.ingest.files import unchanged
from app.ingest.pipeline import ingest
from app.retrieval.retriever import HybridRetriever
from app.settings import StateSettings


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "阀门.md").write_text("阀门在夜里打开。\n", "utf-8")
    (folder / "pump.md").write_text("It was serviced in March.\n", "utf-8")
    return folder


def settings(tmp_path: Path, **more: object) -> StateSettings:
    return StateSettings.model_validate({"data_dir": tmp_path / "data", **more})


async def run(retriever: HybridRetriever, docs: Path, prune: bool = False) -> None:
    await ingest([docs], retriever.index, retriever.segmenter, prune=prune)


async def test_unchanged_files_are_told_from_the_manifest(
    retriever: HybridRetriever, docs: Path, tmp_path: Path
) -> None:
    chosen = settings(tmp_path)
    assert unchanged(["docs"], chosen) is None, "there is no manifest yet"
    (docs / "picture.png").write_bytes(b"\x89PNG")
    await run(retriever, docs)
    report = unchanged(["docs"], chosen)
    assert report is not None
    assert report.skipped == ["docs/pump.md", "docs/阀门.md"]
    assert [refusal.source for refusal in report.refused] == ["docs/picture.png"]
    assert unchanged(["docs"], chosen, prune=True) is not None
    for other in ({"chunk_tokens": 60}, {"index_url": "x.db"}):
        assert unchanged(["docs"], settings(tmp_path, **other)) is None
    assert unchanged(["docs", "http://127.0.0.1/"], chosen) is None
    (docs / "pump.md").write_text("It was sold.\n", "utf-8")
    assert unchanged(["docs"], chosen) is None
    (docs / "pump.md").unlink()
    assert unchanged(["docs"], chosen) is not None
    assert unchanged(["docs"], chosen, prune=True) is None, "one is to be removed"


async def test_a_manifest_holds_for_the_index_it_was_written_with(
    retriever: HybridRetriever, docs: Path, tmp_path: Path
) -> None:
    chosen = settings(tmp_path)
    await run(retriever, docs)
    document, _ = await retriever.index.documents()
    await retriever.index.delete([document.id])
    assert unchanged(["docs"], chosen) is None
    await run(retriever, docs)
    assert unchanged(["docs"], chosen) is not None
    for file in (retriever.index.folder / "chunks.lance/data").iterdir():
        file.write_bytes(b"damaged")
    assert unchanged(["docs"], chosen) is None
    (tmp_path / "data/cache/documents.json").write_text("[]", "utf-8")
    assert unchanged(["docs"], chosen) is None


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
    assert (report.removed, await retriever.index.count()) == ([], 2)
    told = unchanged(["docs"], settings(tmp_path), prune=True)
    assert told is not None
    assert told.refused == report.refused


def test_looking_for_changes_loads_nothing_heavy() -> None:
    heavy = "lancedb pyarrow jieba pypdf mammoth langchain_core selectolax tavily openai httpx"
    code = (
        "import sys, app.ingest.files\n"
        f"assert not [name for name in {heavy.split()} if name in sys.modules]\n"
        "import app.retrieval.lancedb\n"
        "assert 'lance_namespace_urllib3_client.api' not in sys.modules\n"
        "import app.ingest.pipeline\n"
        "assert not [name for name in ('jieba', 'pypdf', 'mammoth', 'openai', 'tavily')"
        " if name in sys.modules]\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
