"""`/documents` over HTTP, with the real index and real files."""

import socket
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from filelock import FileLock

from app.api.routes.documents import mapped
from app.composition.embedder import open_retriever
from app.errors import DocumentsProblem
from app.ingest import uploads
from app.ingest.uploads import clean_name
from app.main import create_app
from app.retrieval.index import lock_file
from app.settings import Settings
from graphs.ports import Services
from tests.app.ingest.word import paragraph, word
from tests.app.serving import Serving, events_of, wait_until
from tests.fakes import services

MAX_BYTES = 1_000_000


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("documents")


@pytest.fixture(scope="module")
def service(state: Path) -> Iterator[Serving]:
    settings = Settings(
        _env_file=None,
        data_dir=state,
        search="off",
        upload_max_bytes=MAX_BYTES,
    )

    @asynccontextmanager
    async def source(_: Settings) -> AsyncIterator[Services]:
        retriever = await open_retriever(state)
        yield replace(services(), retriever=retriever)

    with Serving(create_app(settings, source)) as serving:
        # Starting a process that reads takes seconds on a busy machine.
        serving.client.timeout = httpx.Timeout(60)
        yield serving


@pytest.fixture(autouse=True)
def _empty(service: Serving) -> None:
    for document in listed(service)["documents"]:
        assert service.client.delete(f"/documents/{document['id']}").status_code == 204


def upload(service: Serving, **files: bytes) -> httpx.Response:
    """Names have __ for their dot."""
    parts = [("files", (name.replace("__", "."), content)) for name, content in files.items()]
    return service.client.post("/documents", files=parts)


