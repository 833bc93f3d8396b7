import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.ingest import pipeline as module
from app.ingest.files import Report
from app.ingest.pipeline import ingest
from app.retrieval.embedder import StaticEmbedder
from app.retrieval.index import open_index
from app.retrieval.retriever import HybridRetriever
from app.retrieval.tokenizer import Segmenter
from graphs.options import Scope

PAGE = "# Page {0}\n\nThe {0} stands in the hall.\n\n## Care\n\nPolish the {0} once a year.\n"


@pytest.fixture(autouse=True)
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "docs"
    for name in ("clock", "mirror", "table"):
        write(folder / f"{name}.md", PAGE.format(name))
    return folder


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")


async def run(retriever: HybridRetriever, *paths: Path, prune: bool = False) -> Report:
    return await ingest(paths, retriever.index, retriever.segmenter, prune=prune)


async def test_unchanged_files_are_skipped(retriever: HybridRetriever, docs: Path) -> None:
    first = await run(retriever, docs)
    assert first.added == ["docs/clock.md", "docs/mirror.md", "docs/table.md"]
    assert first.chunks == 6
    again = await run(retriever, Path("docs"), docs / "clock.md")
    assert (again.added, again.updated, again.chunks) == ([], [], 0)
    assert again.skipped == first.added
    assert await retriever.index.count(Scope()) == 6


@pytest.mark.parametrize(
    ("text", "question"),
    [
        (
            "Sellers name a price and smile. To ask for it in turn, say: 多少钱？",
            "How to ask a seller?",
        ),
        ("Is Active：勾选后账号启用。Is Staff：勾选后可以登录后台。", "账号怎么启用？"),
        ("How to Train Your Dragon，中文名《驯龙高手》，2010年上映。", "驯龙高手哪年上映？"),
    ],
)
async def test_a_text_is_found_in_the_language_of_most_of_it(
    retriever: HybridRetriever, docs: Path, text: str, question: str
) -> None:
    write(docs / "mixed.md", text)
    await run(retriever, docs)
    assert [passage.text for passage in await retriever.retrieve(question, 1)] == [text]


async def test_a_changed_file_replaces_all_its_chunks(
    retriever: HybridRetriever, docs: Path
) -> None:
    await run(retriever, docs)
    write(docs / "clock.md", "# Clock\n\nIt was sold to a collector.\n")
    report = await run(retriever, docs)
    assert (report.updated, len(report.skipped), report.chunks) == (["docs/clock.md"], 2, 1)
    assert await retriever.index.count(Scope()) == 5
    first, *rest = await retriever.retrieve("Who was the clock sold to?", 10)
    assert first.text == "It was sold to a collector."
    assert "Polish the clock" not in " ".join(passage.text for passage in rest)


async def test_only_prune_removes_what_is_gone(retriever: HybridRetriever, docs: Path) -> None:
    write(docs.parent / "other" / "vase.md", PAGE.format("vase"))
    await run(retriever, docs, docs.parent / "other")
    (docs / "clock.md").unlink()
    (docs.parent / "other" / "vase.md").unlink()
    assert (await run(retriever, docs)).removed == []
    assert (await run(retriever, docs, prune=True)).removed == ["docs/clock.md"]
    sources = [document.source for document in await retriever.index.documents(Scope())]
    assert sources == ["docs/mirror.md", "docs/table.md", "other/vase.md"]


async def test_refused_files_do_not_stop_the_rest(retriever: HybridRetriever, docs: Path) -> None:
    write(docs / "empty.md", "")
    (docs / "picture.png").write_bytes(b"\x89PNG")
    write(docs / ".hidden.md", "not for anyone")
    report = await run(retriever, docs, Path("missing.md"))
    reasons = {refusal.source: refusal.reason for refusal in report.refused}
    assert set(reasons) == {"docs/empty.md", "docs/picture.png", "missing.md"}
    assert reasons["docs/empty.md"] == "empty"
    assert "No such file" in reasons["missing.md"]
    assert len(report.added) == 3


async def test_a_refused_change_keeps_the_old_document_and_says_so(
    retriever: HybridRetriever, docs: Path
) -> None:
    await run(retriever, docs)
    write(docs / "clock.md", "")
    (refused,) = (await run(retriever, docs)).refused
    assert refused.source == "docs/clock.md"
    assert refused.reason == "empty; its earlier version stays, --prune removes it"
    assert len(await retriever.index.documents(Scope())) == 3
    pruned = await run(retriever, docs, prune=True)
    assert pruned.removed == ["docs/clock.md"]
    assert [refusal.reason for refusal in pruned.refused] == ["empty"]
    assert [document.source for document in await retriever.index.documents(Scope())] == [
        "docs/mirror.md",
        "docs/table.md",
    ]


