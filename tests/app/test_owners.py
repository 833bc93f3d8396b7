"""Access matrix: every operation with no key, wrong keys, each scope and two owners."""

import asyncio
import hashlib
import logging
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from app.main import create_app
from app.protocols.messages import DialogueTurn, question_of
from app.settings import Settings
from app.storage.api_keys import SCOPES, add_key, revoke_key
from app.storage.database import open_engine
from app.storage.signed_addresses import AddressSigner
from tests.app.pictures import drawn, encoded
from tests.app.serving import Serving, wait_until

MINE = "# Lamps\n\nThe lamp of Arbor burns whale oil.\n"
ABOUT_MINE = "What does the lamp of Arbor burn?"
NOWHERE = "0" * 32


@dataclass(frozen=True)
class Kept:
    """What ann left behind."""

    run_id: str
    thread_id: str
    document_id: str
    image_id: str
    collection: str = "apart"
    model: str = "rag"
    response_id: str = f"resp_{NOWHERE}"
    evaluation_id: str = NOWHERE


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    state = tmp_path_factory.mktemp("owners")
    return Settings(_env_file=None, data_dir=state, search="off")


@dataclass(frozen=True)
class Owners:
    """ann and bob may do everything; `secrets` are ann's keys of one scope each."""

    serving: Serving
    ann: httpx.Client
    bob: httpx.Client
    secrets: dict[str, str]
    revoked: str
    signing: dict[str, tuple[str, str]]
    """Ids and secrets of keys."""


def client_of(serving: Serving, secret: str | None) -> httpx.Client:
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    return httpx.Client(
        base_url=serving.url, headers=headers, timeout=60, trust_env=False, verify=False
    )


@pytest.fixture(scope="module")
def owners(settings: Settings) -> Iterator[Owners]:
    async def keys() -> dict[str, tuple[str, str]]:
        async with open_engine(settings) as engine:
            made = {owner: await add_key(engine, owner) for owner in ("ann", "bob")}
            made |= {it: await add_key(engine, "ann", scopes=[it]) for it in SCOPES}
            made["revoked"] = await add_key(engine, "ann")
            await revoke_key(engine, made["revoked"][0].id)
            return {name: (key.id, secret) for name, (key, secret) in made.items()}

    made = asyncio.run(keys())
    secrets = {name: secret for name, (_, secret) in made.items()}
    with (
        Serving(create_app(settings)) as serving,
        client_of(serving, secrets["ann"]) as ann,
        client_of(serving, secrets["bob"]) as bob,
    ):
        alone = {scope: secrets[scope] for scope in SCOPES}
        yield Owners(serving, ann, bob, alone, secrets["revoked"], made)


def asked(client: httpx.Client, question: str, **more: Any) -> dict[str, Any]:
    response = client.post("/ask", json={"question": question, "workflow": "rag", **more})
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


@pytest.fixture(scope="module")
def kept(owners: Owners) -> Kept:
    ann = owners.ann
    picture = ("files", ("quay.png", encoded(drawn(1))))
    uploaded = ann.post("/documents", files=[picture, ("files", ("lamps.md", MINE.encode()))])
    assert uploaded.status_code == 200, uploaded.text
    document, shown = uploaded.json()["report"]["documents"]
    (block,) = ann.get(f"/documents/{shown['id']}").json()["blocks"]
    apart = ann.post("/documents?collection=apart", files=[("files", ("b.md", b"A secret."))])
    assert apart.status_code == 200, apart.text
    answer = asked(ann, ABOUT_MINE, thread_id="anns-thread")
    assert "whale oil" in answer["answer"]
    response = ann.post("/v1/responses", json=RESPONSE).json()["id"]
    begun = evaluated(ann)
    return Kept(
        answer["run_id"],
        "anns-thread",
        document["id"],
        block["id"],
        response_id=response,
        evaluation_id=begun,
    )


def evaluated(client: httpx.Client) -> str:
    begun = str(client.post("/evaluations", json=EVALUATION).json()["evaluation_id"])
    wait_until(lambda: client.get(f"/evaluations/{begun}").json()["status"] == "done", 60)
    return begun


@dataclass(frozen=True)
class Access:
    """What an operation asks of a key, and a request that it takes; `{}` are filled by `kept`."""

    scopes: tuple[str, ...] = ("ask",)
    json: Any = None
    files: Any = None
    is_owned: bool = False
    query: str = ""

    def send(
        self, client: httpx.Client, operation: str, ids: Kept, other_id: str
    ) -> httpx.Response:
        method, path = operation.split()
        filled = f"{path}{self.query}".format(**{**asdict(ids), "other_id": other_id})
        return client.request(method, filled, json=self.json, files=self.files)


