"""Uploads without HTTP: what concerns their order and their number."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from app.ingest import pipeline
from app.ingest import uploads as module
from app.ingest.uploads import Received, Uploads, listed_in
from app.retrieval import lancedb
from app.retrieval.images import ImageStore
from app.retrieval.index import IndexUnusable, IngestBusy, StoredDocument, writing
from app.retrieval.retriever import HybridRetriever
from graphs.options import Scope
from tests.app.pictures import drawn, encoded


@pytest.fixture
async def uploads(tmp_path: Path, retriever: HybridRetriever) -> AsyncIterator[Uploads]:
    index, segmenter = retriever.index, retriever.segmenter
    opened = Uploads(tmp_path, index, segmenter, max_bytes=1_000_000)
    yield opened
    await opened.aclose()


def sent(folder: Path, **texts: str) -> list[Received]:
    """Markdown files by their names."""
    folder.mkdir(exist_ok=True)
    files = [Received(f"{name}.md", folder / f"{name}.md") for name in texts]
    for received, text in zip(files, texts.values(), strict=True):
        received.file.write_text(text, "utf-8")
    return files


def kept(document: StoredDocument) -> str:
    return Path(document.path).read_text("utf-8")


async def test_a_file_brought_in_right_after_a_deletion_stays(
    uploads: Uploads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (old,) = (await uploads.bring_in(sent(tmp_path / "sent", 水泵="旧文。\n"))).documents

    @asynccontextmanager
    async def with_a_successor(folder: Path, wait_s: float | None = None) -> AsyncIterator[None]:
        async with writing(folder, wait_s):
            yield
        monkeypatch.undo()
        await uploads.bring_in(sent(tmp_path / "sent", 水泵="新文。\n"))

    monkeypatch.setattr(module, "writing", with_a_successor)
    assert await uploads.delete(old.id)
    assert kept(old) == "新文。\n"


async def test_a_document_that_is_slow_to_read_holds_up_no_other_upload(
    uploads: Uploads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a large one, of which what is read waits on disk; a second large one waits."""
    monkeypatch.setattr(module, "LARGE_BYTES", 60_000)
    monkeypatch.setattr(module, "READ_WAIT_S", 0.05)
    monkeypatch.setattr(pipeline, "MAX_MEMORY_BYTES", 100)
    brackets = sent(tmp_path / "slow", brackets="[\n" * 60_000, hall="The hall is dark.\n")
    slow = asyncio.create_task(uploads.bring_in(brackets))
    await asyncio.sleep(0.2)
    (lamp,) = (await uploads.bring_in(sent(tmp_path / "sent", lamp="The lamp is lit.\n"))).documents
    with pytest.raises(IngestBusy, match="are being read"):
        await uploads.bring_in(sent(tmp_path / "more", more="Words.\n" * 10_000))

    assert not slow.done()
    assert kept(lamp) == "The lamp is lit.\n"
    report = (await slow).report
    assert (report.added, report.refused) == (["brackets.md", "hall.md"], [])
    assert len((await uploads.documents())[0]) == 3


async def test_what_changed_since_it_was_read_ahead_is_read_again(
    uploads: Uploads, tmp_path: Path
) -> None:
    first, second = (
        sent(tmp_path / name, lamp="Words.\n" * (10_000 if name == "long" else 1))
        for name in ("long", "short")
    )
    reading = asyncio.create_task(uploads.bring_in(first))
    await asyncio.sleep(0.2)
    (short,) = (await uploads.bring_in(second)).documents
    assert not reading.done()
    (long,) = (await reading).documents

    assert (long.id, long.source) == (short.id, short.source)
    assert len((await uploads.documents())[0]) == 1


class Walked(list[StoredDocument]):
    """Counts how often it is gone through."""

    walks = 0

    def __iter__(self) -> Iterator[StoredDocument]:
        self.walks += 1
        return super().__iter__()


def test_many_files_beside_many_documents_are_listed_at_once() -> None:
    folder = Path("/data/uploads/shared")
    first = StoredDocument("0", "0.md", str(folder / "0.md"), "", "", 1, 1, "")
    known = Walked(
        replace(first, id=f"{n}", source=f"{n}.md", path=str(folder / f"{n}.md"))
        for n in range(20_000)
    )
    known.append(replace(first, id="other", source="其他.md", path="/docs/其他.md"))
    known.append(replace(first, id="ann", source="new.md", path="/docs/new.md", owner="ann"))
    names = [f"{n}.md" for n in range(19_000, 20_000)] + ["其他.md", "new.md"]
    items = listed_in(folder, [Received(name, Path(name)) for name in names], "", known)
    assert 1 <= known.walks < 4, "not once for each file"
    assert [item.stored for item in items] == [*known[19_000:20_000], None, None]
    assert [item.source for item in items[-3:]] == ["19999.md", "uploads/其他.md", "new.md"]


async def test_uploads_at_once_do_not_trip_over_folders_that_go(uploads: Uploads) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.md"\r\n\r\nA'
        yield b"\r\n--x--\r\n"

    async def send() -> None:
        for _ in range(20):
            async with uploads.received(body(), "multipart/form-data; boundary=x") as form:
                assert [received.name for received in form.files] == ["a.md"]

    await asyncio.gather(*(send() for _ in range(6)))


async def test_what_many_deletions_leave_is_cleaned_away(
    uploads: Uploads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lancedb, "KEEP_VERSIONS", timedelta(milliseconds=1))
    monkeypatch.setattr(lancedb, "MAX_VERSIONS", 5)
    texts = {f"泵{number}": f"水泵{number}在三月检修。 The pump.\n" for number in range(12)}
    pumps = (await uploads.bring_in(sent(tmp_path / "sent", **texts))).documents
    for pump in pumps:
        assert await uploads.delete(pump.id)
    assert len(list((tmp_path / "data/index/chunks.lance/_versions").iterdir())) <= 8


async def test_a_deletion_takes_no_harm_from_tidying_that_fails(
    uploads: Uploads,
    retriever: HybridRetriever,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (lamp,) = (await uploads.bring_in(sent(tmp_path / "sent", lamp="The lamp is lit.\n"))).documents

    async def fails() -> None:
        raise IndexUnusable("no room on the disk")

    monkeypatch.setattr(retriever.index, "tidy", fails)
    assert await uploads.delete(lamp.id)
    assert await retriever.index.documents(Scope()) == []
    assert "not tidied: no room on the disk" in caplog.text


async def test_deletions_take_turns_however_many_they_are(
    uploads: Uploads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {f"水泵{number}": "水泵在三月检修。 The pump.\n" for number in range(24)}
    pumps = (await uploads.bring_in(sent(tmp_path / "sent", **texts))).documents
    monkeypatch.setattr(module, "WAIT_S", 0.05)
    assert all(await asyncio.gather(*(uploads.delete(pump.id) for pump in pumps)))


async def test_an_upload_that_the_index_refuses_leaves_no_images(
    uploads: Uploads,
    retriever: HybridRetriever,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fails(_: object) -> None:
        raise IndexUnusable("no room on the disk")

    monkeypatch.setattr(retriever.index, "put", fails)
    pixels = base64.b64encode(encoded(drawn(1))).decode()
    text = f"The valve.\n\n![A valve cut open](data:image/png;base64,{pixels})\n"
    with pytest.raises(IndexUnusable, match="no room"):
        await uploads.bring_in(sent(tmp_path / "sent", valve=text))
    assert ImageStore(retriever.index.folder.parent).keys() == []
