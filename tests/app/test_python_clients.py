"""LangChain's and LlamaIndex's own OpenAI clients ask the service."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from tests.app.serving import Serve, Serving, has_cancelled, wait_until
from tests.handbook.blocks import BLOCKS, Block
from tests.handbook.test_examples import here
from tests.umbra import CHINESE, ENGLISH, FIRST, SECOND, rejecting

pytestmark = pytest.mark.slow
SCRIPT = """
import json, sys
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

url, question, mode = sys.argv[1:]
if mode == "example":
    exec(sys.stdin.read(), {"__name__": "example"})
    sys.exit()
llm = OpenAILike(
    model="self_crag", api_base=f"{url}/v1", api_key="none", is_chat_model=True, max_retries=0
)
messages = [ChatMessage(role="user", content=question)]
stream = llm.stream_chat(messages)
if mode == "stop":
    next(stream)
    stream.close()
    print("{}")
    sys.exit()
texts, notes = [], []
for response in stream:
    texts.append(response.delta or "")
    notes += getattr(response.raw.choices[0].delta, "annotations", None) or [] \\
        if response.raw.choices else []
whole = llm.chat(messages)
message = whole.raw.choices[0].message
print(json.dumps({
    "streamed": "".join(texts),
    "notes": notes,
    "whole": whole.message.content,
    "whole_notes": [note.model_dump() for note in message.annotations],
    "complete": str(llm.complete(question)),
}))
"""


def chat_of(serving: Serving, **settings: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model="self_crag",
        base_url=f"{serving.url}/v1",
        api_key="none",  # type: ignore[arg-type]
        use_responses_api=True,
        max_retries=0,
        **settings,
    )


def test_langchain_streams_steps_as_reasoning_and_no_rejected_draft(serve: Serve) -> None:
    whole: AIMessageChunk | None = None
    texts = []
    for chunk in chat_of(serve(rejecting())).stream(ENGLISH):
        texts.append(chunk.text)
        whole = chunk if whole is None else whole + chunk
    assert whole is not None
    reasoning, text = whole.content_blocks

    assert "".join(texts) == SECOND
    assert FIRST not in texts
    assert reasoning["type"] == "reasoning"
    assert "The draft is withdrawn." in reasoning["reasoning"].splitlines()
    assert text["type"] == "text"
    assert [note["title"] for note in text["annotations"]] == ["docs/en/page.md"]
    assert whole.usage_metadata is not None
    assert whole.usage_metadata["total_tokens"] == 26


def test_langchain_shows_where_it_is_said_and_goes_on(service: Serving) -> None:
    chat = chat_of(service)
    answer = chat.invoke(CHINESE)
    (text,) = [block for block in answer.content_blocks if block["type"] == "text"]
    links = [note for note in text["annotations"] if note.get("url")]
    files = [note for note in text["annotations"] if not note.get("url")]

    assert "八十七" in answer.text
    assert links[0]["url"].startswith(f"{service.url}/#document=")
    assert "[" in answer.text[links[0]["start_index"] : links[0]["end_index"]]
    assert files[0]["title"].endswith("tower.md")

    turns = [HumanMessage(CHINESE), answer, HumanMessage("Why?")]
    assert chat.invoke(turns).text
    last = chat_of(service, use_previous_response_id=True).invoke(turns)
    assert isinstance(last, AIMessage)
    told = service.client.get(f"/v1/responses/{last.response_metadata['id']}").json()
    assert told["previous_response_id"] == answer.response_metadata["id"]
    thread = service.client.get(f"/threads/{told['thread_id']}").json()
    assert [message["content"] for message in thread["messages"]][::2] == [CHINESE, "Why?"]


def test_langchain_embeds(service: Serving) -> None:
    embeddings = OpenAIEmbeddings(
        model="embedder",
        base_url=f"{service.url}/v1",
        api_key="none",  # type: ignore[arg-type]
        check_embedding_ctx_length=False,
    )
    one, other = embeddings.embed_documents([ENGLISH, "Bread is baked."])
    assert len(one) == len(other) == len(embeddings.embed_query(ENGLISH))


def test_a_run_ends_with_its_stream_in_langchain(slow: Serving) -> None:
    stream = chat_of(slow).stream(ENGLISH)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    wait_until(lambda: has_cancelled(slow), 5)


@pytest.fixture
def llama_index(llama_index_python: Path) -> Callable[..., str]:
    """Runs the script with LlamaIndex's client."""

    def told_by(*arguments: str, example: str = "") -> str:
        done = subprocess.run(
            [llama_index_python, "-c", SCRIPT, *arguments],
            input=example,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return told_by


def test_llama_index_is_answered_and_ends_its_run(
    service: Serving, slow: Serving, llama_index: Callable[..., str]
) -> None:
    for question, words in ((ENGLISH, "87"), (CHINESE, "八十七")):
        told = json.loads(llama_index(service.url, question, "ask"))
        assert words in told["whole"]
        assert told["whole"] == told["streamed"] == told["complete"]
        assert told["notes"] == told["whole_notes"]
        cited = told["notes"][0]["url_citation"]
        assert cited["url"].startswith(f"{service.url}/#document=")
        assert "[" in told["whole"][cited["start_index"] : cited["end_index"]]
    llama_index(slow.url, ENGLISH, "stop")
    wait_until(lambda: has_cancelled(slow), 5)


EXAMPLES = [block for block in BLOCKS if block.kind == "python" and "llama-index" in block.needs]


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: block.place)
def test_examples_of_the_handbook_run_in_llama_index(
    service: Serving, llama_index: Callable[..., str], block: Block
) -> None:
    question = CHINESE if "/zh/" in block.page else ENGLISH
    text = re.sub(r'content=".+?"', f'content="{question}"', here(block.text, service, ""))
    assert "#document=" in llama_index(service.url, "", "example", example=text)
