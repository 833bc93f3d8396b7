"""Backups of a state folder that is in use, and what is restored from them."""

import asyncio
import base64
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import lancedb
import pytest

from app import state_folder
from app.api.readiness import KEPT_S
from app.errors import StartFailed
from app.extensions.backup import backup as module
from app.extensions.backup.backup import BackupFailed, Summary, back_up, problems, restore
from app.ingest.pipeline import reindex
from app.main import create_app
from app.retrieval.embedder import StaticEmbedder
from app.retrieval.images import ImageStore, PlainImage
from app.retrieval.index import IndexUnusable, open_index
from app.settings import Settings
from app.state_folder import RESTORING
from app.storage.database import open_engine
from graphs.options import Scope
from graphs.ports import Services
from tests.app.api.routes.test_health import damage
from tests.app.conftest import Loaded
from tests.app.pictures import drawn, encoded
from tests.app.serving import Serving, wait_until
from tests.fakes import services

Open = Callable[[Path], AbstractContextManager[Serving]]
LAMP, PUMP = "# Lamp\n\nThe lamp of Quorra is lit.\n", "# 水泵\n\n水泵在三月检修。\n"


@pytest.fixture(scope="module")
def service_of(loaded: Loaded) -> Open:
    """The service over a state folder, with its real index and database."""

    @contextmanager
    def open_at(state: Path) -> Iterator[Serving]:
        @asynccontextmanager
        async def source(_: Settings) -> AsyncIterator[Services]:
            yield replace(services(), retriever=await loaded.open_retriever(state))

        with Serving(create_app(settings_of(state), source)) as service:
            service.client.timeout = httpx.Timeout(60)
            yield service

    return open_at


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, service_of: Open) -> Path:
    """A state folder with two uploads and a run."""
    state = tmp_path_factory.mktemp("state") / "kept"
    with service_of(state) as service:
        upload(service, **{"lamp.md": LAMP, "水泵.md": PUMP})
        service.ask("Is it lit?", workflow="rag")
    return state


@pytest.fixture
def kept(filled: Path, tmp_path: Path) -> Path:
    """A copy of it that the test may change."""
    return shutil.copytree(filled, tmp_path / "kept")


def settings_of(state: Path) -> Settings:
    return Settings(_env_file=None, data_dir=state, search="off")


def sent(service: Serving, **texts: str) -> httpx.Response:
    parts = [("files", (name, text.encode())) for name, text in texts.items()]
    return service.client.post("/documents", files=parts)


def upload(service: Serving, **texts: str) -> dict[str, Any]:
    response = sent(service, **texts)
    assert response.status_code == 200, response.text
    report: dict[str, Any] = response.json()["report"]
    return report


def listed(service: Serving) -> dict[str, str]:
    """Ids by source."""
    documents = service.client.get("/documents", params={"limit": 1000}).json()["documents"]
    return {document["source"]: document["id"] for document in documents}


def uploaded(state: Path) -> set[str]:
    return {file.name for file in (state / "uploads" / "shared").iterdir()}


def saved(state: Path, target: Path) -> Summary:
    return asyncio.run(back_up(settings_of(state), str(target)))


def restored(source: Path, state: Path, *, force: bool = False) -> Summary:
    return asyncio.run(restore(settings_of(state), str(source), force=force))


def found_wrong(state: Path) -> list[str]:
    return asyncio.run(problems(settings_of(state)))


def assert_in_use(service: Serving, state: Path) -> None:
    """Deletions delete, and uploads update, with their files."""
    before = listed(service)
    assert upload(service, **{"lamp.md": LAMP})["skipped"] == ["lamp.md"]
    assert upload(service, **{"lamp.md": LAMP.replace("lit", "out")})["updated"] == ["lamp.md"]
    assert listed(service) == before
    assert "out" in (state / "uploads" / "shared" / "lamp.md").read_text("utf-8")
    assert service.client.delete(f"/documents/{before['水泵.md']}").status_code == 204
    assert "水泵.md" not in listed(service)
    assert "水泵.md" not in uploaded(state)


