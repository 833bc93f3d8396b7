"""OpenAI's JavaScript client and the AI SDK, as they come from npm, ask the service."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graphs.workflows.registry import WORKFLOWS
from tests import fakes
from tests.app.serving import Serve, Serving, has_cancelled, wait_until
from tests.umbra import CHINESE, ENGLISH, FIRST, SECOND, TOWER, rejecting

pytestmark = pytest.mark.node

AI_SDK = {"ai-5": "@ai-sdk/openai-2", "ai-6": "@ai-sdk/openai-3", "ai": "@ai-sdk/openai"}
"""Its versions 5, 6 and 7, with the OpenAI provider of each."""
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


def test_openai_in_javascript(service: Serving) -> None:
    told = told_by("openai.mjs", service.url, CHINESE)

    assert told["models"] == list(WORKFLOWS)
    assert "八十七" in told["whole"]["content"]
    assert told["streamed"] == told["whole"]["content"]
    assert told["annotations"] == told["whole"]["annotations"]
    assert told["annotations"]
    assert told["reasoning"].rstrip("\n") == told["whole"]["reasoning_content"]
    assert told["finish_reason"] == "stop"
    assert told["usage"]["total_tokens"] == 0
    assert told["error"] == {"name": "NotFoundError", "status": 404, "code": "model_not_found"}


def test_responses_in_javascript(service: Serving) -> None:
    told = told_by("responses.mjs", service.url, CHINESE)
    final, whole = told["final"], told["whole"]
    message = final["output"][1]["content"][0]

    assert told["types"][:2] == ["response.created", "response.in_progress"]
    assert told["types"][-1] == "response.completed"
    assert "八十七" in final["output_text"]
    assert {note["type"] for note in message["annotations"]} == {"url_citation", "file_citation"}
    (found,) = told["found"]["output"][1]["content"]
    assert found.items() <= message.items(), "the client adds what it has parsed"
    assert whole["output_text"]
    assert whole["thread_id"] == final["thread_id"]
    assert told["gone"] == 404
    assert told["dimensions"][0] == told["dimensions"][1] > 1


def test_a_response_ends_with_its_client_in_javascript(slow: Serving) -> None:
    told = told_by("responses.mjs", slow.url, ENGLISH, "stop")
    assert (told["started"], told["cancelled"]) == ("in_progress", "cancelled")
    wait_until(lambda: has_cancelled(slow), 5)


@pytest.mark.parametrize("package", AI_SDK)
def test_a_chat_of_the_ai_sdk_survives_a_rejected_draft(serve: Serve, package: str) -> None:
    told = told_by("chat.mjs", package, serve(rejecting()).url, "{}", ENGLISH)
    parts = told["message"]["parts"]

    assert told["errors"] == []
    assert told["status"] == "ready"
    assert told["texts"] == ["", SECOND], "a draft is never the text"
    assert f"writing: {FIRST}" in told["drafts"]
    assert told["drafts"][-1] == "withdrawn:  | accepted: "
    (source,) = [part for part in parts if part["type"] == "source-document"]
    assert (source["filename"], source["title"]) == ("docs/en/page.md", "Page 1")
    assert {"data-step", "data-retract", "data-answer", "data-draft"} <= set(told["data"])
    assert told["message"]["metadata"]["stopped_by"] == "accepted"


def test_a_chat_of_the_ai_sdk_ends_its_run(slow: Serving) -> None:
    told = told_by("chat.mjs", "ai", slow.url, "{}", ENGLISH, "search")
    assert told["errors"] == []
    assert told["status"] == "ready"
    wait_until(lambda: has_cancelled(slow), 5)


@pytest.mark.parametrize(("package", "provider"), AI_SDK.items())
def test_the_ai_sdk_asks_by_its_own_openai_provider(
    service: Serving, serve: Serve, slow: Serving, package: str, provider: str
) -> None:
    told = told_by("ai_openai.mjs", package, provider, serve(rejecting()).url, ENGLISH)
    assert (told["errors"], told["text"], told["finish"]) == ([], SECOND, "stop")
    assert "The draft is withdrawn." in told["reasoning"].splitlines()
    assert [source["filename"] for source in told["sources"]] == ["docs/en/page.md"]

    told = told_by("ai_openai.mjs", package, provider, service.url, CHINESE, "whole")
    whole = told["whole"]
    assert told["text"] == whole["text"]
    assert "八十七" in whole["text"]
    assert "检索知识库" in whole["reasoning"]
    assert {source["sourceType"] for source in whole["sources"]} == {"url", "document"}
    links = [source["url"] for source in whole["sources"] if source["sourceType"] == "url"]
    assert all(link.startswith(f"{service.url}/#document=") for link in links)
    assert told["next"], "a turn that names the one before by its id"
    assert told["dimensions"][0] == told["dimensions"][1] > 1

    told_by("ai_openai.mjs", package, provider, slow.url, ENGLISH, "stop")
    wait_until(lambda: has_cancelled(slow), 5)


def test_the_ai_sdk_takes_drafts_back_where_asked_to(serve: Serve) -> None:
    told = told_by("ai.mjs", "ai", serve(rejecting()).url, '{"drafts": "reset"}', ENGLISH)
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
    assert {"data-step", "data-progress", "data-retract", "data-answer"} == set(told["data"])
    assert told["errors"] == []


def test_the_ai_sdk_is_told_what_is_wrong(service: Serving) -> None:
    told = told_by("ai.mjs", "ai", service.url, '{"options": {"upper": "high"}}', ENGLISH)
    assert "#/options/upper" in told["refused"]


@pytest.mark.parametrize(("package", "provider"), AI_SDK.items())
def test_the_ai_sdk_is_told_of_a_failure(serve: Serve, package: str, provider: str) -> None:
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER]), evaluator=fakes.BrokenEvaluator()))
    told = told_by("ai.mjs", package, serving.url, '{"workflow": "crag"}', ENGLISH)
    assert ["Quote run" in error for error in told["errors"]] == [True]
    told = told_by("ai_openai.mjs", package, provider, serving.url, ENGLISH)
    assert "Quote run" in told["errors"][0]