async def test_a_file_that_cannot_be_read_for_now_is_not_pruned(
    retriever: HybridRetriever, docs: Path
) -> None:
    await run(retriever, docs)
    # A link in a circle is an error of the file system to everyone, root included.
    (docs / "clock.md").unlink()
    (docs / "clock.md").symlink_to(docs / "clock.md")
    report = await run(retriever, docs, prune=True)
    (refused,) = report.refused
    assert refused.reason.endswith("; its earlier version stays, for this may pass")
    assert (report.removed, await retriever.index.count(Scope())) == ([], 6)


async def test_a_deleted_folder_or_file_can_be_removed(
    retriever: HybridRetriever, docs: Path
) -> None:
    write(docs.parent / "docs2" / "vase.md", PAGE.format("vase"))
    await run(retriever, docs, docs.parent / "docs2")
    shutil.rmtree(docs)
    (refused,) = (await run(retriever, docs)).refused
    assert refused.reason.endswith("3 documents read from it stay, --prune removes them")
    one = await run(retriever, docs / "clock.md", prune=True)
    assert (one.removed, one.refused) == (["docs/clock.md"], [])
    rest = await run(retriever, docs, prune=True)
    assert (rest.removed, rest.refused) == (["docs/mirror.md", "docs/table.md"], [])
    assert [document.source for document in await retriever.index.documents(Scope())] == [
        "docs2/vase.md"
    ]
    again = await run(retriever, docs, prune=True)
    assert (again.removed, len(again.refused)) == ([], 1)


