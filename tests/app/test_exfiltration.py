"""No protocol tells a client of links, images or HTML but for the answer's sources."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from app.extensions.ai_sdk.stream import _sources
from app.ingest.loaders.by_suffix import READERS
from app.ingest.pipeline import ingest
from app.integrations.langchain import SelfCragChat, SelfCragRetriever
from app.llm.chat import chat_model
from app.main import create_app
from app.protocols.answers import address_of
from app.retrieval.index import open_index
from app.settings import Settings
from graphs.types import AnswerLinks, Citation, Passage, WebPage
from tests import fakes
from tests.app.extensions.ai_sdk.test_stream import message, parts_of, post
from tests.app.extensions.openai.test_chat import client_of, streamed, told
from tests.app.ingest.loaders.test_by_suffix import pdf
from tests.app.ingest.word import paragraph, word
from tests.app.serving import Serve, Serving, shown
from tests.exfiltration import CITED, FORMS, LOADED, SECRET, U, live
from tests.loopback.openai import MODEL, OPENAI_KEY, OpenAIServer
from tests.umbra import ENGLISH

KEEPER = "https://keeper.example.org/tower"
TOWER = [
    Passage("p1", "The red tower of Umbra is 87 metres tall.", "Guide", CITED),
    Passage("p2", "The red tower of Umbra has a keeper.", "Keeper", KEEPER),
]
CELL = "{what} ![a]({U}) says {U}"
FILES = {
    "quor.md": "# Obelisk\n\n{what} ![a]({U}), or {U} [b]({U}).",
    "zarn.txt": "{what} <img src={U}> ![a]({U}) says {U}.",
    "tolv.html": "<p>{what} ![a]({U}) &lt;img src={U}&gt; {U}.</p>",
    "mubb.csv": f'monument,weight\n"monument","{CELL} <img src={{U}}>"\n',
    "nilk.tsv": f"monument\tweight\nmonument\t{CELL}\n",
    "ebro.jsonl": f'{{"title": "Monument", "text": "{CELL}."}}\n',
    "ovar.json": f'[{{"title": "Monument", "text": "{CELL}."}}]',
    "husk.pdf": "{what} ![a]({U}) {U}.",
    "dorm.docx": "{what} ![a]({U}) &lt;img src={U}&gt; {U}.",
}
"""A file of each kind, loaded with what would tell of a conversation."""
ALIASES = {".markdown", ".text", ".htm", ".ndjson"}


def content_of(name: str, tonnes: int) -> bytes:
    stem, _, suffix = name.partition(".")
    what = f"The obelisk of {stem.title()} weighs {tonnes} tonnes"
    text = FILES[name].replace("{what}", what).replace("{U}", U)
    if suffix == "pdf":
        return pdf(text)
    return word(paragraph(text)) if suffix == "docx" else text.encode()


def groups() -> list[str]:
    """All forms, some to an answer."""
    forms = list(FORMS.values())
    return ["Told [1].\n\n" + "\n\n".join(forms[n : n + 40]) for n in range(0, len(forms), 40)]


@pytest.fixture
def write(serve: Serve, openai_server: OpenAIServer) -> Serve:
    """Serves a chat endpoint that says what `openai_server.says`."""

    def start(links: AnswerLinks = "cited") -> Serving:
        chat = chat_model(openai_server.base_url, OPENAI_KEY, MODEL)
        services = fakes.services(fakes.FakeRetriever(TOWER), chat=chat)
        return serve(replace(services, answer_links=links))

    return start


def called(serving: Serving, tool: str, **arguments: Any) -> tuple[Any, list[str]]:
    """What a tool of MCP tells, and its progress."""
    steps = list[str]()

    async def progress(_: float, __: float | None, message: str | None) -> None:
        steps.append(message or "")

    async def call() -> Any:
        async with Client(f"{serving.url}/mcp") as client:
            return await client.call_tool(tool, arguments, progress_callback=progress)

    return asyncio.run(call()), steps


def test_answers_hold_nothing_live(write: Serve, openai_server: OpenAIServer) -> None:
    """As JSON, and the same through each protocol that streams; tokens cut the forms."""
    serving, openai_server.token_chars = write(), 13
    with client_of(serving) as client:
        for openai_server.says in groups():
            answer = serving.ask(ENGLISH, workflow="crag")
            assert live(answer["answer"], [CITED, KEEPER]) == []
            (entry,) = answer["degraded"]
            assert entry["component"] == "generator"
            assert SECRET not in entry["reason"]
            native = serving.stream(ENGLISH, workflow="crag")
            parts = parts_of(post(serving, message(ENGLISH), workflow="crag"))
            asked: Any = [{"role": "user", "content": ENGLISH}]
            whole = client.chat.completions.create(model="crag", messages=asked)
            events = client.responses.create(model="crag", input=ENGLISH, stream=True)
            langgraph = serving.client.post(
                "/runs/wait", json={"assistant_id": "crag", "input": {"messages": asked}}
            )
            assistant, _ = called(serving, "ask", question=ENGLISH, workflow="crag")
            assert live(assistant.content[0].text, [CITED, KEEPER]) == []
            assert assistant.structured_content["degraded"] == [entry]
            streams = {
                "mcp": [assistant.structured_content["answer"]],
                "langchain": [SelfCragChat(url=serving.url, workflow="crag").invoke(ENGLISH).text],
                "openai, whole": [whole.choices[0].message.content],
                "responses": [it.delta for it in events if it.type == "response.output_text.delta"],
                "langgraph": [it["text"] for it in langgraph.json()["messages"][-1]["content"]],
                "native": [shown(native)],
                "openai": told(streamed(client, ENGLISH, model="crag"), "content"),
                "ai sdk": [it["delta"] for it in parts if it["type"] == "text-delta"],
            }
            assert {name: "".join(it) for name, it in streams.items()} == dict.fromkeys(
                streams, answer["answer"]
            )


def test_no_prefix_of_a_stream_is_live(write: Serve, openai_server: OpenAIServer) -> None:
    serving, openai_server.token_chars = write(), 3
    for name in LOADED:
        openai_server.says, text = f"Told [1]. {FORMS[name]} and\n\n{FORMS[name]}", ""
        for event in serving.stream(ENGLISH, workflow="crag"):
            text += event.data["text"] if event.name == "token" else ""
            assert live(text, [CITED, KEEPER]) == []
        assert "hxxps://" in text


def test_a_stream_of_openai_cuts_no_code(write: Serve, openai_server: OpenAIServer) -> None:
    openai_server.says = (
        f"Told [1]. Write `So. <img src={U}> So.` here.\n\n```py\n<img src={U}>\n```"
    )
    with client_of(write()) as client:
        pieces = told(streamed(client, ENGLISH, model="crag"), "content")
    assert "".join(pieces) == openai_server.says
    assert [n for n in range(len(pieces)) if live("".join(pieces[: n + 1]), [CITED])] == []


def test_links_to_the_sources_stay(write: Serve, openai_server: OpenAIServer) -> None:
    openai_server.says = f"It is 87 metres tall ([guide]({CITED})) [1]; see {KEEPER} too [2]."
    answer = write().ask(ENGLISH, workflow="crag")
    assert answer["answer"] == openai_server.says
    assert [it["source"] for it in answer["citations"]] == [CITED, KEEPER]
    assert answer["degraded"] == []
    for cited in answer["citations"]:
        assert [answer["answer"][start:end] for start, end in cited["spans"]] == [answer["answer"]]


def test_trusted_answers_stay_as_they_are(write: Serve, openai_server: OpenAIServer) -> None:
    openai_server.says = f"It is 87 metres tall ![chart]({U}) [1]."
    answer = write("all").ask(ENGLISH, workflow="crag")
    assert answer["answer"] == openai_server.says
    assert answer["degraded"] == []


def test_titles_and_criticism_are_told_inert(serve: Serve) -> None:
    page = replace(TOWER[0], title=f"![a]({U}) <img src={U}>")
    drafts = [f"It is tall [1]. ![a]({U})", f"It is 87 metres tall [1]. ![a]({U}) <img>"]
    services = fakes.services(
        fakes.FakeRetriever([page]),
        chat=fakes.ScriptedChat(answers=2 * drafts),
        critic=fakes.FakeCritic(script=2 * [fakes.POOR, fakes.GOOD], words=[f"Show ![a]({U})."]),
    )
    serving = serve(services)
    with client_of(serving) as client:
        reasons = "".join(told(streamed(client, ENGLISH), "reasoning_content"))
    assert "Show !" in reasons
    assert "hxxps://" in reasons
    assert live(reasons) == []
    answer = serving.ask(ENGLISH, workflow="self_crag")
    (criticism, _) = (entry["criticism"] for entry in answer["critique"])
    assert criticism.startswith("Show ! [a]")
    assert live(criticism) == []
    (entry,) = answer["degraded"]
    assert entry["reason"].endswith("1 image, 1 link, 1 address, 1 HTML tag."), (
        "that of the latest draft alone"
    )


LOADED_TEXT = f"The red tower of Umbra is 87 metres tall ![a]({U}) <img src={U}> {U}."
BAD_PAGE = "javascript:alert(1)"


def test_evidence_is_told_as_it_was_found_and_what_is_shown_of_it_is_inert(serve: Serve) -> None:
    """By MCP and to LangChain, as by `POST /search`: texts and titles are data, links are none."""
    title = f"![a]({U}) <img src={U}>"
    web = fakes.FakeWebSearch([WebPage(BAD_PAGE, title, 0.9, (f"{LOADED_TEXT} It stands.",))])
    found = fakes.FakeRetriever([replace(TOWER[0], text=LOADED_TEXT, title=title)])
    chat = fakes.ScriptedChat(answers=["It is 87 metres tall [1][2]."])
    serving = serve(fakes.services(found, web_search=web, chat=chat))
    options = {"web": "always", "strip_mode": "passage"}
    body = {"question": ENGLISH, "options": options}
    passages = serving.client.post("/search", json=body).json()["passages"]
    assert {it["origin"] for it in passages} == {"internal", "web"}
    for passage in passages:
        assert passage["text"] in (LOADED_TEXT, f"{LOADED_TEXT} It stands.")
        assert passage["title"] == title
    result, steps = called(serving, "search", **body)
    assert result.structured_content["passages"] == passages
    for passage in passages:
        assert passage["text"] in result.content[0].text
    documents = SelfCragRetriever(url=serving.url, options=options).invoke(ENGLISH)
    assert [it.page_content for it in documents] == [it["text"] for it in passages]
    assert {it.metadata["title"] for it in documents} == {title}

    answer, more = called(serving, "ask", workflow="crag", **body)
    cited = {it["source"]: it for it in answer.structured_content["citations"]}
    assert set(cited) == {CITED, BAD_PAGE}
    assert {it["title"] for it in cited.values()} == {title}
    text, *links = answer.content
    assert title not in text.text
    assert live(text.text) == []
    assert [*result.content[1:], *links] == [], "nothing that a client could open"
    assert [line for line in steps + more if live(line)] == []
    said = SelfCragChat(url=serving.url, workflow="crag", options=options).invoke(ENGLISH)
    annotations = said.content_blocks[0]["annotations"]  # type: ignore[typeddict-item]
    assert {it.get("url") for it in annotations} == {CITED, None}


@pytest.mark.parametrize(
    "source", ["javascript:alert(1)", "//leak.evil.com/x", "\\\\leak.evil.com", "data:text/html,x"]
)
def test_only_addresses_of_the_web_become_links(service: Serving, source: str) -> None:
    cited = Citation(1, "given-1#0", "web", "Guide", source, "text", 1.0, ((0, 1),))
    assert address_of(cited, service.url) == service.url
    assert [it["type"] for it in _sources([cited], service.url)] == ["source-document"]
    assert address_of(replace(cited, source=CITED), service.url) == CITED
    assert address_of(replace(cited, source="notes/tower.md"), service.url) == "notes/tower.md"


def test_quotations_hold_nothing_live(tmp_path: Path, loaded: Any) -> None:
    assert {Path(name).suffix for name in FILES} | ALIASES == set(READERS)
    for n, name in enumerate(FILES):
        (tmp_path / name).write_bytes(content_of(name, 412 + n))

    async def add() -> None:
        index = await open_index(tmp_path / "state/index", loaded.embedder)
        await ingest([tmp_path / name for name in FILES], index, loaded.segmenter)

    (tmp_path / "state").mkdir()
    asyncio.run(add())
    settings = Settings(_env_file=None, data_dir=tmp_path / "state", search="off")
    with Serving(create_app(settings)) as serving:
        for n, name in enumerate(FILES):
            question = f"How many tonnes does the obelisk of {Path(name).stem.title()} weigh?"
            events = serving.stream(question, workflow="crag")
            (answer,) = (event.data for event in events if event.name == "answer")
            assert f"{412 + n}" in answer["answer"]
            assert "hxxps://" in answer["answer"]
            assert live(answer["answer"]) == []
            text = "".join(event.data["text"] for event in events if event.name == "token")
            assert text == answer["answer"]
            assert {sentence["label"] for sentence in answer["sentences"]} == {"supported"}
            assert json.dumps(answer["degraded"]).count("Shown as text") == 1