CHAT = {"model": "rag", "messages": [{"role": "user", "content": ABOUT_MINE}]}
QUAY = [{"role": "user", "content": "Show me the quay"}]
RESPONSE = {"model": "rag", "input": ABOUT_MINE}
UI = {
    "id": "a-chat",
    "workflow": "rag",
    "messages": [{"role": "user", "parts": [{"type": "text", "text": ABOUT_MINE}]}],
}
UPLOAD = [("files", ("quays.md", b"# Quays\n\nThe quay of Arbor is long."))]
LANGGRAPH_RUN = {
    "assistant_id": "rag",
    "input": {"messages": [{"role": "user", "content": ABOUT_MINE}]},
}
EVALUATION = {
    "questions": [{"question": ABOUT_MINE}],
    "variants": [{"name": "rag", "workflow": "rag"}],
}
OWN, OWN_DOCUMENT = Access(is_owned=True), Access(("documents",), is_owned=True)
MATRIX = {
    "GET /health/live": Access(()),
    "GET /health/ready": Access(()),
    "GET /metrics": Access(("metrics",)),
    "GET /workflows": Access(),
    "GET /v1/models": Access(),
    "GET /v1/models/{model}": Access(),
    "POST /ask": Access(json={"question": ABOUT_MINE, "workflow": "rag"}),
    "POST /search": Access(json={"question": ABOUT_MINE}),
    "POST /ask/ui": Access(json=UI),
    "GET /ask/ui/{thread_id}/stream": Access(),
    "POST /v1/chat/completions": Access(json=CHAT),
    "POST /v1/responses": Access(json=RESPONSE),
    "GET /v1/responses/{response_id}": OWN,
    "POST /v1/responses/{response_id}/cancel": OWN,
    "POST /v1/embeddings": Access(json={"model": "embedder", "input": ABOUT_MINE}),
    "GET /runs": Access(),
    "GET /runs/{run_id}": OWN,
    "GET /runs/{run_id}/events": OWN,
    "GET /runs/{run_id}/prompts": OWN,
    "POST /runs/{run_id}/cancel": OWN,
    "POST /runs/{run_id}/feedback": Access(json={"score": 1}, is_owned=True),
    "POST /runs/{run_id}/fork": Access(json={"step": "retrieve"}, is_owned=True),
    "GET /runs/{run_id}/diff/{other_id}": OWN,
    "GET /threads/{thread_id}": OWN,
    "GET /documents": Access(("documents",)),
    "POST /documents": Access(("documents",), files=UPLOAD),
    "GET /documents/{document_id}": OWN_DOCUMENT,
    "GET /images/{image_id}": OWN,
    "GET /collections": Access(("ask", "documents")),
    "POST /collections": Access(("documents",), json={"name": "more"}),
    "POST /assistants/search": Access(json={}),
    "GET /assistants/{model}": Access(),
    "GET /assistants/{model}/graph": Access(),
    "POST /threads": Access(json={}),
    "GET /threads/{thread_id}/state": OWN,
    "POST /threads/{thread_id}/state/checkpoint": Access(json={}, is_owned=True),
    "POST /threads/{thread_id}/history": Access(json={}, is_owned=True),
    "GET /threads/{thread_id}/runs": Access(),
    "GET /threads/{thread_id}/runs/{run_id}": OWN,
    "GET /threads/{thread_id}/runs/{run_id}/join": OWN,
    "GET /threads/{thread_id}/runs/{run_id}/stream": OWN,
    "POST /threads/{thread_id}/runs/{run_id}/cancel": OWN,
    "POST /runs/wait": Access(json=LANGGRAPH_RUN),
    "POST /runs/stream": Access(json=LANGGRAPH_RUN),
    "POST /runs": Access(json=LANGGRAPH_RUN),
    "POST /threads/{thread_id}/runs/wait": Access(json=LANGGRAPH_RUN, is_owned=True),
    "POST /threads/{thread_id}/runs/stream": Access(json=LANGGRAPH_RUN, is_owned=True),
    "POST /threads/{thread_id}/runs": Access(json=LANGGRAPH_RUN, is_owned=True),
    "POST /evaluations": Access(json=EVALUATION),
    "GET /evaluations": Access(),
    "GET /evaluations/{evaluation_id}": OWN,
    "GET /evaluations/{evaluation_id}/report": OWN,
    "GET /evaluations/{evaluation_id}/comparison": Access(
        is_owned=True, query="?baseline={evaluation_id}"
    ),
    "POST /evaluations/{evaluation_id}/cancel": OWN,
    # What takes away goes last.
    "DELETE /evaluations/{evaluation_id}": OWN,
    "DELETE /v1/responses/{response_id}": OWN,
    "DELETE /threads/{thread_id}": OWN,
    "DELETE /documents/{document_id}": OWN_DOCUMENT,
    "DELETE /collections/{collection}": OWN_DOCUMENT,
}
"""All operations, and the scopes any of which is enough; none where nobody is asked for a key."""
OWNED = {operation: access for operation, access in MATRIX.items() if access.is_owned}
COMPARED = "GET /runs/{run_id}/diff/{other_id}"


