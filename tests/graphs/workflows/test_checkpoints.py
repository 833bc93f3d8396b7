"""Checkpoints read back by a LangGraph that loads no class it was not told of."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
KINDS = {
    "plan": "Plan",
    "retrieval": "Retrieval",
    "documents": "Passage",
    "web_pages": "WebPage",
    "internal_strips": "Strip",
    "candidates": "Draft",
    "draft": "Draft",
    "best": "Draft",
    "critique": "Critique",
    "citations": "Citation",
    "usage": "Usage",
}


@pytest.fixture(scope="module")
def strict() -> dict[str, Any]:
    """What one process told that had the switch set before it imported anything."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.graphs.workflows.strict_checkpoints"],
        cwd=ROOT,
        env=os.environ | {"LANGGRAPH_STRICT_MSGPACK": "true"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("opening", ["own", "copy", "chat"])
def test_values_come_back_as_they_were_and_the_run_goes_on(
    strict: dict[str, Any], opening: str
) -> None:
    told = strict[opening]

    assert {key: told["kinds"].get(key) for key in KINDS} == {k: [v] for k, v in KINDS.items()}
    assert (told["error"], told["answer"].split("\n")[0]) == ("", "Two [1].")
    assert told["logged"] == []