@pytest.mark.parametrize("name", ["backup", "备份.tar.gz"])
def test_a_backup_made_while_uploads_go_on_is_whole(
    name: str, tmp_path: Path, service_of: Open
) -> None:
    state, stop, sent = tmp_path / "state", threading.Event(), list[str]()
    with service_of(state) as service:
        upload(service, **{"lamp.md": LAMP, "水泵.md": PUMP})

        def go_on() -> None:
            while not stop.is_set():
                upload(service, **{f"more{len(sent)}.md": f"Number {len(sent)} is lit.\n"})
                sent.append("")

        uploading = threading.Thread(target=go_on)
        uploading.start()
        try:
            made = saved(state, tmp_path / name)
        finally:
            stop.set()
            uploading.join()
        service.ask("Is it lit?", workflow="rag")
    assert sent
    assert made.documents == made.uploads >= 2
    assert made.has_database
    assert not list(state.glob(".backup-*"))
    assert found_wrong(state) == []

    elsewhere = tmp_path / "elsewhere"
    assert restored(tmp_path / name, elsewhere) == made
    assert found_wrong(elsewhere) == []
    with service_of(elsewhere) as service:
        assert len(listed(service)) == made.documents
        assert_in_use(service, elsewhere)
    assert {"lamp.md", "水泵.md"} <= uploaded(state), "the former folder is left alone"


@pytest.mark.parametrize("is_moved", [True, False])
def test_state_of_former_versions_can_be_moved_or_copied(
    is_moved: bool, tmp_path: Path, kept: Path, service_of: Open
) -> None:
    """They kept absolute paths."""
    table = lancedb.connect(kept / "index").open_table("chunks")
    for name in ("lamp.md", "水泵.md"):
        path = kept.resolve() / "uploads" / "shared" / name
        table.update(where=f"source = '{name}'", values={"path": str(path)})
    elsewhere = tmp_path / "elsewhere"
    if is_moved:
        kept.rename(elsewhere)
    else:
        shutil.copytree(kept, elsewhere)
    assert found_wrong(elsewhere) == []
    with service_of(elsewhere) as service:
        assert_in_use(service, elsewhere)
    assert is_moved or uploaded(kept) == {"lamp.md", "水泵.md"}


def test_folders_are_private_and_so_are_files(tmp_path: Path, kept: Path) -> None:
    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    saved(kept, tmp_path / "copy")
    saved(kept, tmp_path / "copy.tar")
    restored(tmp_path / "copy.tar", tmp_path / "new")
    for state in (kept, tmp_path / "new", tmp_path / "copy"):
        folders = [state, state / "index", state / "uploads", state / "uploads" / "shared"]
        assert [mode(folder) for folder in folders] == [0o700] * 4
        files = [state / "selfcrag.db", *(state / "uploads" / "shared").iterdir()]
        assert [mode(file) for file in files] == [0o600] * 3
    assert mode(tmp_path / "copy.tar") == 0o600


def test_state_that_is_there_is_replaced_only_by_force(
    tmp_path: Path, kept: Path, service_of: Open
) -> None:
    saved(kept, tmp_path / "b.tar")
    with service_of(kept) as service:
        upload(service, **{"later.md": "Later than the backup.\n"})
        with pytest.raises(BackupFailed, match="holds state already"):
            restored(tmp_path / "b.tar", kept)
        with pytest.raises(BackupFailed, match="a service uses"):
            restored(tmp_path / "b.tar", kept, force=True)
        assert "later.md" in listed(service)
    restored(tmp_path / "b.tar", kept, force=True)
    assert uploaded(kept) == {"lamp.md", "水泵.md"}
    assert sorted(os.listdir(kept)) == ["index", "index.lock", "selfcrag.db", "uploads"]


