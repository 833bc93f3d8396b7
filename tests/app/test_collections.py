"""Collections through the service: each sees, keeps and deletes its own documents alone."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from app.main import create_app
from app.settings import Settings
from app.storage.api_keys import KeyRing, add_key, list_keys
from app.storage.database import open_engine
from graphs.options import Scope, Search
from graphs.types import Passage
from tests.app.keys import key_of
from tests.app.serving import Serving
from tests.app.test_durable_runs import Halting, begun, gone, runs_of
from tests.app.test_lasting import opened
from tests.fakes import FakeRetriever
from tests.umbra import TOWER

LAMP = "# Lamps\n\nThe lamp of Arbor burns whale oil.\n"
ABOUT_LAMP = "What does the lamp of Arbor burn?"
PUMP = "# 水泵\n\n乌木城的水泵由林德女士在三月检修。\n"
ABOUT_PUMP = "乌木城的水泵由谁检修？"


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("collections")


@pytest.fixture(scope="module")
def open_to_all(state: Path) -> Iterator[httpx.Client]:
    """A service without keys: the lamp is in `manuals`, the pump in `手册`."""
    with Serving(create_app(settings_of(state))) as serving:
        upload(serving.client, "lamp.md", LAMP, "manuals")
        upload(serving.client, "水泵.md", PUMP, "手册")
        yield serving.client


def settings_of(state: Path) -> Settings:
    return Settings(_env_file=None, data_dir=state, search="off")


def upload(client: httpx.Client, name: str, words: str, collection: str | None) -> dict[str, Any]:
    """The one document of a form whose field names the collection."""
    fields = {} if collection is None else {"collection": collection}
    response = client.post("/documents", data=fields, files={"files": (name, words.encode())})
    assert response.status_code == 200, response.text
    (document,) = response.json()["report"]["documents"]
    return dict(document)


def asked(client: httpx.Client, question: str, **fields: Any) -> dict[str, Any]:
    response = client.post("/ask", json={"question": question, "workflow": "rag", **fields})
    assert response.status_code == 200, response.text
    return dict(response.json())


def found(client: httpx.Client, question: str, **fields: Any) -> set[str]:
    return {document["source"] for document in asked(client, question, **fields)["documents"]}


def sources(client: httpx.Client, collection: str | None = None) -> list[str]:
    params = {} if collection is None else {"collection": collection}
    response = client.get("/documents", params=params)
    assert response.status_code == 200, response.text
    return [document["source"] for document in response.json()["documents"]]


def names(client: httpx.Client) -> dict[str, int]:
    listed = client.get("/collections").json()["collections"]
    return {collection["name"]: collection["documents"] for collection in listed}


def problem(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return str(response.json()["detail"])


def files_in(state: Path) -> list[str]:
    uploads = state / "uploads"
    return sorted(str(f.relative_to(uploads)) for f in uploads.rglob("*") if f.is_file())


@pytest.mark.parametrize("workflow", ["rag", "self_crag"])
def test_a_question_sees_its_collection_alone(open_to_all: httpx.Client, workflow: str) -> None:
    lamp = asked(open_to_all, ABOUT_LAMP, workflow=workflow, collection="manuals")
    assert "whale oil" in lamp["answer"]
    run = open_to_all.get(f"/runs/{lamp['run_id']}").json()
    assert run["request"]["collection"] == "manuals"
    pump = asked(open_to_all, ABOUT_PUMP, workflow=workflow, collection="手册")
    assert "林德" in pump["answer"]
    for question, collection in ((ABOUT_LAMP, "手册"), (ABOUT_PUMP, "manuals"), (ABOUT_LAMP, None)):
        other = asked(open_to_all, question, workflow=workflow, collection=collection)
        assert "whale" not in other["answer"]
        assert "林德" not in other["answer"]
        assert {document["source"] for document in other["documents"]} <= {
            "手册": {"水泵.md"}, "manuals": {"lamp.md"}, None: set()
        }[collection]  # fmt: skip


def test_the_sample_is_searched_until_there_are_own_documents(tmp_path: Path) -> None:
    with Serving(create_app(settings_of(tmp_path))) as serving:
        client = serving.client
        assert found(client, ABOUT_LAMP) == set()
        upload(client, "lamp.md", LAMP, "sample")
        assert list(names(client)) == ["sample", "default"]
        assert sources(client) == ["lamp.md"]
        assert found(client, ABOUT_LAMP) == {"lamp.md"}

        upload(client, "水泵.md", PUMP, None)
        assert list(names(client)) == ["default", "sample"]
        assert found(client, ABOUT_LAMP) == {"水泵.md"}  # all there is, whatever is asked
        assert found(client, ABOUT_PUMP) == {"水泵.md"}
        assert found(client, ABOUT_LAMP, collection="sample") == {"lamp.md"}


def test_an_empty_collection_says_how_it_is_filled(open_to_all: httpx.Client) -> None:
    assert open_to_all.post("/collections", json={"name": "empty"}).status_code == 201
    (degraded,) = asked(open_to_all, ABOUT_LAMP, collection="empty")["degraded"]
    assert "selfcrag ingest --collection empty PATH" in degraded["reason"]
    assert open_to_all.delete("/collections/empty").status_code == 204


def test_other_protocols_name_collections_too(open_to_all: httpx.Client) -> None:
    chat: dict[str, Any] = {"model": "rag", "messages": [{"role": "user", "content": ABOUT_LAMP}]}
    for named in ({"collection": "manuals"}, {"metadata": {"collection": "manuals"}}):
        response = open_to_all.post("/v1/chat/completions", json={**chat, **named})
        assert "whale oil" in response.json()["choices"][0]["message"]["content"]
    assert "whale" not in open_to_all.post("/v1/chat/completions", json=chat).text
    unknown = open_to_all.post("/v1/chat/completions", json={**chat, "collection": "nope"})
    assert (unknown.status_code, "'nope'" in unknown.json()["error"]["message"]) == (404, True)
    message = {"role": "user", "parts": [{"type": "text", "text": ABOUT_LAMP}]}
    ui = {"id": "chat", "workflow": "rag", "messages": [message]}
    assert "whale oil" in open_to_all.post("/ask/ui", json={**ui, "collection": "manuals"}).text
    assert "whale" not in open_to_all.post("/ask/ui", json={**ui, "id": "other"}).text


def test_an_unknown_collection_is_told_with_those_there_are(open_to_all: httpx.Client) -> None:
    body = {"question": ABOUT_LAMP, "collection": "nope"}
    for response in (
        open_to_all.post("/ask", json=body),
        open_to_all.get("/documents", params={"collection": "nope"}),
        open_to_all.delete("/collections/nope"),
    ):
        assert "there are: default, manuals, 手册" in problem(response, 404)


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("e\u0301" * 64, "\u00e9" * 64), ("\u1112\u1161\u11ab" * 30, "\ud55c" * 30)],
    ids=["latin", "hangul"],
)
def test_a_name_is_measured_as_it_is_kept(open_to_all: httpx.Client, sent: str, kept: str) -> None:
    """Letters and their marks apart, as some systems write them."""
    made = open_to_all.post("/collections", json={"name": sent})
    assert (made.status_code, made.json()["name"]) == (201, kept)
    assert sources(open_to_all, sent) == []
    assert open_to_all.delete(f"/collections/{sent}").status_code == 204
    # One character that is two when composed.
    problem(open_to_all.post("/collections", json={"name": "\u0958" * 64}), 422)


@pytest.mark.parametrize("name", ["", ".hidden", "-x", "a/b", "a b", "'", "x" * 65, "a\n"])
def test_names_are_letters_and_digits(open_to_all: httpx.Client, name: str) -> None:
    form = {"data": {"collection": name}, "files": {"files": ("a.md", b"Words.")}}
    for response in (
        open_to_all.post("/ask", json={"question": ABOUT_LAMP, "collection": name}),
        open_to_all.post("/collections", json={"name": name}),
        open_to_all.get("/documents", params={"collection": name}),
        open_to_all.post("/documents", **form),
    ):
        problem(response, 422)


def test_the_same_file_in_two_collections_is_two_documents(
    open_to_all: httpx.Client, state: Path
) -> None:
    ids = [upload(open_to_all, "valve.md", f"Valve of {name}.", name)["id"] for name in "ab"]
    assert len(set(ids)) == 2
    assert upload(open_to_all, "valve.md", "Valve of a.", "a")["id"] == ids[0]
    assert [open_to_all.get(f"/documents/{id_}").json()["text"] for id_ in ids] == [
        *("Valve of a.", "Valve of b."),
    ]
    assert open_to_all.get(f"/documents/{ids[1]}").json()["collection"] == "b"
    assert open_to_all.delete(f"/documents/{ids[0]}").status_code == 204
    assert (sources(open_to_all, "b"), "a" in names(open_to_all)) == (["valve.md"], False)
    assert [file for file in files_in(state) if "valve" in file] == ["shared/.b/valve.md"]


def test_a_collection_goes_with_its_rows_and_files(open_to_all: httpx.Client, state: Path) -> None:
    for name in ("gate.md", "door.md"):
        upload(open_to_all, name, f"A {name}.", "to-go")
    kept = upload(open_to_all, "gate.md", "A gate that stays.", None)
    assert names(open_to_all)["to-go"] == 2
    assert open_to_all.delete("/collections/to-go").status_code == 204
    assert "to-go" not in names(open_to_all)
    problem(open_to_all.delete("/collections/to-go"), 404)
    assert not (state / "uploads/shared/.to-go").exists()
    assert "shared/gate.md" in files_in(state)
    assert open_to_all.delete("/collections/default").status_code == 204
    problem(open_to_all.get(f"/documents/{kept['id']}"), 404)
    assert "shared/gate.md" not in files_in(state)
    assert names(open_to_all)["default"] == 0
    assert "whale oil" in asked(open_to_all, ABOUT_LAMP, collection="manuals")["answer"]


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """Two keys of ann: one for everything, one for `manuals` and `手册` alone."""
    whole = key_of(tmp_path, "ann")
    limited = key_of(tmp_path, "ann", collections=["manuals", "手册", "manuals"])
    with Serving(create_app(settings_of(tmp_path))) as serving:
        clients = [
            httpx.Client(base_url=serving.url, headers={"x-api-key": key}, trust_env=False)
            for key in (whole, limited)
        ]
        with clients[0] as first, clients[1] as second:
            yield first, second


def test_a_limited_key_reaches_nothing_else(keyed: tuple[httpx.Client, httpx.Client]) -> None:
    ann, limited = keyed
    secret = upload(ann, "lamp.md", LAMP, "secret")
    plain = upload(ann, "plain.md", "Plain words.", None)
    assert names(limited) == {"manuals": 0, "手册": 0}
    assert (sources(limited), found(limited, ABOUT_LAMP)) == ([], set())
    for name in ("secret", "default", "never-was"):
        files = {"files": ("a.md", b"Words.")}
        for refused in (
            limited.post("/ask", json={"question": ABOUT_LAMP, "collection": name}),
            limited.get("/documents", params={"collection": name}),
            limited.post("/documents", data={"collection": name}, files=files),
            limited.post("/documents", params={"collection": name}, files=files),
            limited.post("/collections", json={"name": name}),
            limited.delete(f"/collections/{name}"),
        ):
            assert problem(refused, 403) == "This key is limited to the collections: manuals, 手册."
        chat = {"model": "rag", "messages": [{"role": "user", "content": ABOUT_LAMP}]}
        refused = limited.post("/v1/chat/completions", json={**chat, "collection": name})
        assert refused.status_code == 403
    for document in (secret, plain):
        for method in ("GET", "DELETE"):
            problem(limited.request(method, f"/documents/{document['id']}"), 404)
    assert sources(ann, "secret") == ["lamp.md"]


def test_a_limited_key_works_within_its_own(keyed: tuple[httpx.Client, httpx.Client]) -> None:
    ann, limited = keyed
    own = upload(limited, "lamp.md", LAMP, None)
    assert own["collection"] == "manuals"
    upload(limited, "水泵.md", PUMP, "手册")
    assert "whale oil" in asked(limited, ABOUT_LAMP)["answer"]
    assert "林德" in asked(limited, ABOUT_PUMP, collection="手册")["answer"]
    assert names(limited) == {"manuals": 1, "手册": 1}
    assert names(ann) == {"default": 0, "manuals": 1, "手册": 1}
    assert limited.get(f"/documents/{own['id']}").status_code == 200
    assert limited.delete("/collections/manuals").status_code == 204
    assert (names(limited), sources(limited)) == ({"manuals": 0, "手册": 1}, [])


def test_only_ones_own_documents_go(open_to_all: httpx.Client, tmp_path: Path) -> None:
    """What an owner deletes leaves the documents that are shared with everyone."""
    settings = settings_of(tmp_path)
    with Serving(create_app(settings)) as before:
        upload(before.client, "lamp.md", LAMP, "manuals")
    headers = {"x-api-key": key_of(tmp_path, "bob")}
    with Serving(create_app(settings)) as serving:
        bob = httpx.Client(base_url=serving.url, headers=headers, trust_env=False)
        assert "shared" in problem(bob.delete("/collections/manuals"), 403)
        upload(bob, "own.md", "Bob's own words.", "manuals")
        assert bob.delete("/collections/manuals").status_code == 204
        assert sources(bob, "manuals") == ["lamp.md"]
        bob.close()
    assert files_in(tmp_path) == ["shared/.manuals/lamp.md"]


async def test_keys_made_before_there_were_collections_are_not_limited(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    async with open_engine(settings) as engine:
        _, secret = await add_key(engine, "ann")
        async with engine.begin() as connection:
            for table in ("key_collections", "collections"):
                await connection.execute(text(f"DROP TABLE {table}"))
    async with open_engine(settings) as engine:
        assert (await KeyRing(engine).holder(secret)).collections == ()
        key, _ = await add_key(engine, "bob", collections=["手册", "a"])
        assert key.collections == ("手册", "a")
        assert [each.collections for each in await list_keys(engine)] == [(), ("手册", "a")]


@dataclass
class Noting(FakeRetriever):
    """Notes whose documents are searched; where it hangs, no search ends."""

    hangs: bool = False
    is_there: asyncio.Event = field(default_factory=asyncio.Event)

    async def retrieve(self, query: str, k: int, search: Search | None = None) -> Sequence[Passage]:
        found = await super().retrieve(query, k, search)
        self.is_there.set()
        if self.hangs:
            await asyncio.Event().wait()
        return found

    @property
    def scopes(self) -> set[Scope]:
        return {search.scope for search in self.searches if search}


async def test_a_run_that_is_resumed_keeps_its_owner_and_collection(tmp_path: Path) -> None:
    killed, later = Noting([TOWER], hangs=True), Noting([TOWER])
    async with opened(tmp_path) as (store, engine), opened(tmp_path) as (other, _):
        former = runs_of(Halting(), store, killed)
        latter = runs_of(Halting(), other, later)
        scope = Scope("ann", ("手册",))
        await begun(former, ABOUT_LAMP, scope, detach=True)
        await killed.is_there.wait()
        await gone(engine, store)
        (resumed,) = await latter.take_over(1)
        await resumed.all_events()
        assert killed.scopes == later.scopes == {scope}
        assert resumed.record.owner == "ann"
        await former.aclose()
        await latter.aclose()
