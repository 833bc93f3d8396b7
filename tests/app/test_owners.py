"""What one owner keeps another never sees: every route, gone through with two keys."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.settings import Settings
from app.storage.api_keys import add_key
from app.storage.database import open_engine
from tests.app.serving import Serving

MINE = "# Lamps\n\nThe lamp of Arbor burns whale oil.\n"
ABOUT_MINE = "What does the lamp of Arbor burn?"
NOWHERE = "0" * 32


@dataclass(frozen=True)
class Kept:
    """What ann left behind."""

    run_id: str
    thread_id: str
    document_id: str
    collection: str = "apart"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    state = tmp_path_factory.mktemp("owners")
    return Settings(_env_file=None, data_dir=state, search="off")


@pytest.fixture(scope="module")
def owners(settings: Settings) -> Iterator[tuple[Serving, httpx.Client, httpx.Client]]:
    async def key_of(owner: str) -> str:
        async with open_engine(settings) as engine:
            return (await add_key(engine, owner))[1]

    def client(serving: Serving, secret: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {secret}"}
        return httpx.Client(base_url=serving.url, headers=headers, timeout=60, trust_env=False)

    keys = [asyncio.run(key_of(owner)) for owner in ("ann", "bob")]
    with (
        Serving(create_app(settings)) as serving,
        client(serving, keys[0]) as ann,
        client(serving, keys[1]) as bob,
    ):
        yield serving, ann, bob


def asked(client: httpx.Client, question: str, **more: Any) -> dict[str, Any]:
    response = client.post("/ask", json={"question": question, "workflow": "rag", **more})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.fixture(scope="module")
def kept(owners: tuple[Serving, httpx.Client, httpx.Client]) -> Kept:
    _, ann, _ = owners
    uploaded = ann.post("/documents", files=[("files", ("lamps.md", MINE.encode()))])
    assert uploaded.status_code == 200, uploaded.text
    (document,) = uploaded.json()["report"]["documents"]
    apart = ann.post("/documents?collection=apart", files=[("files", ("b.md", b"A secret."))])
    assert apart.status_code == 200, apart.text
    answer = asked(ann, ABOUT_MINE, thread_id="anns-thread")
    assert "whale oil" in answer["answer"]
    return Kept(answer["run_id"], "anns-thread", document["id"])


def calls(
    run_id: str, other_id: str, thread_id: str, document_id: str, collection: str = "none"
) -> list[httpx.Request]:
    """Every route that names something kept."""

    def call(method: str, path: str, json: Any = None) -> httpx.Request:
        return httpx.Request(method, f"http://unused{path}", json=json)

    return [
        call("GET", f"/runs/{run_id}"),
        call("GET", f"/runs/{run_id}/events"),
        call("POST", f"/runs/{run_id}/cancel"),
        call("POST", f"/runs/{run_id}/feedback", {"score": 1}),
        call("GET", f"/runs/{run_id}/diff/{other_id}"),
        call("GET", f"/runs/{other_id}/diff/{run_id}"),
        call("GET", f"/threads/{thread_id}"),
        call("DELETE", f"/threads/{thread_id}"),
        call("GET", f"/documents/{document_id}"),
        call("DELETE", f"/documents/{document_id}"),
        call("DELETE", f"/collections/{collection}"),
    ]


def sent(client: httpx.Client, call: httpx.Request) -> httpx.Response:
    headers = {"content-type": "application/json"} if call.content else {}
    return client.request(call.method, call.url.path, content=call.content, headers=headers)


def test_every_route_with_an_id_is_gone_through(
    owners: tuple[Serving, httpx.Client, httpx.Client],
) -> None:
    paths = owners[0].app.openapi()["paths"]
    named = [
        (method.upper(), path)
        for path, methods in paths.items()
        for method in methods
        if "{" in path and not path.startswith("/v1/")
    ]
    tried = {(call.method, call.url.path.count("/")) for call in calls("r", "o", "t", "d")}
    assert {(method, path.count("/")) for method, path in named} == tried
    assert len(named) == len(calls("r", "o", "t", "d")) - 1, "the comparison is tried both ways"


def test_anothers_is_as_unknown_as_what_never_was(
    owners: tuple[Serving, httpx.Client, httpx.Client], kept: Kept
) -> None:
    _, ann, bob = owners
    own = asked(bob, "What is a tower?")["run_id"]
    theirs = calls(kept.run_id, own, kept.thread_id, kept.document_id, kept.collection)
    nobodys = calls(NOWHERE, own, "no-such-thread", NOWHERE)
    for call, unknown in zip(theirs, nobodys, strict=True):
        refused, never_was = sent(bob, call), sent(bob, unknown)
        assert refused.status_code == never_was.status_code == 404, call.url.path
        assert refused.headers["content-type"] == "application/problem+json"
        for one, value in ((refused, kept), (never_was, Kept(NOWHERE, "no-such-thread", NOWHERE))):
            assert one.json()["title"] == "Not found"
            assert "ann" not in one.text.replace(value.thread_id, "")
    for path in (f"/runs/{kept.run_id}", f"/threads/{kept.thread_id}"):
        assert ann.get(path).status_code == 200, "nothing was taken away"
    assert '"apart"' in ann.get("/collections").text
    assert '"apart"' not in bob.get("/collections").text


def test_lists_hold_ones_own(
    owners: tuple[Serving, httpx.Client, httpx.Client], kept: Kept
) -> None:
    _, ann, bob = owners
    assert kept.run_id in ann.get("/runs").text
    assert kept.run_id not in bob.get("/runs").text
    assert bob.get("/runs", params={"thread_id": kept.thread_id}).json()["total"] == 0
    assert kept.document_id in ann.get("/documents").text
    assert kept.document_id not in bob.get("/documents").text
    assert bob.get("/documents", params={"q": "lamps"}).json()["total"] == 0


@pytest.mark.parametrize("workflow", ["rag", "crag", "self_rag", "self_crag"])
def test_questions_find_ones_own_documents_never_anothers(
    owners: tuple[Serving, httpx.Client, httpx.Client], kept: Kept, workflow: str
) -> None:
    _, ann, bob = owners
    found = [
        {document["id"] for document in asked(who, ABOUT_MINE, workflow=workflow)["documents"]}
        for who in (ann, bob)
    ]
    told = [asked(who, ABOUT_MINE, workflow=workflow)["answer"] for who in (ann, bob)]
    assert found[0]
    assert not found[0] & found[1]
    assert "whale" not in told[1]


def test_other_protocols_keep_owners_apart(
    owners: tuple[Serving, httpx.Client, httpx.Client], kept: Kept
) -> None:
    _, ann, bob = owners
    chat = {"model": "rag", "messages": [{"role": "user", "content": ABOUT_MINE}]}
    ui = {
        "id": "bobs-chat",
        "workflow": "rag",
        "messages": [{"role": "user", "parts": [{"type": "text", "text": ABOUT_MINE}]}],
    }
    assert "whale oil" in ann.post("/v1/chat/completions", json=chat).text
    assert "whale" not in bob.post("/v1/chat/completions", json=chat).text
    assert "whale oil" in ann.post("/ask/ui", json={**ui, "id": "anns-chat"}).text
    assert "whale" not in bob.post("/ask/ui", json=ui).text


def test_a_thread_of_the_same_name_is_anothers(
    owners: tuple[Serving, httpx.Client, httpx.Client], kept: Kept
) -> None:
    """A guessed name neither reads nor continues what another said, nor tells that it is there."""
    _, ann, bob = owners
    before = ann.get(f"/threads/{kept.thread_id}").json()["messages"]
    response = bob.post("/ask", json={"question": "And then?", "thread_id": kept.thread_id})
    assert response.status_code in {200, 404}
    assert "whale" not in response.text
    assert ann.get(f"/threads/{kept.thread_id}").json()["messages"] == before
