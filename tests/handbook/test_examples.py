"""Examples that ask over HTTP are asked, of a real service and a real worker."""

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.app.serving import Serving
from tests.handbook.blocks import Block, runnable

pytestmark = pytest.mark.slow

ASKING = [block for block in runnable("sh") if block.asks]
REQUESTS = [block for block in runnable("json") if block.marks.get("of") == "AskRequest"]
SERVICE, WORKER = r"(?:127\.0\.0\.1|localhost):8000", r"127\.0\.0\.1:8001"
# Of what curl can, the examples use no more than this.
FLAGS = {"-s", "-N", "-sN"}


def requests_of(text: str) -> list[dict[str, Any]]:
    """What each curl of a block would send, as `httpx.Client.request` takes it."""
    words = shlex.split(os.path.expandvars(text).replace("\\\n", " "), comments=True)
    starts = [n for n, word in enumerate(words) if word == "curl"]
    return [
        request_of(words[start + 1 : end])
        for start, end in zip(starts, [*starts[1:], None], strict=True)
    ]


def request_of(words: list[str]) -> dict[str, Any]:
    """As curl reads its arguments; one that is not known here fails."""
    request: dict[str, Any] = {"method": "GET", "headers": {}}
    left = iter(words)
    for word in left:
        if word == "-H":
            name, _, value = next(left).partition(": ")
            request["headers"][name] = value
        elif word == "-X":
            request["method"] = next(left)
        elif word == "-d":
            request |= {"method": "POST", "content": next(left)}
        elif word == "-F":
            name, _, value = next(left).partition("=")
            content = Path(value[1:]).read_bytes() if value.startswith("@") else value
            part = (name, (value[1:] if value.startswith("@") else None, content))
            request |= {"method": "POST", "files": [*request.get("files", []), part]}
        elif word not in FLAGS:
            assert "url" not in request, word
            request["url"] = word if "://" in word else f"http://{word}"
    return request


def here(text: str, service: Serving, worker: str) -> str:
    """The same text, with the addresses of this test."""
    text = re.sub(SERVICE, f"127.0.0.1:{service.port}", text)
    return re.sub(WORKER, worker, text)


@pytest.mark.parametrize("block", ASKING, ids=lambda block: block.place)
def test_curl_is_answered(
    block: Block,
    service: Serving,
    worker: str,
    run_id: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RUN_ID", run_id)
    monkeypatch.setenv("KEY", "none")
    for request in requests_of(here(block.text, service, worker)):
        response = httpx.request(**request, timeout=60, trust_env=False)
        assert response.is_success, response.text
        assert "event: error" not in response.text


@pytest.mark.parametrize("block", REQUESTS, ids=lambda block: block.place)
def test_a_request_is_answered(block: Block, service: Serving) -> None:
    request = json.loads(block.text)
    assert service.ask(**request)["answer"]


@pytest.mark.parametrize("block", runnable("python"), ids=lambda block: block.place)
def test_python_runs(
    block: Block,
    service: Serving,
    worker: str,
    run_id: str,
    place: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    exec(compile(here(block.text, service, worker), block.place, "exec"), {"__name__": "example"})
    assert capsys.readouterr().out
