from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import torch

from evaluator.inference.scorer import Scorer, load_scorer
from evaluator.serving.app import create_app
from evaluator.settings import EvaluatorSettings
from evaluator.training.onnx_export import export
from tests.evaluator.in_process import asking
from tests.evaluator.tiny import tiny_e5, tiny_folder, wide_network

torch.set_num_threads(1)  # these networks are so small that threads only wait for each other


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny checkpoint of ours, not exported to ONNX."""
    return tiny_folder(tmp_path / "tiny")


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small checkpoint whose matrices are stored as integers, with its ONNX graph."""
    folder = tiny_folder(tmp_path_factory.mktemp("exported"), network=wide_network())
    export(folder)
    return folder


@pytest.fixture(scope="session")
def e5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small embedder in e5's form."""
    return tiny_e5(tmp_path_factory.mktemp("e5"))


@pytest.fixture(scope="session")
def shipped() -> Scorer:
    """The shipped weights on ONNX Runtime."""
    return load_scorer(EvaluatorSettings(_env_file=None))  # type: ignore[call-arg]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Scorer:
    """A tiny checkpoint of ours on PyTorch."""
    folder = tiny_folder(tmp_path_factory.mktemp("scorer") / "tiny")
    return load_scorer(EvaluatorSettings(weights=folder, backend="torch", device="cpu"))


@pytest.fixture
async def http(shipped: Scorer) -> AsyncIterator[httpx.AsyncClient]:
    """The real worker around the shipped weights, in-process."""
    app = create_app(EvaluatorSettings(), shipped)
    async with asking(app) as client:
        yield client


@pytest.fixture
async def relevance_alone(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A worker around a tiny checkpoint that knows no other task."""
    folder = tiny_folder(tmp_path / "one", "relevance")
    settings = EvaluatorSettings(_env_file=None, weights=folder, backend="torch")  # type: ignore[call-arg]
    app = create_app(settings)
    async with asking(app) as client:
        yield client
