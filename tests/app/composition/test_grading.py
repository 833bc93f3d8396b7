"""Which thresholds go with which evaluator, asked of the real worker."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import httpx
import pytest

from app.composition.services import WorkerEvaluator
from app.errors import StartFailed
from evaluator.client import EvaluatorClient
from evaluator.errors import WorkerRefused
from evaluator.serving.app import create_app
from evaluator.settings import WEIGHTS, EvaluatorSettings
from graphs.grading.actions import PAPER_THRESHOLDS
from graphs.grading.relevance import TEXTS_A_REQUEST
from tests.evaluator.tiny import tiny_folder
from tests.fakes import FakeChat
from tests.graphs.languages import EN
from tests.graphs.traced import traced


@asynccontextmanager
async def worker_of(
    weights: Path, heard: list[int] | None = None, backend: Literal["onnx", "torch"] = "onnx"
) -> AsyncIterator[EvaluatorClient]:
    """The client of a real worker; `heard` becomes the number of pairs of each request."""
    app = create_app(EvaluatorSettings(weights=weights, backend=backend))
    transport = httpx.ASGITransport(app)

    async def hear(request: httpx.Request) -> None:
        if heard is not None and request.url.path == "/score":
            heard.append(len(json.loads(request.content)["pairs"]))

    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=transport, base_url="http://evaluator", event_hooks={"request": [hear]}
        ) as http,
    ):
        yield EvaluatorClient(http)


@pytest.mark.parametrize(
    ("action", "requests"),
    [("correct", ["passages", "strips"]), ("ambiguous", ["passages", "strips", "web strips"])],
)
async def test_requests_carry_a_few_texts_each_side_by_side_and_none_twice(
    tmp_path: Path, action: str, requests: list[str]
) -> None:
    """Web strips are not yet there when local ones are graded, so they have one of their own."""
    heard: list[int] = []
    sentences = " ".join(f"The paper mill of Bergen made {word} of paper." for word in "abcdefghi")
    texts = [f"{sentences} Page {number}." for number in range(10)]
    parts = EN.parts(*texts, chat=FakeChat(chunks=["a [1]"], keywords="mill"))
    async with worker_of(tiny_folder(tmp_path / "tiny"), heard, "torch") as client:
        worker = WorkerEvaluator(client, "tiny", PAPER_THRESHOLDS["popqa"])
        trace = await traced(
            replace(parts.services, evaluator=worker), EN.question, ablation={"only_action": action}
        )

    output = trace.output
    pairs = {
        "passages": len(output["documents"]),
        "strips": len(output["internal_strips"]),
        "web strips": len(output.get("web_strips", [])),
    }
    expected = [pairs[name] for name in requests]
    assert sorted(heard, reverse=True) == sorted(
        (min(TEXTS_A_REQUEST, many - start) for many in expected
         for start in range(0, many, TEXTS_A_REQUEST)),
        reverse=True,
    )  # fmt: skip
    assert pairs["strips"] > pairs["passages"] == 10
    assert output["usage"].scored_pairs == sum(heard)


async def test_a_preset_for_another_evaluator_is_refused() -> None:
    async with worker_of(WEIGHTS) as client:
        with pytest.raises(StartFailed, match="choose calibrated"):
            await WorkerEvaluator.connect(client, PAPER_THRESHOLDS["popqa"])


async def test_thresholds_of_other_weights_are_refused(tmp_path: Path) -> None:
    for file in WEIGHTS.iterdir():
        if file.name != "thresholds.json":
            (tmp_path / file.name).symlink_to(file)
    foreign = {"upper": 0.3, "lower": -0.3, "strip_floor": -0.4, "evaluator": "sha256:0"}
    (tmp_path / "thresholds.json").write_text(json.dumps(foreign), encoding="utf-8")
    async with worker_of(tmp_path) as client:
        with pytest.raises(WorkerRefused, match="belongs to other weights"):
            await WorkerEvaluator.connect(client, None)
