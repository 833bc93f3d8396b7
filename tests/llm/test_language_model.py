"""A small language model, real, behind llama.cpp's server: what it cannot do degrades in words."""

import time
from collections.abc import Iterator

import pytest
from langchain_core.messages import HumanMessage

from app.llm.provider_chat import provider_chat
from benchmarks.language_model import Client, figures_of, page, rows_of_all
from benchmarks.service.process import serving
from tests.app.knowledge import write_pages
from tests.app.serving import wait_until
from tests.loopback.llama import MODEL, Llama, llama
from tests.loopback.server import free_port

pytestmark = pytest.mark.llm
DEADLINE_MS = 15_000
PARTS = ("ingest", "writer", "critic", "llm_direct", "fallback")
IDLE_WITHIN_S = 10.0
"""Two on an idle machine; it stops between two batches of what it reads."""
ENGLISH, CHINESE = "How tall is the red tower of Umbra?", "乌木城的红塔有多高？"


@pytest.fixture(scope="module")
def server() -> Iterator[Llama]:
    with llama() as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Llama, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Of a service in which this model writes."""
    folder, port = tmp_path_factory.mktemp("service"), free_port()
    write_pages(folder / "docs")
    chat = f"openai:{MODEL}@{server.base_url}"
    (folder / "state").mkdir()
    with serving(folder / "state", port, [folder / "docs"], generator="chat", chat_model=chat):
        client = Client(f"http://127.0.0.1:{port}", "writer", DEADLINE_MS)
        with client.http:
            yield client


def test_every_part_works_or_another_stands_in(server: Llama) -> None:
    rows = list(
        rows_of_all(server.base_url, MODEL, deadline_ms=DEADLINE_MS, parts=PARTS, languages=["en"])
    )

    assert [row for row in rows if row.state == "fails"] == []
    assert {row.part for row in rows} == set(PARTS)
    assert all(row.reason for row in rows if row.part == "fallback")
    plain = [row for row in rows if row.task == "answer of rag"]
    assert any(row.has_fact for row in plain)
    assert all(row.cited for row in rows if row.task == "answer of self_crag" and row.has_fact)
    assert f"Of {len(rows)} tasks" in page(figures_of(rows, MODEL))


def test_usage_is_what_the_endpoint_counted(server: Llama, client: Client) -> None:
    wait_until(server.is_idle, 30)
    read, written = server.tokens()
    row = client.ask("usage", "en", ENGLISH, workflow="rag", options={"deadline_ms": 60_000})
    wait_until(server.is_idle, IDLE_WITHIN_S)

    assert (row.calls, row.state) == (1, "works")
    assert (read + row.input_tokens, written + row.output_tokens) == server.tokens()


def test_in_a_language_it_does_not_know_it_is_stopped(server: Llama, client: Client) -> None:
    row = client.ask("Chinese", "zh", CHINESE, workflow="self_crag", options={"max_critic": 1})

    assert row.state != "fails"
    assert row.seconds < DEADLINE_MS / 1000 + 5
    assert row.calls <= 2
    wait_until(server.is_idle, IDLE_WITHIN_S)


def test_a_client_that_leaves_stops_the_model(server: Llama, client: Client) -> None:
    body = {"question": CHINESE, "stream": True, "workflow": "rag"}  # it writes long of these
    with client.http.stream("POST", "/ask", json=body) as it:
        next(line for line in it.iter_lines() if line == "event: token")
        assert not server.is_idle()
    wait_until(server.is_idle, IDLE_WITHIN_S)


async def test_a_model_by_its_provider_writes(server: Llama) -> None:
    chat = provider_chat(f"openai:{MODEL}", api_key="none", base_url=server.base_url, max_tokens=20)
    start = time.monotonic()
    chunks = [chunk async for chunk in chat.astream([HumanMessage("Say hello.")])]
    assert len([chunk for chunk in chunks if chunk.text]) > 1
    assert time.monotonic() - start < DEADLINE_MS / 1000