def test_a_restore_that_fails_leaves_all_as_it_was(
    tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(kept, tmp_path / "b.tar")
    (kept / "uploads" / "shared" / "later.md").write_text("Later.\n", "utf-8")

    def fails() -> None:
        if not (kept / "uploads" / "shared" / "later.md").exists():
            raise OSError("no room on the disk")

    monkeypatch.setattr(module.os, "sync", fails)
    with pytest.raises(OSError, match="no room"):
        restored(tmp_path / "b.tar", kept, force=True)
    assert uploaded(kept) == {"lamp.md", "水泵.md", "later.md"}
    assert not (kept / RESTORING).exists()
    assert len(found_wrong(kept)) == 1, "the file that is in no document"


async def test_nothing_opens_what_is_half_restored(
    tmp_path: Path, embedder: StaticEmbedder
) -> None:
    (tmp_path / RESTORING).touch()
    with pytest.raises(StartFailed, match="selfcrag restore FROM --force"):
        async with open_engine(settings_of(tmp_path)):
            pass
    with pytest.raises(IndexUnusable, match="selfcrag restore FROM --force"):
        await open_index(tmp_path / "index", embedder)
    (problem,) = await problems(settings_of(tmp_path))
    assert "was cut off" in problem


def test_a_restore_that_was_cut_off_is_repeated(tmp_path: Path, kept: Path) -> None:
    saved(kept, tmp_path / "b.tar")
    (kept / ".replaced-x").mkdir()
    (kept / "index").rename(kept / ".replaced-x" / "index")
    (kept / RESTORING).touch()
    restored(tmp_path / "b.tar", kept, force=True)
    assert found_wrong(kept) == []
    assert sorted(os.listdir(kept)) == ["index", "index.lock", "selfcrag.db", "uploads"]


def cut(backup: Path) -> None:
    os.truncate(backup, backup.stat().st_size // 2)


def scribbled(backup: Path) -> None:
    with tarfile.open(backup) as tar, backup.open("r+b") as file:
        for member in tar:
            if "/data/" in member.name:
                file.seek(member.offset_data)
                file.write(b"\xff" * member.size)


def emptied(backup: Path) -> None:
    backup.write_bytes(b"")


def without_a_file(backup: Path) -> None:
    with tarfile.open(backup) as tar:
        tar.extractall(backup.parent / "part", filter="data")
    (backup.parent / "part" / "uploads" / "shared" / "lamp.md").unlink()
    with tarfile.open(backup, "w") as tar:
        for part in (backup.parent / "part").iterdir():
            tar.add(part, arcname=part.name)


@pytest.mark.parametrize("damage", [cut, scribbled, emptied, without_a_file])
def test_a_damaged_backup_is_refused(
    damage: Callable[[Path], None], tmp_path: Path, kept: Path
) -> None:
    backup = tmp_path / "b.tar"
    saved(kept, backup)
    damage(backup)
    for state in (kept, tmp_path / "new"):
        with pytest.raises(BackupFailed, match="backup"):
            restored(backup, state, force=True)
    assert uploaded(kept) == {"lamp.md", "水泵.md"}
    assert found_wrong(kept) == []
    assert os.listdir(tmp_path / "new") == ["index.lock"]


def test_what_is_not_in_the_state_folder_is_told(tmp_path: Path, kept: Path) -> None:
    other = {"database_url": "postgresql://u:secret@db/x", "index_url": "http://milvus:19530"}
    settings = Settings(_env_file=None, data_dir=kept, **other)
    made = asyncio.run(back_up(settings, str(tmp_path / "b")))
    database, index = made.notes
    assert "pg_dump" in database
    assert "Milvus" in index
    assert "secret" not in database
    assert made.uploads == 2


def test_files_and_documents_that_do_not_match_are_told(tmp_path: Path, kept: Path) -> None:
    shared = kept / "uploads" / "shared"
    (shared / "lamp.md").rename(shared / "moved.md")
    lost, unread = found_wrong(kept)
    assert "lamp.md" in lost
    assert "moved.md" in unread


def put_image(state: Path) -> None:
    """An image whose document is in no index."""
    plain = PlainImage(b"pixels", 30, 20, "0f")
    image = {"content": plain, "caption": "A lamp", "near": None}
    row = {"id": "d-v-0", "document_id": "d", "owner": "", "collection": "default", "image": image}
    ImageStore(state).put([row])


async def test_images_are_in_a_backup(kept: Path, tmp_path: Path) -> None:
    put_image(kept)
    await back_up(settings_of(kept), str(tmp_path / "copy.tar"))
    await restore(settings_of(tmp_path / "other"), str(tmp_path / "copy.tar"))
    assert ImageStore(tmp_path / "other").content("d-v-0", Scope()) == b"pixels"


def pictured(seed: int) -> str:
    """Markdown that shows a picture."""
    pixels = base64.b64encode(encoded(drawn(seed))).decode()
    return f"# Valve\n\nThe valve is shut.\n\n![A valve cut open](data:image/png;base64,{pixels})\n"


def becomes(service: Serving, health: dict[str, Any]) -> None:
    ready = service.client.get
    wait_until(lambda: ready("/health/ready").json() == health, KEPT_S + 5)


def test_with_a_damaged_image_store_texts_come_and_all_go(
    kept: Path, service_of: Open, tmp_path: Path
) -> None:
    with service_of(kept) as service:
        upload(service, **{"valve.md": pictured(1), "other.md": pictured(2)})
        becomes(service, {"status": "ready"})
        damage(kept, "images.sqlite*")
        becomes(service, {"status": "ready", "degraded": ["images"]})

        # Texts do not depend on it, those of a first batch no more than those of the last.
        before = listed(service)
        refused = sent(service, **{"many.csv": "a,b\n" * 600, "new.md": pictured(3)})
        assert (refused.status_code, set(listed(service)) - before.keys()) == (503, {"many.csv"})
        assert uploaded(kept) == listed(service).keys()
        assert upload(service, **{"plain.md": "Plain.\n"})["added"] == ["plain.md"]
        assert_in_use(service, kept)

        # What cannot be removed is told; text and file are gone all the same.
        deleted = service.client.delete(f"/documents/{before['valve.md']}")
        assert (deleted.status_code, "images of valve.md" in deleted.text) == (503, True)
        assert "valve.md" not in {*listed(service), *uploaded(kept)}
        assert service.client.delete(f"/documents/{before['lamp.md']}").status_code == 204

        (problem,) = found_wrong(kept)
        assert "images.sqlite" in problem
        assert "damaged" in problem
        for file in kept.glob("images.sqlite*"):
            file.rename(tmp_path / file.name)
        (problem,) = found_wrong(kept)
        assert "1 images of documents are not in" in problem
        becomes(service, {"status": "ready", "degraded": ["images"]})
        assert upload(service, **{"new.md": pictured(3)})["added"] == ["new.md"]
        assert saved(kept, tmp_path / "copy").documents == 4


def test_after_a_start_without_its_images_readiness_lists_them(
    kept: Path, service_of: Open
) -> None:
    with service_of(kept) as service:
        becomes(service, {"status": "ready"})
        upload(service, **{"valve.md": pictured(1)})
    for file in kept.glob("images.sqlite*"):
        file.unlink()
    with service_of(kept) as service:
        becomes(service, {"status": "ready", "degraded": ["images"]})
        assert service.client.delete(f"/documents/{listed(service)['valve.md']}").is_success
    with service_of(kept) as service:
        becomes(service, {"status": "ready"})


async def test_images_whose_documents_are_gone_are_told_and_removed(
    kept: Path, loaded: Loaded
) -> None:
    put_image(kept)
    (problem,) = await problems(settings_of(kept))
    assert "images of 1 documents that were deleted" in problem
    await reindex(kept / "index", loaded.embedder, loaded.segmenter)
    assert await problems(settings_of(kept)) == []


def test_a_folder_that_is_full_is_told(
    kept: Path, service_of: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with service_of(kept) as service:
        becomes(service, {"status": "ready"})
        assert found_wrong(kept) == []
        monkeypatch.setattr(state_folder, "MIN_FREE_BYTES", 1 << 60)
        get = service.client.get
        wait_until(lambda: get("/health/ready").status_code == 503, KEPT_S + 5)
        assert "the data folder cannot be written" in get("/health/ready").json()["detail"]
        (problem,) = found_wrong(kept)
        assert str(kept) in problem
        assert "MB are free" in problem


UNABLE = """
import resource, sys
from pathlib import Path
from app.state_folder import why_unwritable
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
print(why_unwritable(Path(sys.argv[1])))
"""


def test_a_folder_that_takes_no_byte_is_told(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", UNABLE, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert ended.stdout == "File too large\n"
    assert list(tmp_path.iterdir()) == []
