"""The worker as its clients see it, around the shipped weights."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import httpx
import pytest

from evaluator.calibration.thresholds import store
from evaluator.errors import WeightsError
from evaluator.inference.scorer import Scorer
from evaluator.schema import LABELS, CalibratedThresholds, Row, RowScore, Task
from evaluator.serving.app import create_app
from evaluator.serving.batching import Limits
from evaluator.settings import EvaluatorSettings
from tests.evaluator.in_process import asking, served
from tests.evaluator.tiny import tiny_folder, tiny_network

JSON = {"content-type": "application/json"}
PAIRS = [
    ["How long is the river?", "The river is 212 kilometres long and flows north."],
    ["How long is the river?", "Bread is baked from flour, water and salt."],
    ["这条河有多长？", "这条河全长二百一十二公里，向北流入大海。"],
    ["這條河有多長？", "麵包由麵粉、水和鹽烤成。"],
    ["who opened the bridge", "The bridge. " * 60],
    ["a", "b"],
    ["Which colour is the door?", "The door, painted in 1931, is green."],
    ["Which colour is the door?", "门是绿色的。"],
    ["What?", "x" * 5000],
    ["How old is the mill?", "Mill // The mill was built in 1804. It has three floors."],
]


async def scores(http: httpx.AsyncClient, pairs: Sequence[Sequence[str]]) -> list[float]:
    response = await http.post("/score", json={"task": "relevance", "pairs": pairs})
    assert response.status_code == 200, response.text
    return list(response.json()["scores"])


async def test_relevant_stands_above_irrelevant_in_both_languages(http: httpx.AsyncClient) -> None:
    found = await scores(http, PAIRS[:4])
    assert found[0] > found[1] + 0.3
    assert found[2] > found[3] + 0.3


async def test_answer_carries_every_field(http: httpx.AsyncClient) -> None:
    body = (await http.post("/score", json={"task": "relevance", "pairs": PAIRS[:1]})).json()
    assert body["probabilities"][0].keys() == {"[Relevant]", "[Irrelevant]"}
    assert body["scores"][0] == pytest.approx(2 * body["probabilities"][0]["[Relevant]"] - 1)
    assert body["labels"][0] == max(body["probabilities"][0], key=body["probabilities"][0].get)
    assert body["tokens"] > 10
    assert body["inference_ms"] > 0
    assert body["queue_ms"] >= 0
    assert body["model"]
    assert body["errors"] == []


async def test_a_batch_scores_as_its_pairs_do_alone(http: httpx.AsyncClient) -> None:
    together = await scores(http, PAIRS)
    alone = [(await scores(http, [pair]))[0] for pair in PAIRS]
    assert together == pytest.approx(alone, abs=1e-5)


async def test_a_bad_row_fails_alone(http: httpx.AsyncClient) -> None:
    pairs = [PAIRS[0], ["", "text"], ["question", " \n "], PAIRS[1]]
    body = (await http.post("/score", json={"task": "relevance", "pairs": pairs})).json()
    assert [score is None for score in body["scores"]] == [False, True, True, False]
    assert body["labels"][1] is None
    assert body["probabilities"][2] is None
    assert [error["index"] for error in body["errors"]] == [1, 2]
    assert body["errors"][0]["reason"]


async def test_the_shipped_weights_know_all_four_tasks(http: httpx.AsyncClient) -> None:
    asked = {
        "relevance": ["When was the mill built?", "The mill was built in 1804."],
        "support": ["When was it built? [SEP] In 1804.", "The mill was built in 1804."],
        "utility": ["磨坊建于哪一年？", "磨坊建于1804年。"],
        "retrieval": ["When was the mill built?", ""],
    }
    for task, pair in asked.items():
        response = await http.post("/score", json={"task": task, "pairs": [pair]})
        body = response.json()
        assert response.status_code == 200
        assert set(body["probabilities"][0]) == set(LABELS[task])  # type: ignore[index]
        assert sum(body["probabilities"][0].values()) == pytest.approx(1)
        assert body["labels"][0] == max(body["probabilities"][0], key=body["probabilities"][0].get)


async def test_a_task_not_trained_for_is_refused(relevance_alone: httpx.AsyncClient) -> None:
    body = {"task": "utility", "pairs": [["a", "b"]]}
    response = await relevance_alone.post("/score", json=body)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert "relevance" in response.json()["detail"]


async def test_health_metrics_and_thresholds(http: httpx.AsyncClient) -> None:
    await scores(http, PAIRS[:2])
    assert (await http.get("/health/live")).status_code == 200
    assert (await http.get("/health/ready")).json()["tasks"] == [*LABELS, "answer"]
    assert (await http.get("/thresholds")).json()["evaluator"].startswith("sha256:")
    metrics = (await http.get("/metrics")).text
    assert 'selfcrag_evaluator_pairs_total{task="relevance"} 2.0' in metrics


async def test_thresholds_of_weights_put_there_later_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    stored = CalibratedThresholds(upper=0.5, lower=-0.5, strip_floor=-0.8, evaluator="")
    store(stored, folder)
    app = create_app(EvaluatorSettings(weights=folder, backend="torch"))
    async with asking(app) as http:
        assert (await http.get("/thresholds")).json()["upper"] == 0.5

        newer = tiny_folder(tmp_path / "newer", network=tiny_network(seed=1))
        (newer / "model.safetensors").replace(folder / "model.safetensors")
        store(stored.model_copy(update={"upper": 0.9}), folder)
        refused = await http.get("/thresholds")
        told = await http.get("/thresholds?allow_foreign=true")
    assert refused.status_code == 404
    assert "belongs to other weights" in refused.json()["detail"]
    assert told.json()["upper"] == 0.9


async def test_not_ready_before_the_lifespan() -> None:
    transport = httpx.ASGITransport(create_app())
    async with httpx.AsyncClient(transport=transport, base_url="http://evaluator") as http:
        response = await http.get("/health/ready")
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"
        assert (await http.get("/health/live")).status_code == 200


async def test_missing_weights_are_one_clear_error(tmp_path: Path) -> None:
    app = create_app(EvaluatorSettings(weights=tmp_path / "nowhere"))
    with pytest.raises(WeightsError, match="nowhere"):
        async with app.router.lifespan_context(app):
            pass


class Gate:
    """A scorer whose forward waits for the test, and counts what it was given."""

    name, digest = "gate", ""
    tasks: tuple[Task, ...] = ("relevance",)

    def __init__(self) -> None:
        self.open, self.reached = threading.Event(), threading.Event()
        self.seen: list[int] = []

    def encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        return [Row((1,) * len(passage)) for _, passage in pairs]

    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        if len(self.seen) >= 1:  # the warm-up passes
            self.reached.set()
            self.open.wait(5)
        self.seen.append(len(rows))
        if any(len(row.ids) == 13 for row in rows):
            raise RuntimeError("the thirteenth")
        return [RowScore(0.5, "[Relevant]", {}) for _ in rows]


async def test_overload_is_429_and_passes() -> None:
    gate = Gate()
    app = create_app(EvaluatorSettings(), gate, limits=Limits(max_queued_pairs=6))
    body = {"task": "relevance", "pairs": [["a", "b"]] * 4}
    async with asking(app) as http:
        first = asyncio.create_task(http.post("/score", json=body))
        assert await asyncio.to_thread(gate.reached.wait, 5)
        assert "queued_pairs 4.0" in (await http.get("/metrics")).text
        refused = await http.post("/score", json=body)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        gate.open.set()
        assert (await first).status_code == 200
        assert (await http.post("/score", json=body)).status_code == 200


async def test_a_connection_that_is_closed_takes_its_rows_along() -> None:
    """Over a real socket, where nobody cancels the request but the wire says so."""
    gate = Gate()
    app = create_app(EvaluatorSettings(batch_tokens=8), gate)
    async with served(app) as url, httpx.AsyncClient(base_url=url, trust_env=False) as http:
        assert (await http.get("/health/live")).status_code == 200  # waits until it is served
        ask = partial(http.post, "/score")
        one = {"task": "relevance", "pairs": [["a", "12345678"]]}
        blocking = asyncio.create_task(ask(json=one))
        assert await asyncio.to_thread(gate.reached.wait, 5)
        with pytest.raises(httpx.ReadTimeout):
            await ask(json=one | {"pairs": [["a", "1234567"]] * 5}, timeout=0.2)
        await asyncio.sleep(0.1)
        assert "queued_pairs 1.0" in (await http.get("/metrics")).text
        gate.open.set()
        assert (await blocking).status_code == 200
    assert gate.seen == [1, 1]  # warm-up and the first


async def test_stopping_tells_those_who_still_wait() -> None:
    gate = Gate()
    app = create_app(EvaluatorSettings(), gate)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://evaluator") as http:
        async with app.router.lifespan_context(app):
            body = {"task": "relevance", "pairs": [["a", "b"]]}
            waiting = asyncio.create_task(http.post("/score", json=body))
            assert await asyncio.to_thread(gate.reached.wait, 5)
        gate.open.set()
        assert (await waiting).status_code == 429


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b'{"task": "taste", "pairs": []}', "#/task"),
        (b'{"task": "relevance", "pairs": [["only one"]]}', "#/pairs/0/1"),
        (b'{"task": "relevance", "pairs": [["a", 3]]}', "#/pairs/0/1"),
        (b'{"task": "relevance"}', "#/pairs"),
        (b"{", "#"),
        (b"", "#"),
        (b"[]", "#"),
        (b'{"task": "relevance", "pairs": [], "a/b~": 1}', "#/a~1b~0"),
        (b'{"\\ud800": 1}', "#"),
    ],
)
async def test_a_malformed_request_names_its_fault_by_pointer(
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

    app = create_app(EvaluatorSettings(), shipped, limits=Limits(max_body_bytes=20_000))
    async with asking(app) as http:
        content = b"{" * 20_001 if announced else endless()
        refused = await http.post("/score", content=content, headers=JSON)
        assert refused.status_code == 413
        assert refused.headers["content-type"] == "application/problem+json"
        assert "20,000 bytes" in refused.json()["detail"]
        assert sent <= 24_000
        fits = b'{"task": "relevance", "pairs": []}'.ljust(20_000)
        scored = await http.post("/score", content=fits, headers=JSON)
        assert (scored.status_code, scored.json()["scores"]) == (200, [])
