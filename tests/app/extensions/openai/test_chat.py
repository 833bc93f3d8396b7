"""The service asked by OpenAI's own Python client over real HTTP."""

import re
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from graphs.workflows.registry import IMAGE_WORKFLOW, WORKFLOWS
from tests import fakes
from tests.app.serving import Serve, Serving
from tests.app.slow import SlowChat, Waiting
from tests.umbra import CHINESE, ENGLISH, FIRST, PAGE, SECOND, TOWER, rejecting


def client_of(serving: Serving, **settings: Any) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{serving.url}/v1",
        api_key="none",
        max_retries=0,
        http_client=httpx.Client(trust_env=False),
        **settings,
    )


@pytest.fixture(scope="module")
def client(service: Serving) -> Iterator[openai.OpenAI]:
    with client_of(service) as client:
        yield client


def asked(question: str) -> Any:
    return [{"role": "user", "content": question}]


def streamed(client: openai.OpenAI, question: str, **more: Any) -> list[ChatCompletionChunk]:
    fields = {"model": "self_crag", "messages": asked(question), **more}
    with client.chat.completions.create(stream=True, **fields) as stream:
        return list(stream)


def told(chunks: list[ChatCompletionChunk], name: str) -> list[Any]:
    """The values of one field of the deltas, empty ones left out."""
    values = (getattr(c.choices[0].delta, name, None) for c in chunks if c.choices)
    return [value for value in values if value]


def test_the_workflows_are_the_models(client: openai.OpenAI) -> None:
    models = client.models.list().data

    assert [model.id for model in models] == list(WORKFLOWS)
    assert client.models.retrieve("self_crag").id == "self_crag"


@pytest.mark.parametrize(
    ("workflow", "question"),
    list(zip(sorted(WORKFLOWS.keys() - {IMAGE_WORKFLOW}), cycle([ENGLISH, CHINESE]), strict=False)),
)
def test_a_completion_is_answered_and_cited(
    client: openai.OpenAI, workflow: str, question: str
) -> None:
    reply = client.chat.completions.create(model=workflow, messages=asked(question))
    message = reply.choices[0].message

    assert reply.object == "chat.completion"
    assert reply.model == workflow
    assert reply.choices[0].finish_reason == "stop"
    assert message.content is not None
    assert ("87" if question == ENGLISH else "八十七") in message.content
    assert message.annotations
    for annotation in message.annotations:
        cited = annotation.url_citation
        sentence = message.content[cited.start_index : cited.end_index]
        assert re.fullmatch(r"http://.+/#document=[0-9a-f]{16}-[0-9a-f]{8}-\d+", cited.url)
        assert "[" in sentence
    reasoning = message.model_extra["reasoning_content"] if message.model_extra else ""
    assert ("knowledge base" if question == ENGLISH else "检索知识库") in reasoning
    assert reply.usage is not None
    assert reply.usage.total_tokens == 0, "the extractive generator asks no model"


