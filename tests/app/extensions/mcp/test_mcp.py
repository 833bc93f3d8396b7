"""The official MCP client against the service, over streamable HTTP and over stdio."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from app.main import create_app
from app.settings import Settings
from app.storage.api_keys import add_key
from app.storage.database import open_engine
from tests import fakes
from tests.app.conftest import NOWHERE
from tests.app.knowledge import copied
from tests.app.processes import BIN, environment
from tests.app.serving import GONE_WITHIN_S, Serve, Serving, wait_until
from tests.umbra import CHINESE, ENGLISH

ERAS = pytest.mark.parametrize("era", ["auto", pytest.param("legacy", marks=pytest.mark.slow)])


def client_of(serving: Serving, era: str = "auto") -> AbstractAsyncContextManager[Client]:
    return Client(f"{serving.url}/mcp", mode=era)


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def opened(serving: Serving, key: str = "none") -> str:
    """The id of a new session."""
    headers = {**ACCEPT, "Authorization": f"Bearer {key}"}
    answer = serving.client.post("/mcp", json=INITIALIZE, headers=headers)
    return answer.headers["mcp-session-id"]


async def uses_all(client: Client) -> None:
    """Every tool and resource, in both languages."""
    steps = list[str]()

    async def progress(_: float, __: float | None, message: str | None) -> None:
        steps.append(message or "")

    for question, words in ((ENGLISH, "87"), (CHINESE, "八十七")):
        arguments = {"question": question, "options": {"retrieve_k": 3}}
        asked: Any = await client.call_tool("ask", arguments, progress_callback=progress)
        text, *links = asked.content
        assert words in asked.structured_content["answer"]
        assert asked.structured_content["citations"][0]["source"].endswith("tower.md")
        assert "\n\n[1] " in text.text
        read = await client.read_resource(links[0].uri)
        assert words in read.contents[0].text  # type: ignore[union-attr]
    assert any("knowledge base" in step for step in steps)
    assert any("检索知识库" in step for step in steps)
    found: Any = await client.call_tool("search", {"question": ENGLISH})
    assert found.structured_content["action"] == "correct"
    assert "87" in found.structured_content["passages"][0]["text"]
    assert "[1] " in found.content[0].text


@ERAS
async def test_an_assistant_asks_over_http(service: Serving, era: str) -> None:
    async with client_of(service, era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"ask", "search", "ingest"}
        assert tools["search"].annotations.read_only_hint  # type: ignore[union-attr]
        await uses_all(client)
        listed = (await client.list_resources()).resources
        assert {"en/tower.md", "zh/tower.md"} <= {
            "/".join(resource.name.split("/")[-2:]) for resource in listed
        }
        for name, arguments, words in (
            ("ask", {"question": " "}, "question"),
            ("ask", {"question": "a", "workflow": "none"}, "built are"),
            ("search", {"question": "a", "collection": "gone"}, "gone"),
            ("ingest", {"name": "a.md"}, "either as text or as base64"),
        ):
            failed: Any = await client.call_tool(name, arguments)
            assert (failed.is_error, words in failed.content[0].text) == (True, True), failed
        with pytest.raises(MCPError, match="no document"):
            await client.read_resource("selfcrag://documents/none")


@ERAS
async def test_a_call_that_is_cancelled_ends_its_run(slow: Serving, era: str) -> None:
    waiting = slow.app.state.services.retriever.waiting
    async with client_of(slow, era) as client:
        for tool in ("ask", "search"):
            call = asyncio.create_task(client.call_tool(tool, {"question": ENGLISH}))
            before = len(waiting.at_s)
            await asyncio.to_thread(wait_until, lambda n=before: len(waiting.at_s) > n, 10)
            call.cancel()
            await asyncio.to_thread(wait_until, lambda: not slow.runs_under_way(), GONE_WITHIN_S)
            assert len(waiting.left_s) == len(waiting.at_s)
            with pytest.raises(asyncio.CancelledError):
                await call


def test_open_sessions_hold_up_no_stop(serve: Serve) -> None:
    serving = serve(fakes.services())
    session = opened(serving)
    headers = {"Accept": "text/event-stream", "Mcp-Session-Id": session}
    with serving.client.stream("GET", "/mcp", headers=headers) as stream:
        assert stream.status_code == 200
        assert serving.stop() < 3


@pytest.mark.slow
async def test_keys_scopes_and_sessions_are_kept_apart(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path, search="off")
    async with open_engine(settings) as engine:
        anns = (await add_key(engine, "ann"))[1]
        bobs = (await add_key(engine, "bob"))[1]
        asks = (await add_key(engine, "ann", scopes=["ask"]))[1]
    document = {"name": "lamps.md", "text": "# Lamps\n\nThe lamp of Arbor burns whale oil.\n"}
    about = {"question": "What does the lamp of Arbor burn?"}

    async def as_owner(key: str, use: Callable[[Client], Awaitable[None]]) -> None:
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            transport = streamable_http_client(f"{serving.url}/mcp", http_client=http)
            async with Client(transport, mode="legacy") as client:
                await use(client)

    async def ann(client: Client) -> None:
        added: Any = await client.call_tool("ingest", document)
        assert added.structured_content["outcome"] == "added"
        answer: Any = await client.call_tool("ask", about)
        assert "whale oil" in answer.content[0].text
        binary: Any = await client.call_tool("ingest", {"name": "a.pdf", "base64": "eA=="})
        assert binary.is_error
        assert "damaged PDF" in binary.content[0].text

    async def bob(client: Client) -> None:
        answer: Any = await client.call_tool("ask", about)
        assert "whale" not in answer.content[0].text
        assert (await client.list_resources()).resources == []

    async def asking(client: Client) -> None:
        refused: Any = await client.call_tool("ingest", document)
        assert refused.is_error
        assert "'documents' is missing" in refused.content[0].text
        with pytest.raises(MCPError, match="'documents' is missing"):
            await client.list_resources()

    serving = await asyncio.to_thread(Serving(create_app(settings)).__enter__)
    try:
        for key, use in ((anns, ann), (bobs, bob), (asks, asking)):
            await as_owner(key, use)
        session = await asyncio.to_thread(opened, serving, anns)
        headers = {**ACCEPT, "Mcp-Session-Id": session, "Authorization": f"Bearer {bobs}"}
        for status in (404, 401):
            told = await asyncio.to_thread(
                serving.client.post, "/mcp", json=INITIALIZE, headers=headers
            )
            assert told.status_code == status
            headers["Authorization"] = "Bearer wrong"
    finally:
        await asyncio.to_thread(serving.__exit__)


def test_a_page_of_another_site_is_refused(serve: Serve) -> None:
    client = serve(fakes.services()).client
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
        assert client.post("/mcp", json={}, headers=headers).status_code == 403


@pytest.mark.slow
async def test_an_assistant_asks_over_stdio(data_dir: Path, tmp_path: Path) -> None:
    """Without a service, on the state where it is started; a cancelled call ends its run."""
    await asyncio.to_thread(copied, data_dir, tmp_path / ".selfcrag")
    env = environment(search=NOWHERE)
    command = StdioServerParameters(
        command=str(BIN / "selfcrag"), args=["mcp"], env=env, cwd=tmp_path
    )
    async with Client(stdio_client(command)) as client:
        await uses_all(client)
        begun = asyncio.Event()

        async def progress(*_: object) -> None:
            begun.set()

        asked = client.call_tool("ask", {"question": ENGLISH}, progress_callback=progress)
        call = asyncio.create_task(asked)
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await client.call_tool("search", {"question": "What is bread?"})
    listed = await asyncio.to_thread(
        subprocess.run,
        [BIN / "selfcrag", "runs", "list"],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    cancelled = [line for line in listed.stdout.splitlines() if "cancelled" in line]
    assert any("red tower" in line for line in cancelled), listed.stdout