def reported(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    report: dict[str, Any] = response.json()["report"]
    return report


def listed(service: Serving, **query: object) -> dict[str, Any]:
    response = service.client.get("/documents", params=query)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def stored(state: Path) -> set[str]:
    folder = state / "uploads"
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_files_come_in_and_are_found(service: Serving, state: Path) -> None:
    report = reported(
        upload(
            service,
            lamp__md=b"# The lamp\n\nThe lamp of Quorra is lit by seven oil wells.\n",
            水泵__txt="水泵在三月由林德女士检修过。\n".encode(),
            house__docx=word(paragraph("The house of Quorra has nine doors.")),
            broken__pdf=b"%PDF-1.4 broken",
        )
    )
    assert report["added"] == ["lamp.md", "水泵.txt", "house.docx"]
    assert [refusal["source"] for refusal in report["refused"]] == ["broken.pdf"]
    assert "damaged PDF" in report["refused"][0]["reason"]
    assert report["chunks"] == 3
    told = {document["source"]: document for document in report["documents"]}
    assert told["lamp.md"]["title"] == "The lamp"
    assert (told["水泵.txt"]["title"], told["水泵.txt"]["language"]) == ("水泵", "zh")
    assert told["house.docx"]["title"] == "house"
    assert told["lamp.md"]["shared"] is True
    assert stored(state) == {"shared/lamp.md", "shared/水泵.txt", "shared/house.docx"}
    answer = service.ask("What lights the lamp of Quorra?", options={"web": "never"})
    assert "lamp.md" in {document["source"] for document in answer["documents"]}


def test_the_same_name_again_replaces_what_changed(service: Serving, state: Path) -> None:
    first = reported(upload(service, a__md=b"One.\n", b__md=b"Two.\n"))
    again = reported(upload(service, a__md=b"One more.\n", b__md=b"Two.\n"))
    assert (again["updated"], again["skipped"], again["added"]) == (["a.md"], ["b.md"], [])
    assert {it["id"] for it in again["documents"]} == {it["id"] for it in first["documents"]}
    assert (state / "uploads/shared/a.md").read_bytes() == b"One more.\n"
    refused = reported(upload(service, a__md=b"\n"))
    assert refused["refused"] == [{"source": "a.md", "reason": "empty; its earlier version stays"}]
    headers = {"Accept-Language": "zh-CN"}
    chinese = service.client.post("/documents", files={"files": ("a.md", b"")}, headers=headers)
    assert reported(chinese)["refused"][0]["reason"] == "文件为空；保留之前的版本"
    assert (state / "uploads/shared/a.md").read_bytes() == b"One more.\n"
    assert listed(service)["total"] == 2


def test_a_folder_that_cannot_be_written_is_told(service: Serving, state: Path) -> None:
    folder, aside = state / "uploads", state / "aside"
    folder.mkdir(exist_ok=True)
    folder.rename(aside)
    folder.write_text("no folder", encoding="utf-8")
    try:
        refused = upload(service, 灯__md="红灯。".encode())
    finally:
        folder.unlink()
        aside.rename(folder)
    assert (refused.status_code, "Retry-After" in refused.headers) == (503, True)
    assert refused.json()["detail"] == "The service cannot use its folder of documents."


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_a_full_disk_is_told() -> None:
    with pytest.raises(DocumentsProblem, match="no room left") as told, mapped():
        Path("/dev/full").write_bytes(b"x")
    assert told.value.problem.status == 503


def test_the_list_is_paged_and_filtered(service: Serving) -> None:
    reported(
        upload(service, **{f"page{n}__md": f"# Title {n}\n\nText.\n".encode() for n in range(5)})
    )
    page = listed(service, limit=2, offset=2)
    assert [it["source"] for it in page["documents"]] == ["page2.md", "page3.md"]
    assert page["total"] == 5
    found = listed(service, q="TITLE 4")
    assert ([it["source"] for it in found["documents"]], found["total"]) == (["page4.md"], 1)
    assert service.client.get("/documents", params={"limit": 0}).status_code == 422


def test_a_document_is_read_with_its_parts(service: Serving) -> None:
    page = "# Lamps\n\nThe lamp has seven wells.\n\n## Oil\n\nIt burns:\n\n- olive oil\n- 菜油\n"
    (document,) = reported(upload(service, lamp__md=page.encode()))["documents"]
    read = service.client.get(f"/documents/{document['id']}").json()
    assert {name: read[name] for name in document} == document
    assert read["text"] == "The lamp has seven wells.\nIt burns:\n- olive oil\n- 菜油"
    parts = [
        (read["text"][part["start"] : part["end"]], part["heading"]) for part in read["blocks"]
    ]
    assert parts == [
        ("The lamp has seven wells.", ""),
        ("It burns:\n- olive oil\n- 菜油", "Oil"),
    ]
    answer = service.ask("What does the lamp burn?", options={"web": "never"})
    known = {part["id"] for part in read["blocks"]}
    assert known & {strip["document_id"] for strip in answer["strips"]}
    assert service.client.get("/documents/none").status_code == 404


def test_what_is_deleted_is_gone_with_its_file(service: Serving, state: Path) -> None:
    (document,) = reported(upload(service, a__md=b"One.\n"))["documents"]
    path = f"/documents/{document['id']}"
    assert service.client.delete(path).status_code == 204
    assert (listed(service)["total"], stored(state)) == (0, set())
    missing = service.client.delete(path)
    assert (missing.status_code, missing.json()["title"]) == (404, "Not found")


def test_the_stream_tells_progress_and_the_same_report(service: Serving) -> None:
    files = [("files", (f"{name}.md", b"Words.\n")) for name in "ab"]
    headers = {"Accept": "text/event-stream"}
    with service.client.stream("POST", "/documents", files=files, headers=headers) as response:
        events = list(events_of(response))
    assert [event.name for event in events[-2:]] == ["report", "done"]
    assert [event.number for event in events] == list(range(len(events)))
    told = [event.data for event in events if event.name == "progress"]
    assert told[0] == {"done": 0, "total": 2, "source": "a.md", "phase": "reading"}
    assert told[-1] == {"done": 2, "total": 2, "source": "", "phase": "indexing"}
    assert events[-2].data["report"]["added"] == ["a.md", "b.md"]


@pytest.mark.parametrize(
    ("files", "detail"),
    [
        ({"large__md": b"x" * (MAX_BYTES + 1)}, "The file large.md is larger than 1,000,000 bytes"),
        ({f"p{n}__md": b"x" * 900_000 for n in range(4)}, "The upload is larger than 3,000,000"),
    ],
)
def test_what_is_too_large_is_refused_whole(
    service: Serving,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, bytes],
    detail: str,
) -> None:
    monkeypatch.setattr("app.ingest.uploads.MAX_TOTAL_BYTES", 3 * MAX_BYTES)
    response = upload(service, **files)
    assert (response.status_code, detail in response.json()["detail"]) == (413, True)
    assert response.headers["content-type"] == "application/problem+json"
    assert (listed(service)["total"], stored(state)) == (0, set())


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"{}"),
        ("multipart/form-data", b""),
        ("multipart/form-data; boundary=x", b"--y\r\n"),
        ("multipart/form-data; boundary=x", b"--x--\r\n"),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.md"\r\n\r\nCut',
        ),
        (
            "multipart/form-data; boundary=x",
            b'--x\r\nContent-Disposition: form-data; name="files"; filename="../.."\r\n\r\nA'
            b"\r\n--x--\r\n",
        ),
    ],
)
def test_what_is_no_form_of_files_is_told(service: Serving, kind: str, body: bytes) -> None:
    response = service.client.post("/documents", content=body, headers={"Content-Type": kind})
    assert response.status_code == 422, response.text
    assert response.json()["errors"][0]["pointer"] == "#/files"


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("../../etc/passwd.txt", "passwd.txt"),
        ("C:\\docs\\a b.md", "a b.md"),
        (".hidden.md", "hidden.md"),
        ("a\u202egnp.md\x00", "agnp.md"),
        ("..", ""),
        ("水泵.md", "水泵.md"),
        ("n" * 300 + ".md", "n" * 188 + "-b43a9d74.md"),
        ("泵" * 100 + ".docx", "泵" * 62 + "-4ddaafed.docx"),
    ],
)
def test_names_are_cleaned(name: str, cleaned: str) -> None:
    assert clean_name(name) == cleaned


