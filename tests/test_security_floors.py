"""No dependency is older than its last known hole."""

from importlib.metadata import PackageNotFoundError, version

import pytest
from packaging.version import Version

FLOORS = {
    "langgraph": "1.0.10",
    "langgraph-checkpoint": "4.2",
    "langgraph-checkpoint-sqlite": "3.1.1",
    "langchain-core": "1.4",
    "langchain-openai": "1.1.14",
    "langchain-text-splitters": "1.1.2",
    "langchain-community": "0.4",
    "starlette": "1.0.1",
    "transformers": "5.3",
    "torch": "2.6",
    "python-dotenv": "1.2.2",
}
# Parts of later or optional installations: their floors hold where they are.
MAY_BE_ABSENT = {"langchain-text-splitters", "python-dotenv"}


@pytest.mark.parametrize("package", FLOORS)
def test_the_installed_version_is_at_its_floor_or_above(package: str) -> None:
    try:
        installed = version(package)
    except PackageNotFoundError:
        assert package in MAY_BE_ABSENT, f"{package} is not installed"
        return
    assert Version(installed) >= Version(FLOORS[package])
