"""What a run sent to language models, read again by whoever may see the run."""

import pytest

from app.llm.chat import chat_model
from app.observability.model_calls import ModelCall, PromptMessage
from app.observability.redaction import MASK, redact
from app.runs.prompts import CUT, MAX_PROMPT_CHARS, MAX_PROMPTS, PromptRecorder
from app.settings import Settings
from tests import fakes
from tests.app.serving import Serve
from tests.loopback.openai import MODEL, OPENAI_KEY, OpenAIServer
from tests.umbra import ALWAYS, ENGLISH, TOWER


@pytest.mark.parametrize("keeps", [True, False])
def test_a_run_tells_the_prompts_that_left_each_at_its_step(
    serve: Serve, openai_server: OpenAIServer, keeps: bool
) -> None:
    chat = chat_model(openai_server.base_url, OPENAI_KEY, MODEL)
    parts = fakes.services(fakes.FakeRetriever([TOWER]), chat=chat)
    serving = serve(parts, Settings(_env_file=None, keep_prompts=keeps))
    answer = serving.ask(ENGLISH, workflow="self_crag", options=ALWAYS)
    run = serving.client.get(f"/runs/{answer['run_id']}").json()
    prompts = serving.client.get(f"/runs/{answer['run_id']}/prompts").json()["prompts"]

    assert answer["usage"]["llm_calls"] == len(openai_server.prompts) > 0
    if not keeps:
        assert prompts == []
        return
    told = ["\n".join(message["text"] for message in it["messages"]) for it in prompts]
    assert told == openai_server.prompts
    assert "87 metres" in told[0]
    assert [it["role"] for it in prompts[0]["messages"]] == ["system", "user"]
    assert sum(it["input_tokens"] for it in prompts) == answer["usage"]["input_tokens"] > 0
    for prompt in prompts:
        start = run["events"][prompt["step"]]["data"]
        assert (start["path"], start["phase"]) == (prompt["path"], "start")
        assert (prompt["model"], prompt["failed"]) == (MODEL, False)
    assert OPENAI_KEY not in str(prompts)
    assert "messages" not in str(run), "streams and traces are as short as before"


def test_a_run_that_asked_no_model_has_none(serve: Serve) -> None:
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER])))
    answer = serving.ask(ENGLISH)
    assert serving.client.get(f"/runs/{answer['run_id']}/prompts").json() == {"prompts": []}
    assert serving.client.get(f"/runs/{'0' * 32}/prompts").status_code == 404


def test_prompts_are_bounded_and_hold_no_known_secret() -> None:
    redact.learn(Settings(_env_file=None, chat_api_key="sk-never-to-be-told"))
    recorder = PromptRecorder()
    long = PromptMessage("user", "begins" + "x" * 2 * MAX_PROMPT_CHARS + "ends")
    secret = PromptMessage("user", "the key is sk-never-to-be-told, said a page")
    for _ in range(MAX_PROMPTS + 5):
        recorder.hear(ModelCall("chat", "m", "host", prompt=[secret, long]))
    recorder.hear(ModelCall("embeddings", "m", "host"))

    assert len(recorder.prompts) == MAX_PROMPTS
    masked, cut = recorder.prompts[0].messages
    assert masked.text == f"the key is {MASK}, said a page"
    assert len(cut.text) == MAX_PROMPT_CHARS + len(CUT)
    assert cut.text.startswith("begins")
    assert cut.text.endswith("ends")