async def test_another_working_directory_has_documents_of_its_own(
    retriever: HybridRetriever, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(retriever, Path("docs"))
    other = docs.parent / "other"
    write(other / "docs" / "clock.md", PAGE.format("sundial"))
    monkeypatch.chdir(other)
    report = await run(retriever, Path("docs"), prune=True)
    assert (report.added, report.removed) == ([str(other / "docs" / "clock.md")], [])
    assert len(await retriever.index.documents(Scope())) == 4
    (other / "docs" / "clock.md").unlink()
    assert (await run(retriever, Path("docs"), prune=True)).removed == report.added
    assert len(await retriever.index.documents(Scope())) == 3


async def test_a_file_keeps_its_source_wherever_it_is_read_from(
    retriever: HybridRetriever, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await run(retriever, Path("docs"))
    monkeypatch.chdir(docs)
    assert (await run(retriever, Path("."), prune=True)).skipped == first.added


async def test_a_moved_project_takes_its_documents_along(
    retriever: HybridRetriever, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await run(retriever, Path("docs"))
    moved = docs.parent / "moved"
    shutil.move(docs, moved / "docs")
    monkeypatch.chdir(moved)
    report = await run(retriever, Path("docs"), docs, prune=True)
    assert (report.updated, report.removed) == (first.added, [])
    assert (await run(retriever, Path("docs"))).skipped == first.added


async def test_links_to_a_file_are_that_file(retriever: HybridRetriever, docs: Path) -> None:
    (docs / "a_clock.md").symlink_to(docs / "clock.md")
    (docs.parent / "linked").symlink_to(docs)
    report = await run(retriever, docs, docs.parent / "linked")
    assert sorted(report.added) == ["docs/clock.md", "docs/mirror.md", "docs/table.md"]
    assert (await run(retriever, docs.parent / "linked", prune=True)).removed == []


async def test_a_name_that_is_no_text_is_refused_alone(
    retriever: HybridRetriever, docs: Path
) -> None:
    write(Path(os.fsdecode(bytes(docs) + b"/caf\xe9.md")), "Words.\n")
    report = await run(retriever, docs)
    assert len(report.added) == 3
    (refused,) = report.refused
    assert (refused.source, "not UTF-8" in refused.reason) == ("docs/caf\\udce9.md", True)


async def test_progress_names_every_file(retriever: HybridRetriever, docs: Path) -> None:
    heard: list[tuple[int, int, str]] = []
    await ingest(
        [docs], retriever.index, retriever.segmenter, progress=lambda *step: heard.append(step)
    )
    assert heard[0] == (0, 3, "docs/clock.md")
    assert heard[-1] == (3, 3, "")


async def test_the_event_loop_stays_free(retriever: HybridRetriever, docs: Path) -> None:
    write(docs / "long.md", "# 长文\n\n" + "水泵由林德女士在三月检修，上阀门在夜里打开。" * 3000)
    longest_s = 0.0
    task = asyncio.create_task(run(retriever, docs))
    while not task.done():
        before = time.thread_time()  # of CPU: other work does not count
        await asyncio.sleep(0.005)
        longest_s = max(longest_s, time.thread_time() - before)
    assert (await task).chunks > 100
    assert longest_s < 0.5


async def test_two_at_once_leave_one_of_each(
    retriever: HybridRetriever, embedder: StaticEmbedder, docs: Path
) -> None:
    other = HybridRetriever(await open_index(retriever.index.folder, embedder), retriever.segmenter)
    reports = await asyncio.gather(run(retriever, docs), run(other, docs))
    assert sorted(len(report.added) for report in reports) == [0, 3]
    assert await retriever.index.count(Scope()) == 6


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from app.ingest import pipeline
from app.retrieval.embedder import StaticEmbedder
from app.retrieval.index import open_index
from app.retrieval.tokenizer import Segmenter

async def main():
    pipeline.BATCH_ROWS = 4
    segmenter = Segmenter()
    index = await open_index(Path("data/index"), StaticEmbedder(segmenter))
    def progress(done, everything, source):
        if done == 9:
            os.kill(os.getpid(), signal.SIGKILL)
    await pipeline.ingest([Path("docs")], index, segmenter, progress=progress)

asyncio.run(main())
"""


async def test_a_killed_ingest_leaves_whole_documents_and_can_be_repeated(
    tmp_path: Path, docs: Path, embedder: StaticEmbedder, segmenter: Segmenter
) -> None:
    for number in range(12):
        write(docs / f"item{number:02}.md", PAGE.format(f"item{number}"))
    index = await open_index(tmp_path / "data" / "index", embedder)
    retriever = HybridRetriever(index, segmenter)
    await run(retriever, docs / "item00.md")
    write(docs / "item00.md", PAGE.format("carpet") + PAGE.format("lamp"))
    root = Path(module.__file__).parents[2]
    killed = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "ignore", "-c", KILLED],
        env={"PYTHONPATH": str(root)},
    )
    assert killed.returncode == -9
    documents = await retriever.index.documents(Scope())
    assert 1 < len(documents) < 15
    assert await index.count(Scope()) == sum(document.chunks for document in documents)
    report = await run(retriever, docs)
    assert len(report.added) + len(report.updated) + len(report.skipped) == 15
    chunks = {
        document.source: document.chunks for document in await retriever.index.documents(Scope())
    }
    assert len(chunks) == 15
    assert chunks.pop("docs/item00.md") == 4
    assert set(chunks.values()) == {2}


async def test_patterns_name_files_at_any_depth(retriever: HybridRetriever, docs: Path) -> None:
    write(docs / "deep" / "er" / "vase.md", PAGE.format("vase"))
    write(docs / "notes.txt", "Words.\n")
    report = await run(retriever, Path("docs/**/*.md"), Path("docs/*.[t]xt"))
    assert sorted(report.added) == [
        "docs/clock.md",
        "docs/deep/er/vase.md",
        "docs/mirror.md",
        "docs/notes.txt",
        "docs/table.md",
    ]
    write(docs / "[a].md", "A name, no pattern.\n")
    assert (await run(retriever, docs / "[a].md")).added == ["docs/[a].md"]


async def test_many_documents_are_read_apart_to_the_same_end(
    retriever: HybridRetriever, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IN_PROCESS_DOCUMENTS", 2)
    monkeypatch.setattr(module, "MAX_PROCESSES", 1)
    write(docs / "阀门.md", "# 阀门\n\n阀门在夜里打开。\n")
    write(docs / "empty.md", "")
    report = await run(retriever, docs)
    assert report.added == ["docs/clock.md", "docs/mirror.md", "docs/table.md", "docs/阀门.md"]
    assert [refusal.source for refusal in report.refused] == ["docs/empty.md"]
    first, *_ = await retriever.retrieve("夜里打开什么？", 3)
    assert first.source == "docs/阀门.md"
