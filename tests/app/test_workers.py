"""Workers over HTTP: the same answers as within the service, and what is said without them."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from app.api.readiness import KEPT_S
from app.composition.services import open_services
from app.errors import StartFailed
from app.main import create_app as create_service
from app.settings import Settings
from evaluator.inference.scorer import Scorer
from evaluator.serving.app import create_app
from evaluator.settings import EvaluatorSettings
from tests.app.api.test_sse import PER_RUN
from tests.app.conftest import Loaded
from tests.app.serving import Serving
from tests.evaluator.in_process import served
from tests.evaluator.test_client import Lengths
from tests.loopback.server import free_port
from tests.umbra import CHINESE, ENGLISH


def worker_of(scorer: Scorer) -> FastAPI:
    return create_app(EvaluatorSettings(_env_file=None), scorer)  # type: ignore[call-arg]


def settings_of(data_dir: Path, *urls: str) -> Settings:
    return Settings(
        _env_file=None,
        data_dir=data_dir,
        search="off",
        thresholds="popqa",
        worker_url=",".join(urls),
    )


async def test_workers_of_different_weights_are_refused_in_one_line(data_dir: Path) -> None:
    async with served(worker_of(Lengths("old"))) as one, served(worker_of(Lengths("new"))) as other:
        with pytest.raises(StartFailed, match="give all workers the same weights") as failed:
            async with open_services(settings_of(data_dir, one, other)):
                pass
    assert "\n" not in str(failed.value)


async def test_one_of_several_workers_is_enough_to_start(data_dir: Path) -> None:
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(served(worker_of(Lengths("same"))))
        absent = f"http://127.0.0.1:{free_port()}"
        settings = settings_of(data_dir, absent, url)
        services = await stack.enter_async_context(open_services(settings))
        assert services.evaluator.name == "same"
        assert await services.evaluator.ready()


def lasting(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name not in PER_RUN}


def about(value: Any) -> Any:
    """Equal to it, or to it with scores that other batches have moved by up to 1e-5."""
    if isinstance(value, dict):
        return {name: about(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [about(inner) for inner in value]
    return pytest.approx(value, abs=1e-5) if isinstance(value, float) else value


@pytest.mark.slow
async def test_a_worker_over_http_gives_the_same_answer(
    service: Serving, data_dir: Path, loaded: Loaded
) -> None:
    async with AsyncExitStack() as stack:
        worker = AsyncExitStack()
        url = await worker.enter_async_context(served(worker_of(loaded.scorer)))
        settings = Settings(_env_file=None, data_dir=data_dir, search="off", worker_url=url)
        app = create_service(settings)
        await stack.enter_async_context(app.router.lifespan_context(app))
        transport = httpx.ASGITransport(app)
        client = httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60)
        await stack.enter_async_context(client)
        for question in (ENGLISH, CHINESE):
            apart = (await client.post("/ask", json={"question": question})).json()
            within = await asyncio.to_thread(service.ask, question)
            assert lasting(apart) == about(lasting(within))
        assert (await client.get("/health/ready")).status_code == 200
        await worker.aclose()
        await asyncio.sleep(KEPT_S)
        await assert_goes_on_without_the_worker(client)


async def assert_goes_on_without_the_worker(client: httpx.AsyncClient) -> None:
    ready = await client.get("/health/ready")
    assert (ready.status_code, ready.json()["degraded"]) == (200, ["evaluator"])
    for question in (ENGLISH, CHINESE):
        answer = (await client.post("/ask", json={"question": question})).json()
        assert {entry["component"] for entry in answer["degraded"]} == {"critic", "evaluator"}
        told = answer["degraded"][0]["reason"]
        assert "Is the worker running?" in told or "failed 3 times in a row" in told
        assert answer["action"] is None
        assert answer["stopped_by"] == "no_evidence", "what nobody judged is not quoted"
        assert answer["citations"] == []
