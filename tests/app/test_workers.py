"""A service with several workers: what it says at its start."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import uvicorn

from app.composition.services import open_services
from app.errors import StartFailed
from app.settings import Settings
from evaluator.serving.app import create_app
from evaluator.settings import EvaluatorSettings
from tests.evaluator.test_client import Lengths
from tests.loopback.server import free_port


@asynccontextmanager
async def served(weights: str) -> AsyncIterator[str]:
    """The address of a worker with these weights."""
    listening = socket.create_server(("127.0.0.1", 0))
    app = create_app(EvaluatorSettings(_env_file=None), Lengths(weights))  # type: ignore[call-arg]
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    serving = asyncio.create_task(server.serve([listening]))
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    await serving


def settings_of(data_dir: Path, *urls: str) -> Settings:
    return Settings(
        _env_file=None,
        data_dir=data_dir,
        search="off",
        thresholds="popqa",
        worker_url=",".join(urls),
    )


async def test_workers_of_different_weights_are_refused_in_one_line(data_dir: Path) -> None:
    async with served("old") as one, served("new") as other:
        with pytest.raises(StartFailed, match="give all workers the same weights") as failed:
            async with open_services(settings_of(data_dir, one, other)):
                pass
    assert "\n" not in str(failed.value)


async def test_one_of_several_workers_is_enough_to_start(data_dir: Path) -> None:
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(served("same"))
        absent = f"http://127.0.0.1:{free_port()}"
        settings = settings_of(data_dir, absent, url)
        services = await stack.enter_async_context(open_services(settings))
        assert services.evaluator.name == "same"
        assert await services.evaluator.ready()
