"""What could not be had is not what is gone: only the second is pruned."""

from pathlib import Path

import pytest

from app.ingest.children import Children
from app.ingest.errors import DocumentRefused
from app.ingest.pipeline import ingest
from app.retrieval.retriever import HybridRetriever
from tests.app.ingest.test_children import task


def unreadable(file: Path) -> Path:
    """A link in a circle is an error of the file system to everyone, root included."""
    file.unlink(missing_ok=True)
    file.symlink_to(file)
    return file


async def test_a_file_that_cannot_be_read_for_now_is_not_pruned(
    retriever: HybridRetriever, tmp_path: Path
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "阀门.md").write_text("阀门在夜里打开。\n", "utf-8")
    await ingest([folder], retriever.index, retriever.segmenter)
    unreadable(folder / "阀门.md")
    report = await ingest([folder], retriever.index, retriever.segmenter, prune=True)
    (refused,) = report.refused
    assert refused.reason.endswith("; its earlier version stays, for this may pass")
    assert (report.removed, await retriever.index.count()) == ([], 1)


async def test_a_process_that_reads_tells_which_refusals_may_pass(tmp_path: Path) -> None:
    (tmp_path / "empty.md").touch()
    children = Children(tmp_path / "cache", most=1)
    for file, may_pass in ((unreadable(tmp_path / "a.md"), True), (tmp_path / "empty.md", False)):
        with pytest.raises(DocumentRefused) as refusal:
            await children.rows(task(file))
        assert refusal.value.may_pass is may_pass
    await children.aclose()
