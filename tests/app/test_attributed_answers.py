"""Citations that are added to a model's answer, as clients of each protocol get them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from langgraph.pregel.remote import RemoteGraph

from tests import fakes
from tests.app.api.routes.test_ask import assert_cited
from tests.app.extensions.ai_sdk.test_stream import message, parts_of, post, put_together, texts
from tests.app.extensions.openai import test_open_webui as open_webui
from tests.app.extensions.openai import test_responses as responses
from tests.app.extensions.openai.test_chat import asked, client_of, streamed, told
from tests.app.serving import Serve, Serving, shown
from tests.graphs.critics.test_attribution import SentenceEvaluator
from tests.umbra import CHINESE, ENGLISH, TOWER, TURM

SAYS = "The tower is 87 metres tall. It is 90 metres wide. I hope this helps."
CITED = "The tower is 87 metres tall [1]. It is 90 metres wide. I hope this helps."
SAYS_ZH, CITED_ZH = "红塔高八十七米。希望有帮助！", "红塔高八十七米[1]。希望有帮助！"
STORED = f"{'a' * 16}-{'b' * 8}-0"
NOW = {"max_critic": 0, "retrieval": "always"}


def serving_of(serve: Serve, says: str = SAYS) -> Serving:
    """A chat endpoint that cites nothing, and a critic that knows what supports it."""
    passages = [replace(TURM if says == SAYS_ZH else TOWER, id=STORED)]
    chat = fakes.ScriptedChat(answers=[says], pause_s=0.1)
    return serve(fakes.services(fakes.FakeRetriever(passages), SentenceEvaluator(), chat=chat))


@pytest.mark.parametrize(
    ("workflow", "question", "says", "cited"),
    [("self_rag", ENGLISH, SAYS, CITED), ("self_crag", CHINESE, SAYS_ZH, CITED_ZH)],
)
def test_a_stream_takes_the_text_back_before_it_changes(
    serve: Serve, workflow: str, question: str, says: str, cited: str
) -> None:
    serving = serving_of(serve, says)
    events = serving.stream(question, workflow=workflow, options=NOW)
    answer = events[-2].data
    names = [event.name for event in events]
    before = events[: names.index("retract")]

    assert "".join(event.data["text"] for event in before if event.name == "token") == says
    assert [event.data for event in events if event.name == "retract"] == [
        {"round": 0, "reason": "its citations are added"}
    ]
    assert shown(events) == answer["answer"] == cited
    assert_cited(answer)
    first, *others = [it["citations"] for it in answer["sentences"]]
    assert first == [1]
    assert not any(others)
    whole = serving.ask(question, workflow=workflow, options=NOW)
    assert (whole["answer"], whole["citations"]) == (answer["answer"], answer["citations"])


@pytest.mark.parametrize("workflow", ["rag", "crag"])
def test_what_nobody_judged_is_cited_as_well(serve: Serve, workflow: str) -> None:
    events = serving_of(serve).stream(ENGLISH, workflow=workflow)
    answer = events[-2].data

    assert shown(events) == answer["answer"] == CITED
    assert (answer["verdict"], answer["confidence"]) == ("not_judged", None)
    assert [it["citations"] for it in answer["sentences"]] == [[1], [], []]


def by_chat_completions(serving: Serving) -> tuple[str, list[str]]:
    with client_of(serving) as client:
        chunks = streamed(client, ENGLISH, extra_body={"options": NOW})
        content = "".join(told(chunks, "content"))
        (notes,) = told(chunks, "annotations")
        spans = [note["url_citation"] for note in notes]
        whole = client.chat.completions.create(
            model="self_crag", messages=asked(ENGLISH), extra_body={"options": NOW}
        )
        assert whole.choices[0].message.content == content
    return content, [content[it["start_index"] : it["end_index"]] for it in spans]


def by_responses(serving: Serving) -> tuple[str, list[str]]:
    with client_of(serving) as client:
        events = responses.streamed(client, extra_body={"options": NOW})
        deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
        content = "".join(deltas)
        notes = responses.notes_of(events[-1].response)  # type: ignore[union-attr]
    urls = [note for note in notes if note.type == "url_citation"]
    return content, [content[note.start_index : note.end_index] for note in urls]


def by_ai_sdk(serving: Serving, drafts: str = "data") -> tuple[str, list[str]]:
    parts = put_together(parts_of(post(serving, message(ENGLISH), drafts=drafts, options=NOW)))
    text = texts(parts, "text")
    cited = [part["data"] for part in parts if part["type"] == "data-citation"]
    return text, [text[slice(*span)] for it in cited for span in it["spans"]]


def by_ai_sdk_with_resets(serving: Serving) -> tuple[str, list[str]]:
    return by_ai_sdk(serving, "reset")


def by_langgraph(serving: Serving) -> tuple[str, list[str]]:
    graph = RemoteGraph("self_crag", url=serving.url, api_key=None)
    drafts: dict[str, str] = {}
    values: dict[str, Any] = {}
    modes: Any = ["values", "messages"]
    for _, mode, data in graph.stream(
        {"question": ENGLISH}, stream_mode=modes, subgraphs=True, context=NOW
    ):
        if mode == "messages":
            chunk, _ = data
            drafts[chunk["id"]] = drafts.get(chunk["id"], "") + chunk["content"]
        else:
            values = data
    graph._validate_sync_client().http.client.close()
    assert list(drafts.values()) == [SAYS, CITED], "each draft is a message of its own"
    cited = values["citations"]
    return values["answer"], [values["answer"][slice(*s)] for it in cited for s in it["spans"]]


@pytest.mark.parametrize(
    "client",
    [by_chat_completions, by_responses, by_ai_sdk, by_ai_sdk_with_resets, by_langgraph],
)
def test_every_protocol_ends_with_the_cited_text(
    serve: Serve, client: Callable[[Serving], tuple[str, list[str]]]
) -> None:
    text, sentences = client(serving_of(serve))

    assert text == CITED
    assert sentences == ["The tower is 87 metres tall [1]."]


def test_open_webui_replaces_what_it_showed(serve: Serve) -> None:
    lines = open_webui.lines_of(serving_of(serve), open_webui.HEADERS, options=NOW)
    states = open_webui.shown(lines)

    assert SAYS in states
    assert states[-1] == CITED
    sources = [line["event"] for line in lines if line.get("event", {}).get("type") == "source"]
    assert [source["data"]["document"] for source in sources] == [[TOWER.text]]
