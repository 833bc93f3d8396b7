"""What an ingest leaves out: whatever lies in the state folder and is not for everyone."""

from pathlib import Path

import pytest

from app.ingest.files import Report, StateFolder
from app.ingest.pipeline import LEADS_OUT, ingest
from app.ingest.uploads import Received, Uploads
from app.retrieval.retriever import HybridRetriever
from graphs.options import Scope

KEPT = "lies in the state folder, of which only uploads/shared is read"


def write(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, "utf-8")


@pytest.fixture
async def state(
    tmp_path: Path, retriever: HybridRetriever, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A state folder that is not hidden, with an upload of an owner's and one for everyone."""
    monkeypatch.chdir(tmp_path)
    write(Path("docs/pump.md"), "# Pump\n\nIt was serviced in March.\n")
    uploads = Uploads(
        tmp_path / "data",
        retriever.index,
        retriever.segmenter,
        max_bytes=1_000_000,
    )
    for owner, name, text in (
        ("ann", "工资.md", "# 工资\n\n林德女士的工资是九万元。\n"),
        ("", "lamp.md", "# Lamp\n\nIt is lit by seven wells.\n"),
    ):
        write(tmp_path / name, text)
        await uploads.bring_in([Received(name, tmp_path / name)], owner)
    return tmp_path / "data"


async def run(retriever: HybridRetriever, *paths: Path, prune: bool = True) -> Report:
    return await ingest(paths, retriever.index, retriever.segmenter, prune=prune)


async def sources(retriever: HybridRetriever) -> list[str]:
    return [document.source for document in await retriever.index.documents(Scope())]


async def test_a_folder_around_the_state_is_read_without_owners_files(
    retriever: HybridRetriever, state: Path
) -> None:
    write(state / "feedback.jsonl", '{"text": "A question of Ann."}\n')
    report = await run(retriever, Path())
    assert (report.added, report.skipped) == (["docs/pump.md"], ["lamp.md"])
    assert report.refused == []
    assert await sources(retriever) == ["docs/pump.md", "lamp.md"]
    found = await retriever.retrieve("林德女士的工资是多少？", 3)
    assert "九万" not in "".join(passage.text for passage in found)


@pytest.mark.parametrize(
    "named", ["data", "data/uploads", "data/uploads/@ann", "data/uploads/@ann/工资.md"]
)
async def test_what_is_named_in_the_state_folder_is_told(
    retriever: HybridRetriever, state: Path, named: str
) -> None:
    report = await run(retriever, Path(named))
    assert [(it.source, it.reason) for it in report.refused] == [(named, KEPT)]
    assert (report.added, report.updated) == ([], [])
    assert await sources(retriever) == ["lamp.md"]


async def test_no_link_leads_to_what_is_an_owners(
    retriever: HybridRetriever, state: Path, tmp_path: Path
) -> None:
    link = tmp_path / "docs/link.md"
    link.symlink_to(state / "uploads/@ann/工资.md")
    assert (await run(retriever, Path("docs"))).added == ["docs/pump.md"]


def with_links(tmp_path: Path) -> Path:
    """docs/ with links to a file within, to one outside, and to a folder outside."""
    write(tmp_path / "outside/passwd.txt", "root:x:0:0\n")
    docs = tmp_path / "docs"
    (docs / "a_link.md").symlink_to(docs / "pump.md")
    (docs / "secret.txt").symlink_to(tmp_path / "outside/passwd.txt")
    (docs / "folder").symlink_to(tmp_path / "outside")
    return docs


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("named", "links"),
    [
        *((named, ["folder", "secret.txt"]) for named in ("docs", "linked", "./docs/../docs")),
        ("docs/*", ["secret.txt"]),
        ("docs/**/*", ["passwd.txt", "secret.txt"]),
    ],
)
async def test_no_link_leads_out_of_a_folder(
    retriever: HybridRetriever, tmp_path: Path, named: str, links: list[str]
) -> None:
    with_links(tmp_path)
    (tmp_path / "linked").symlink_to(tmp_path / "docs")
    report = await run(retriever, Path(named))

    assert report.added == ["docs/pump.md"]
    assert {it.reason for it in report.refused} == {LEADS_OUT}
    assert sorted(Path(it.source).name for it in report.refused) == links
    assert "outside" not in " ".join(await sources(retriever))


@pytest.mark.usefixtures("state")
async def test_a_link_that_is_named_itself_is_read(
    retriever: HybridRetriever, tmp_path: Path
) -> None:
    docs = with_links(tmp_path)
    assert (await run(retriever, docs / "secret.txt")).added == ["outside/passwd.txt"]
    assert (await run(retriever, docs / "folder")).skipped == ["outside/passwd.txt"]


async def test_shared_uploads_are_read_again(retriever: HybridRetriever, state: Path) -> None:
    write(state / "uploads/shared/lamp.md", "# Lamp\n\nIt is out.\n")
    assert (await run(retriever, state / "uploads/shared")).updated == ["lamp.md"]
    (state / "uploads/shared/lamp.md").unlink()
    assert (await run(retriever, state / "uploads/shared")).removed == ["lamp.md"]


async def test_prune_removes_what_was_published_by_mistake(
    retriever: HybridRetriever, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(StateFolder, "keeps", lambda *_: False)
        await run(retriever, state / "uploads")
    assert await sources(retriever) == ["data/uploads/@ann/工资.md", "lamp.md"]
    assert (await run(retriever, state / "uploads")).removed == ["data/uploads/@ann/工资.md"]
    assert await sources(retriever) == ["lamp.md"]