NAMES = {
    "collections/{name}": "collections/{collection}",
    "models/{name}": "models/{model}",
    "{assistant_id}": "{model}",
    "{chat_id}": "{thread_id}",
}
"""What paths call that which `Kept` has."""
PAGE = {"/", "/page", "/docs"}


def routes_of(app: FastAPI) -> Iterator[BaseRoute]:
    for route in app.routes:
        yield from route.original_router.routes if hasattr(route, "original_router") else [route]


def test_the_matrix_holds_every_operation(owners: Owners) -> None:
    """A new route stands in no row: it is added with what it asks of a key."""
    operations, others = set[str](), set[str]()
    for route in routes_of(owners.serving.app):
        path = str(getattr(route, "path", ""))
        if isinstance(route, APIRoute):
            for name, own in NAMES.items():
                path = path.replace(name, own)
            operations |= {f"{method} {path}" for method in route.methods if path not in PAGE}
        else:
            others.add(path)
    assert operations == set(MATRIX)
    for path in others - PAGE:
        assert owners.serving.client.get(path).status_code == 401, path
        assert owners.serving.client.post(path).status_code == 401, path


def test_every_operation_asks_for_a_key_of_its_scope(owners: Owners, kept: Kept) -> None:
    """Operation by operation with no key, wrong ones, and a key of each scope alone."""
    serving, wrong = owners.serving, list[tuple[str, str, int]]()
    refused = {"none": None, "false": "scrag_false", "revoked": owners.revoked}
    for operation, access in MATRIX.items():
        may = bool(access.scopes)
        expected = dict.fromkeys(refused, 401 if may else 200)
        expected |= {it: 403 for it in SCOPES if may and it not in access.scopes}
        for name, status in expected.items():
            with client_of(serving, refused.get(name, owners.secrets.get(name))) as client:
                told = access.send(client, operation, kept, kept.run_id)
            if told.status_code != status:
                wrong.append((operation, name, told.status_code))
    assert wrong == []


def test_anothers_is_as_unknown_as_what_never_was(owners: Owners, kept: Kept) -> None:
    ann, bob = owners.ann, owners.bob
    own = asked(bob, "What is a tower?")["run_id"]
    nobodys = Kept(NOWHERE, "no-such-thread", NOWHERE, NOWHERE, "none")
    tried = [(operation, access, operation) for operation, access in OWNED.items()]
    tried.append((COMPARED, OWN, "GET /runs/{other_id}/diff/{run_id}"))
    for _, access, operation in tried:
        refused = access.send(bob, operation, kept, own)
        never_was = access.send(bob, operation, nobodys, own)
        assert refused.status_code == never_was.status_code == 404, operation
        is_openai = "/v1/" in operation
        kind = "application/json" if is_openai else "application/problem+json"
        assert refused.headers["content-type"] == kind
        for one, value in ((refused, kept), (never_was, nobodys)):
            told = one.json()
            found = told["error"]["code"] if is_openai else told["title"]
            assert found == ("not_found" if is_openai else "Not found")
            assert "ann" not in one.text.replace(value.thread_id, "")
    bobs = evaluated(bob)
    for part in ("comparison", "report"):
        held = bob.get(f"/evaluations/{bobs}/{part}?baseline={kept.evaluation_id}")
        assert held.status_code == 404, "another's baseline"
    for path in (f"/runs/{kept.run_id}", f"/threads/{kept.thread_id}"):
        assert ann.get(path).status_code == 200, "nothing was taken away"
    assert '"apart"' in ann.get("/collections").text
    assert '"apart"' not in bob.get("/collections").text


def test_lists_hold_ones_own(owners: Owners, kept: Kept) -> None:
    ann, bob = owners.ann, owners.bob
    assert kept.run_id in ann.get("/runs").text
    assert kept.run_id not in bob.get("/runs").text
    assert bob.get("/runs", params={"thread_id": kept.thread_id}).json()["total"] == 0
    assert kept.document_id in ann.get("/documents").text
    assert kept.document_id not in bob.get("/documents").text
    assert bob.get("/documents", params={"q": "lamps"}).json()["total"] == 0
    assert len(ann.get(f"/threads/{kept.thread_id}/runs").json()) == 1
    assert bob.get(f"/threads/{kept.thread_id}/runs").json() == []


@pytest.mark.parametrize("workflow", ["rag", "crag", "self_rag", "self_crag"])
def test_questions_find_ones_own_documents_never_anothers(
    owners: Owners, kept: Kept, workflow: str
) -> None:
    ann, bob = owners.ann, owners.bob
    found = [
        {document["id"] for document in asked(who, ABOUT_MINE, workflow=workflow)["documents"]}
        for who in (ann, bob)
    ]
    told = [asked(who, ABOUT_MINE, workflow=workflow)["answer"] for who in (ann, bob)]
    assert found[0]
    assert not found[0] & found[1]
    assert "whale" not in told[1]


