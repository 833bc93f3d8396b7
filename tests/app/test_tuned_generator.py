"""A generator that was tuned, merged and is served: it answers through `POST /ask`."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.generator_rows import prompted_row, write_prompts
from app.main import create_app
from app.settings import Settings
from evaluator.tuning.lora import TuneOptions, tune
from evaluator.tuning.rows import write_rows
from tests.app.serving import Serving
from tests.evaluator.tuning.tiny_generators import word_llama
from tests.loopback.causal_lm import CausalLMServer, ServerForm
from tests.umbra import ENGLISH

pytestmark = pytest.mark.slow

TEXT = "The red tower of Umbra is 87 metres tall."
ANSWER = "It is 87 metres tall [1]."
REFLECTED = (
    f"[Retrieval]<paragraph>The red tower\n{TEXT}</paragraph>[Relevant]Its height is 87 metres."
    "[Fully supported][Utility:5]"
)
OPTIONS = TuneOptions(
    epochs=8, learning_rate=1e-2, rank=16, batch_tokens=800, max_length=3000,
    held_back_percent=20, check_every=1000, measured_rows=1, dropout=0.0, warmup_steps=10,
)  # fmt: skip
FORMS = pytest.mark.parametrize("form", ["vllm", "llama.cpp"])


def tuned_on(rows: Path, options: TuneOptions) -> Path:
    """A model that was never trained, tuned on a file of rows; the folder beside the file."""
    lines = rows.read_text("utf-8").splitlines()
    model = word_llama(rows.parent / "base", lines * 3)
    return tune([rows], model, rows.parent / "tuned", rows.parent / "work", options, print).folder


@pytest.fixture(scope="module")
def chat_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Taught an answer with a marker, behind the service's own prompts."""
    folder = tmp_path_factory.mktemp("chat")
    passages = [{"title": "The red tower", "text": TEXT, "source": "docs/tower.md"}]
    row = {"question": ENGLISH, "passages": passages, "answer": ANSWER}
    write_rows(folder / "rows.jsonl", [{**row, "group": str(n)} for n in range(16)])
    write_prompts(folder / "rows.jsonl", folder / "chat.jsonl")
    return tuned_on(folder / "chat.jsonl", OPTIONS)


@pytest.fixture(scope="module")
def reflective_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Taught an answer with reflection tokens."""
    rows = tmp_path_factory.mktemp("reflective") / "rows.jsonl"
    row = {"instruction": ENGLISH, "input": "", "output": REFLECTED}
    write_rows(rows, [{**row, "group": str(n)} for n in range(96)])
    return tuned_on(rows, replace(OPTIONS, epochs=12, batch_tokens=400))


def settings_for(server: CausalLMServer, data_dir: Path, generator: str) -> Settings:
    return Settings(
        _env_file=None,
        data_dir=data_dir,
        search="off",
        generator=generator,
        critic="native" if generator == "native" else "evaluator",
        **{f"{generator}_model": f"openai:{server.model}@{server.base_url}"},
    )


@FORMS
def test_the_tuned_model_answers_as_chat_endpoint(
    chat_model: Path, form: ServerForm, data_dir: Path
) -> None:
    with (
        CausalLMServer(chat_model, form) as server,
        Serving(create_app(settings_for(server, data_dir, "chat"))) as serving,
    ):
        answer = serving.ask(ENGLISH, workflow="crag", options={"web": "never"})

    assert answer["answer"] == ANSWER
    assert answer["models"]["generator"] == server.model
    assert answer["citations"]
    assert "87 metres" in answer["citations"][0]["text"]
    assert not answer["degraded"]
    assert answer["usage"]["output_tokens"] > 0
    sent = server.requests[-1].body["messages"]
    known = prompted_row({"question": ENGLISH, "passages": [{"text": TEXT}], "answer": ANSWER})
    assert [message["role"] for message in sent] == ["system", "user"]
    assert sent[0]["content"] == known["prompt"][0]["content"]


@FORMS
def test_the_tuned_model_answers_with_reflection_tokens(
    reflective_model: Path, form: ServerForm, data_dir: Path
) -> None:
    options = {"web": "never", "max_critic": 0}
    with (
        CausalLMServer(reflective_model, form) as server,
        Serving(create_app(settings_for(server, data_dir, "native"))) as serving,
    ):
        answer = serving.ask(ENGLISH, workflow="self_rag", options=options)

    chosen = next(each for each in answer["candidates"] if each["chosen"])
    assert "Its height is 87 metres" in answer["answer"]
    assert "[Relevant]" not in json.dumps(answer["candidates"])
    assert chosen["relevance"] > 0.9
    assert chosen["support"] > 0.9
    assert chosen["utility"] > 0.9
    assert answer["retrieval"]["probability"] > 0.9
    assert not answer["degraded"]