def test_a_client_that_leaves_leaves_nothing(service: Serving, state: Path) -> None:
    head = (
        b"POST /documents HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500000\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\n\r\n"
        b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.md"\r\n\r\n'
    )
    with socket.create_connection(("127.0.0.1", service.port)) as client:
        client.sendall(head + b"words " * 40_000)
        wait_until(lambda: bool(list((state / "uploads").glob(".incoming*"))), 10)
    wait_until(lambda: not list((state / "uploads").glob(".incoming*")), 10)
    assert stored(state) == set()
    assert listed(service)["total"] == 0


def test_another_writer_is_waited_for_and_then_told(
    service: Serving, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "WAIT_S", 0.1)
    with FileLock(lock_file(state / "index")):
        response = upload(service, a__md=b"One.\n")
    assert (response.status_code, response.headers["retry-after"]) == (409, "2")
    assert stored(state) == set()
    assert reported(upload(service, a__md=b"One.\n"))["added"] == ["a.md"]


def test_uploads_at_once_all_come_in(service: Serving) -> None:
    with ThreadPoolExecutor(4) as pool:
        sent = pool.map(lambda n: upload(service, **{f"t{n}__md": b"T.\n"}), range(4))
        reports = [reported(response) for response in sent]
    assert sorted(source for report in reports for source in report["added"]) == [
        f"t{n}.md" for n in range(4)
    ]


def test_answers_go_on_while_a_long_document_is_read(service: Serving) -> None:
    long = ("# 长文\n\n" + "水泵由林德女士在三月检修，上阀门在夜里打开。" * 400).encode()
    thread = threading.Thread(target=lambda: upload(service, long__md=long))
    thread.start()
    answered = 0
    while thread.is_alive():
        assert service.client.get("/health/live").status_code == 200
        answered += 1
    assert answered > 3
    assert listed(service)["documents"][0]["chunks"] > 20
