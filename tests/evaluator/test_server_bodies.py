"""What the worker says to a body it does not take."""

from collections.abc import AsyncIterator

import httpx
import pytest

from evaluator.inference.scorer import Scorer
from evaluator.serving.app import create_app
from evaluator.settings import EvaluatorSettings

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"task": "taste", "pairs": []}, "#/task"),
        ({"task": "relevance", "pairs": [["only one"]]}, "#/pairs/0/1"),
        ({"task": "relevance", "pairs": [["a", 3]]}, "#/pairs/0/1"),
        ({"task": "relevance"}, "#/pairs"),
        ({"task": "relevance", "pairs": [], "more": 1}, "#/more"),
    ],
)
async def test_a_malformed_request_names_its_fault(
    http: httpx.AsyncClient, body: dict[str, object], pointer: str
) -> None:
    response = await http.post("/score", json=body)
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b"{", "#"),
        (b"", "#"),
        (b"[]", "#"),
        (b'{"task": "relevance", "pairs": [], "a/b~": 1}', "#/a~1b~0"),
        (b'{"\\ud800": 1}', "#"),
    ],
)
async def test_a_pointer_is_one_json_pointers_know(
    http: httpx.AsyncClient, body: bytes, pointer: str
) -> None:
    response = await http.post("/score", content=body, headers=JSON)
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == pointer
    assert f"fit: {pointer}: " in response.json()["detail"]


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_over_the_limit_is_413_before_it_is_parsed(
    shipped: Scorer, announced: bool
) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 8000
            yield b" " * 8000

    app = create_app(EvaluatorSettings(max_body_bytes=20_000), shipped)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://evaluator") as http,
    ):
        content = b"{" * 20_001 if announced else endless()
        refused = await http.post("/score", content=content, headers=JSON)
        assert refused.status_code == 413
        assert refused.headers["content-type"] == "application/problem+json"
        assert "20,000 bytes" in refused.json()["detail"]
        assert sent <= 24_000
        fits = b'{"task": "relevance", "pairs": []}'.ljust(20_000)
        assert (await http.post("/score", content=fits, headers=JSON)).status_code == 200
