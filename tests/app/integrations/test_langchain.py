"""The LangChain integration in chains of LangChain, against the service over HTTP."""

import asyncio
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough

from app.integrations.langchain import SelfCragChat, SelfCragRetriever
from graphs.types import WebPage
from prompts import prompt
from tests import fakes
from tests.app.serving import GONE_WITHIN_S, Serve, Serving, wait_until
from tests.umbra import CHINESE, ENGLISH, PAGE, SECOND, TOWER, rejecting

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("question", [ENGLISH, CHINESE])
async def test_a_retriever_gives_graded_documents_to_a_chain(
    service: Serving, question: str
) -> None:
    retriever = SelfCragRetriever(url=service.url, options={"top_strips": 2})
    asks = SystemMessage(prompt("answer_system", "en").render())
    messages = ChatPromptTemplate.from_messages([asks, ("human", "{context}\n\n{question}")])
    words = "87" if question == ENGLISH else "八十七"
    model = fakes.ScriptedChat(answers=[f"It is {words} [1]."])
    chain = (
        {
            "context": retriever | (lambda found: "\n".join(d.page_content for d in found)),
            "question": RunnablePassthrough(),
        }
        | messages
        | model
        | StrOutputParser()
    )
    documents = await asyncio.to_thread(retriever.invoke, question)

    told = [piece async for piece in chain.astream(question)]
    assert "".join(told) == f"It is {words} [1]."
    assert words in str(model.asked[-1])
    assert 1 <= len(documents) <= 2
    first = documents[0]
    assert words in first.page_content
    assert first.id == first.metadata["strip_id"]
    assert first.metadata["action"] == "correct"
    assert first.metadata["source"].endswith("tower.md")
    assert first.metadata["origin"] == "internal"
    scores = [document.metadata["score"] for document in documents]
    assert scores == sorted(scores, reverse=True)


def test_a_search_asks_no_language_model(serve: Serve) -> None:
    chat = fakes.ScriptedChat(answers=["Never told [1]."])
    page = WebPage(PAGE.url, PAGE.title, 0.9, ("The red tower of Umbra is 87 metres tall.",))
    parts = fakes.services(
        fakes.FakeRetriever([fakes.passage("Bread rests.", 1)]),
        chat=chat,
        web_search=fakes.FakeWebSearch([page]),
    )
    serving = serve(parts)
    options = {"compress": "abstractive", "expand": ["rewrite"]}
    (document,) = SelfCragRetriever(url=serving.url, options=options).invoke(ENGLISH)

    assert document.metadata["origin"] == "web"
    assert document.metadata["source"] == page.url
    assert document.metadata["action"] == "incorrect"
    assert chat.asked == []
    (run,) = serving.client.get("/runs").json()["runs"]
    assert (run["workflow"], run["status"]) == ("search", "done")


def test_knowledge_that_could_not_be_graded_is_told_all_the_same(serve: Serve) -> None:
    evaluator = fakes.FakeEvaluator(fails_from_call=1)
    serving = serve(fakes.services(fakes.FakeRetriever([TOWER]), evaluator=evaluator))
    (document,) = SelfCragRetriever(url=serving.url).invoke(ENGLISH)

    assert document.page_content == TOWER.text
    assert document.metadata["action"] is None
    assert [each["component"] for each in document.metadata["degraded"]] == ["evaluator"]


def test_a_chat_model_cites_and_knows_the_dialogue(serve: Serve) -> None:
    serving = serve(rejecting())
    chat = SelfCragChat(url=serving.url, thread_id="t-1", options={"max_critic": 2})
    answer = chat.invoke([HumanMessage("Hello."), AIMessage("Hello?"), HumanMessage(ENGLISH)])

    assert answer.text == SECOND
    (block,) = answer.content_blocks
    (cited,) = block["annotations"]  # type: ignore[typeddict-item]
    assert cited["cited_text"] == TOWER.text
    assert SECOND[cited["start_index"] : cited["end_index"]] == SECOND
    assert answer.response_metadata["verdict"] == "supported"
    assert (ChatPromptTemplate.from_template("{q}") | chat).invoke({"q": ENGLISH}).text
    turns = serving.client.get("/threads/t-1").json()["messages"]
    assert [turn["content"] for turn in turns[:2]] == [ENGLISH, SECOND]


def test_what_is_refused_is_told_in_the_words_of_the_service(serve: Serve) -> None:
    url = serve(fakes.services()).url
    with pytest.raises(httpx.HTTPStatusError, match="there are: default"):
        SelfCragRetriever(url=url, collection="gone").invoke("Why?")
    with pytest.raises(httpx.HTTPStatusError, match="#/context/upper"):
        SelfCragChat(url=url, options={"upper": "high"}).invoke("Why?")


@pytest.mark.parametrize("kind", [SelfCragRetriever, SelfCragChat])
async def test_a_call_that_is_cancelled_ends_its_run(
    slow: Serving, kind: type[SelfCragRetriever | SelfCragChat]
) -> None:
    waiting = slow.app.state.services.retriever.waiting
    call = asyncio.create_task(kind(url=slow.url).ainvoke(ENGLISH))
    await asyncio.to_thread(wait_until, lambda: bool(waiting.at_s), 10)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.to_thread(wait_until, lambda: not slow.runs_under_way(), GONE_WITHIN_S)
    assert waiting.left_s


@pytest.mark.slow
def test_the_file_stands_alone() -> None:
    """Copied elsewhere it imports nothing of the service."""
    code = (
        "import runpy, sys; runpy.run_path('app/integrations/langchain.py');"
        "print([name for name in sys.modules if name.split('.')[0] in"
        " ('app', 'graphs', 'evaluator', 'fastapi', 'langgraph')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