def test_other_protocols_keep_owners_apart(owners: Owners, kept: Kept) -> None:
    ann, bob = owners.ann, owners.bob
    assert "whale oil" in ann.post("/v1/chat/completions", json=CHAT).text
    assert "whale" not in bob.post("/v1/chat/completions", json=CHAT).text
    assert "whale oil" in ann.post("/ask/ui", json={**UI, "id": "anns-chat"}).text
    assert "whale" not in bob.post("/ask/ui", json={**UI, "id": "bobs-chat"}).text


def test_a_thread_of_the_same_name_is_anothers(owners: Owners, kept: Kept) -> None:
    """A guessed name neither reads nor continues what another said, nor tells that it is there."""
    ann, bob = owners.ann, owners.bob
    before = ann.get(f"/threads/{kept.thread_id}").json()["messages"]
    response = bob.post("/ask", json={"question": "And then?", "thread_id": kept.thread_id})
    assert response.status_code in {200, 404}
    assert "whale" not in response.text
    assert bob.post("/threads", json={"thread_id": kept.thread_id}).status_code == 404
    assert ann.get(f"/threads/{kept.thread_id}").json()["messages"] == before


def test_a_signed_address_shows_one_image_of_its_owner_for_a_while(
    owners: Owners, kept: Kept
) -> None:
    """What chat frontends load without a key: bound to image, key and time, and never logged."""
    ann, bob = owners.ann, owners.bob
    shown = ann.post("/v1/chat/completions", json={**CHAT, "model": "illustrate", "messages": QUAY})
    address = shown.json()["choices"][0]["message"]["content"].partition("](")[2].removesuffix(")")
    path = f"/images/{kept.image_id}"
    assert address.startswith(f"{owners.serving.url}{path}?expires=")
    query = address.partition("?")[2]
    in_an_hour = time.time() + 3600

    def signed(key: tuple[str, str], until: float = in_an_hour, to: str = path) -> str:
        digest = hashlib.sha256(key[1].encode()).hexdigest()
        return f"{to}?{AddressSigner(key[0], digest).query(to, until)}"

    keys, other = owners.signing, f"{path[:-1]}9"
    with client_of(owners.serving, None) as nobody:
        loaded = nobody.get(address)
        assert (loaded.status_code, loaded.content) == (200, ann.get(path).content)
        assert loaded.headers["cache-control"].startswith("private")
        assert nobody.get(signed(keys["ann"])).status_code == 200
        for refused, status in {
            path: 401,
            f"{other}?{query}": 401,
            signed(keys["ann"], to=other).replace(other, path): 401,
            signed(keys["ann"], to=f"/documents/{kept.document_id}"): 401,
            f"{path}?{query[:-1]}{'10'[query[-1] == '1']}": 401,
            f"{path}?{query.replace('expires=', 'expires=1')}": 401,
            signed(keys["ann"], time.time() - 2): 401,
            signed((keys["bob"][0], keys["ann"][1])): 401,
            signed(keys["revoked"]): 401,
            signed(keys["documents"]): 403,
            signed(keys["bob"]): 404,
        }.items():
            assert nobody.get(refused).status_code == status, refused
            assert nobody.get(refused).content != loaded.content
        assert nobody.post("/ask", params=query, json={"question": ABOUT_MINE}).status_code == 401
    assert bob.get(address).status_code == 404, "a key that is sent is the one that counts"

    access = logging.getLogger("uvicorn.access")
    told = ("127.0.0.1:1", "GET", address.removeprefix(owners.serving.url), "1.1", 200)
    line = access.makeRecord("", 20, "", 1, '%s - "%s %s HTTP/%s" %d', told, None).getMessage()
    secret = query.rpartition("=")[2]
    assert (path in line, secret in line) == (True, False)
    again = [DialogueTurn("assistant", f"![Quay]({address})", "", set())]
    again.append(DialogueTurn("user", "Why?", "", set()))
    assert question_of(again)["history"][0]["content"] == f"![Quay]({owners.serving.url}{path})"


def test_ones_own_key_with_the_scope_alone_is_let_in(owners: Owners, kept: Kept) -> None:
    """The last of all, for it deletes: what no owner may do would pass for what others may not."""
    wrong = list[tuple[str, str, int]]()
    for operation, access in MATRIX.items():
        for scope in access.scopes:
            with client_of(owners.serving, owners.secrets[scope]) as client:
                told = access.send(client, operation, kept, kept.run_id)
            if not (told.is_success or told.status_code == 409):  # of its own run under way
                wrong.append((operation, scope, told.status_code))
    assert wrong == []
