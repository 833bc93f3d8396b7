"""OpenAI's JavaScript client and the AI SDK, as they come from npm, ask the service."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphs.workflows.registry import WORKFLOWS
from tests import fakes
from tests.app.api.routes.test_openai import CHINESE, ENGLISH, FIRST, SECOND, TOWER, rejecting
from tests.app.serving import Serving

pytestmark = pytest.mark.node

Serve = Callable[..., Serving]
SCRIPTS = Path(__file__).parents[1] / "node"
NODE = Path(sys.executable).with_name("node")


def told_by(script: str, *arguments: str) -> dict[str, Any]:
    """What the script prints, which must end well."""
    done = subprocess.run(
        [NODE, SCRIPTS / script, *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize("question", [ENGLISH, CHINESE])
def test_openai_in_javascript(service: Serving, question: str) -> None:
    told = told_by("openai.mjs", service.url, question)

    assert told["models"] == list(WORKFLOWS)
    assert ("87" if question == ENGLISH else "八十七") in told["whole"]["content"]
    assert told["streamed"] == told["whole"]["content"]
    assert told["annotations"] == told["whole"]["annotations"]
    assert told["annotations"]
    assert told["reasoning"].rstrip("\n") == told["whole"]["reasoning_content"]
    assert told["finish_reason"] == "stop"
    assert told["usage"]["total_tokens"] == 0
    assert told["error"] == {"name": "NotFoundError", "status": 404, "code": "model_not_found"}


def test_the_ai_sdk_shows_drafts_and_takes_them_back(serve: Serve) -> None:
    told = told_by("ai.mjs", "ai", serve(rejecting()).url, "{}", ENGLISH)
    parts = told["message"]["parts"]

    assert FIRST in told["texts"]
    assert told["texts"][told["texts"].index(FIRST) + 1] == ""
    assert told["texts"][-1] == SECOND
    assert [part["type"] for part in parts] == [
        "step-start",
        "reasoning",
        "text",
        "source-document",
        "data-citation",
    ]
    assert [part["state"] for part in parts[1:3]] == ["done", "done"]
    assert told["message"]["metadata"]["thread_id"] == "chat-1"
    assert told["message"]["metadata"]["stopped_by"] == "accepted"
    assert {"data-step", "data-retract", "data-answer"} == set(told["data"])
    assert told["errors"] == []


@pytest.mark.parametrize("package", ["ai", "ai-before"])
def test_the_ai_sdk_shows_the_answer_alone(serve: Serve, package: str) -> None:
    told = told_by("ai.mjs", package, serve(rejecting()).url, '{"drafts": false}', ENGLISH)

    assert [text for text in told["texts"] if text] == [SECOND]
    assert told["errors"] == []


def test_the_ai_sdk_is_told_what_is_wrong(service: Serving) -> None:
    told = told_by("ai.mjs", "ai", service.url, '{"options": {"upper": "high"}}', ENGLISH)
    assert "#/options/upper" in told["refused"]


class Broken(fakes.FakeEvaluator):
    async def score(self, task: Any, pairs: Any) -> Any:
        raise ZeroDivisionError("a fault of ours")


def test_the_ai_sdk_is_told_of_a_failure(serve: Serve) -> None:
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER]), evaluator=Broken()))
    told = told_by("ai.mjs", "ai", serving.url, '{"workflow": "crag"}', ENGLISH)
    assert ["Quote run" in error for error in told["errors"]] == [True]