@pytest.mark.parametrize("question", [ENGLISH, CHINESE])
def test_a_stream_adds_up_to_the_same_completion(client: openai.OpenAI, question: str) -> None:
    reply = client.chat.completions.create(model="self_crag", messages=asked(question))
    chunks = streamed(client, question)
    message = reply.choices[0].message

    assert "".join(told(chunks, "content")) == message.content
    assert message.model_extra is not None
    assert (
        "".join(told(chunks, "reasoning_content")).rstrip("\n")
        == (message.model_extra["reasoning_content"])
    )
    (annotations,) = told(chunks, "annotations")
    assert message.annotations is not None
    assert annotations == [annotation.model_dump() for annotation in message.annotations]
    assert [c.choices[0].finish_reason for c in chunks][-1] == "stop"
    assert len({c.id for c in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert all(c.usage is None for c in chunks), "nobody asked for it"


def test_a_rejected_draft_is_never_told_and_its_usage_counts(serve: Serve) -> None:
    with client_of(serve(rejecting())) as client:
        chunks = streamed(client, ENGLISH, stream_options={"include_usage": True})

    assert chunks[-1].choices == [], "usage comes last"
    assert chunks[-1].usage is not None
    assert (chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens) == (20, 6)
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert "".join(told(chunks, "content")) == SECOND
    reasoning = "".join(told(chunks, "reasoning_content"))
    assert FIRST not in reasoning
    for line in (
        "Passages graded: 1, correct (best 0.67, upper 0.50, lower -0.50).",
        "Critique round 0: rejected (support 0.20, utility -0.50, score 0.95).",
        "Criticism: Say how tall.",
        "The draft is withdrawn.",
        "Critique round 1: accepted (support 1.00, utility 1.00, score 2.50).",
    ):
        assert f"{line}\n" in reasoning


def test_what_nothing_supports_says_so_first(serve: Serve) -> None:
    parts = fakes.services(
        fakes.FakeRetriever([TOWER]),
        chat=(chat := fakes.ScriptedChat(answers=[FIRST])),
        critic=fakes.FakeCritic(script=[fakes.POOR]),
    )
    more = {"extra_body": {"options": {"max_critic": 0, "web": "never"}}}
    with client_of(serve(parts)) as client:
        reply = client.chat.completions.create(model="self_crag", messages=asked(ENGLISH), **more)
        chunks = streamed(client, ENGLISH, **more)
        response = client.responses.create(model="self_crag", input=ENGLISH, **more)
        message = reply.choices[0].message
        dialogue = [*asked(ENGLISH), message.model_dump(include={"role", "content"})]
        client.chat.completions.create(model="self_crag", messages=[*dialogue, *asked(ENGLISH)])

    caution = "No source clearly answers this. Do not rely on it."
    assert message.content == f"{caution}\n\n{FIRST}"
    assert "".join(told(chunks, "content")) == response.output_text == message.content
    assert message.annotations
    for note in message.annotations:
        at = note.url_citation
        assert message.content[at.start_index : at.end_index] == FIRST
    assert f"assistant: {FIRST.split(' [')[0]}" in chat.prompt()
    assert caution not in chat.prompt()


def test_a_choice_of_a_closed_set_bears_no_caution(serve: Serve) -> None:
    parts = fakes.services(
        fakes.FakeRetriever([TOWER]),
        chat=fakes.ScriptedChat(answers=["yes [1]"]),
        critic=fakes.FakeCritic(script=[fakes.POOR]),
    )
    options = {"max_critic": 0, "web": "never", "choices": ["yes", "no"]}
    fields = {"model": "self_crag", "extra_body": {"options": options}}
    with client_of(serve(parts)) as client:
        reply = client.chat.completions.create(messages=asked(ENGLISH), **fields)
        response = client.responses.create(input=ENGLISH, **fields)

    assert reply.choices[0].message.content == response.output_text == "yes"
    assert response.model_extra is not None
    assert response.model_extra["verdict"] == "unsupported"


def test_the_web_is_told_and_cited(serve: Serve) -> None:
    parts = fakes.services(
        fakes.FakeRetriever([TOWER]),
        chat=fakes.ScriptedChat(answers=["It was repaired [1]."]),
        web_search=fakes.FakeWebSearch([PAGE]),
    )
    with client_of(serve(parts)) as client:
        reply = client.chat.completions.create(
            model="crag",
            messages=asked(ENGLISH),
            extra_body={
                "options": {"ablation": {"only_action": "incorrect"}, "retrieval": "always"}
            },
        )

    message = reply.choices[0].message
    assert message.annotations is not None
    (cited,) = [annotation.url_citation for annotation in message.annotations]
    assert (cited.url, cited.title) == (PAGE.url, PAGE.title)
    assert message.model_extra is not None
    assert "Web pages found: 1." in message.model_extra["reasoning_content"].splitlines()


def test_citations_lead_to_where_readers_reach_the_page(service: Serving) -> None:
    state = service.app.state
    state.public_url, before = "https://rag.example.org/answers/", state.public_url
    try:
        with client_of(service) as client:
            reply = client.chat.completions.create(model="crag", messages=asked(ENGLISH))
    finally:
        state.public_url = before
    notes = reply.choices[0].message.annotations or []
    assert notes[0].url_citation.url.startswith("https://rag.example.org/answers/#document=")


def test_reasoning_is_told_while_the_run_goes_on(serve: Serve) -> None:
    waiting = Waiting()
    chat = SlowChat(chunks=["The tower ", "is tall [1]."], waiting=waiting)
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER]), chat=chat))
    with client_of(serving) as client:
        fields: dict[str, Any] = {"model": "crag", "messages": asked(ENGLISH), "stream": True}
        with client.chat.completions.create(**fields) as stream:
            for chunk in stream:
                assert not chunk.choices[0].delta.content
                if told([chunk], "reasoning_content") == ["Writing the answer …\n"]:
                    break


def test_the_dialogue_before_is_handed_on(serve: Serve) -> None:
    chat = fakes.FakeChat(chunks=["Tall [1]."])
    messages: Any = [
        {"role": "system", "content": "Answer like a pirate."},
        {"role": "user", "content": "What stands in Umbra?"},
        {"role": "assistant", "content": "A red tower [1]."},
        {"role": "user", "content": [{"type": "text", "text": ENGLISH}]},
    ]
    with client_of(serve(fakes.services(fakes.FakeRetriever([TOWER]), chat=chat))) as client:
        client.chat.completions.create(model="crag", messages=messages)

    assert "assistant: A red tower (1)." in chat.prompt()
    assert ENGLISH in chat.prompt()
    assert "pirate" not in chat.prompt()


@pytest.mark.parametrize(
    "more",
    [
        {"metadata": {"options": '{"retrieve_k": 1}', "thread_id": "chat-7"}},
        {"extra_body": {"options": {"retrieve_k": 1}, "thread_id": "chat-7"}},
    ],
)
def test_options_and_thread_may_come_along(serve: Serve, more: dict[str, Any]) -> None:
    retriever = fakes.FakeRetriever([TOWER])
    serving = serve(fakes.services(retriever))
    with client_of(serving) as client:
        client.chat.completions.create(model="rag", messages=asked(ENGLISH), **more)

    assert [asked[1] for asked in retriever.asked] == [1]


def test_parameters_of_language_models_change_nothing(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(
        model="crag",
        messages=asked(ENGLISH),
        temperature=0.3,
        max_tokens=5,
        n=1,
        tools=[{"type": "function", "function": {"name": "ring", "parameters": {}}}],
        user="somebody",
        stop=["\n"],
    )
    assert "87" in (reply.choices[0].message.content or "")
