"""Which thresholds go with which evaluator, asked of the real worker."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from app.errors import StartFailed
from app.grading import WorkerEvaluator
from evaluator.client import EvaluatorClient, WorkerRefused
from evaluator.server import create_app
from evaluator.settings import WEIGHTS, EvaluatorSettings
from graphs.decide import PRESETS
from graphs.types import Thresholds


@asynccontextmanager
async def worker_of(weights: Path) -> AsyncIterator[EvaluatorClient]:
    app = create_app(EvaluatorSettings(weights=weights))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://evaluator") as http,
    ):
        yield EvaluatorClient(http)


async def test_a_preset_for_another_evaluator_is_refused_unless_told() -> None:
    async with worker_of(WEIGHTS) as client:
        with pytest.raises(StartFailed, match="SELFCRAG_ALLOW_FOREIGN_THRESHOLDS=true"):
            await WorkerEvaluator.connect(client, PRESETS["popqa"])
        told = await WorkerEvaluator.connect(client, PRESETS["popqa"], allow_foreign=True)
        assert told.thresholds == PRESETS["popqa"]


async def test_thresholds_of_other_weights_are_refused_unless_told(tmp_path: Path) -> None:
    for file in WEIGHTS.iterdir():
        if file.name != "thresholds.json":
            (tmp_path / file.name).symlink_to(file)
    foreign = {"upper": 0.3, "lower": -0.3, "strip_floor": -0.4, "evaluator": "sha256:0"}
    (tmp_path / "thresholds.json").write_text(json.dumps(foreign), encoding="utf-8")
    async with worker_of(tmp_path) as client:
        with pytest.raises(WorkerRefused, match="belongs to other weights"):
            await WorkerEvaluator.connect(client, None)
        told = await WorkerEvaluator.connect(client, None, allow_foreign=True)
        assert told.thresholds == Thresholds(0.3, -0.3, -0.4)
