import asyncio
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from app.llm.chat import EndpointChat, chat_model
from app.resilience import retry
from app.resilience.circuit_breaker import CircuitBreaker
from app.resilience.deadline import run_ends_at
from app.resilience.retry import MAX_RETRIES, MAX_SAVED
from graphs.errors import AnswerInterrupted, GeneratorFailed
from graphs.generation.answer import NO_LISTENER, Listener, generate_answer
from graphs.generation.prompts import DraftRequest
from graphs.generation.replies import MAX_REPLY_CHARS, short_reply
from graphs.text.language import script_of
from graphs.types import Strip
from tests import fakes
from tests.app.serving import wait_until
from tests.loopback.openai import MODEL, OPENAI_KEY, Failure, OpenAIServer
from tests.loopback.server import free_port

ENGLISH: list[BaseMessage] = [
    SystemMessage("Answer from the numbered knowledge."),
    HumanMessage(
        "[1] (Lighthouse — https://a.example/l) A lighthouse warns ships. It blinks.\n"
        "[2] (灯塔 — docs/zh/dengta.md) 灯塔立在海边。\n\n"
        "Question: What does a lighthouse do?"
    ),
]
ANSWER = (
    "A lighthouse warns ships (https://a.example/l) [1]. 灯塔立在海边 (docs/zh/dengta.md) [2]。"
)


OpenChat = Callable[..., EndpointChat]


@pytest.fixture
async def open_chat(openai_server: OpenAIServer) -> AsyncIterator[OpenChat]:
    """Opens models of the server, until the test ends."""
    async with AsyncExitStack() as stack:

        def opened(url: str = "", key: str = OPENAI_KEY, **options: Any) -> EndpointChat:
            model = chat_model(url or openai_server.base_url, key, MODEL, **options)
            stack.push_async_callback(model.aclose)
            return model

        yield opened


@pytest.fixture
def chat(open_chat: OpenChat) -> EndpointChat:
    return open_chat(timeout_s=5)


async def read(model: EndpointChat) -> None:
    async for _ in model.astream(ENGLISH):
        pass


async def read_whole(model: EndpointChat) -> None:
    """Without a stream, as `ainvoke` asks when nothing listens."""
    await model.ainvoke(ENGLISH, stream=False)


async def failure_of(model: EndpointChat, *, streamed: bool = True) -> GeneratorFailed:
    call = read if streamed else read_whole
    with pytest.raises(GeneratorFailed) as failure:
        await call(model)
    shown = "".join(traceback.format_exception(failure.value))
    assert OPENAI_KEY not in shown
    return failure.value


async def test_a_reply_that_is_all_there_holds_nobody_up(
    chat: EndpointChat, openai_server: OpenAIServer
) -> None:
    openai_server.says = "word " * 100
    chunks, others = 0, list[int]()
    async for _ in chat.astream(ENGLISH):
        assert len(others) == chunks, "whoever waited had its turn between two chunks"
        asyncio.get_running_loop().call_soon(others.append, chunks)
        chunks += 1
    assert chunks > 100


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_has_a_most_of_tokens(
    open_chat: OpenChat, openai_server: OpenAIServer, streamed: bool
) -> None:
    for most in (4096, 0):
        await (read if streamed else read_whole)(open_chat(max_tokens=most))
    bounded, unbounded = (request.body for request in openai_server.requests)
    assert bounded["max_tokens"] == 4096
    assert "max_tokens" not in unbounded
    # OpenAI's own reasoning models refuse the name that all other servers know.
    own = chat_model("https://api.openai.com/v1", OPENAI_KEY, "o5", max_tokens=4096)
    sent = own._get_request_payload(ENGLISH)
    assert sent["max_completion_tokens"] == 4096
    assert "max_tokens" not in {**sent, **sent.get("extra_body", {})}
    await own.aclose()


async def test_an_answer_comes_token_by_token_with_its_usage(
    chat: EndpointChat, openai_server: OpenAIServer
) -> None:
    openai_server.token_delay_s = 0.02
    received = [(chunk, time.monotonic()) async for chunk in chat.astream(ENGLISH)]
    chunks = [chunk for chunk, _ in received]
    arrived = [at for chunk, at in received if chunk.text]
    assert arrived[-1] - arrived[0] > 0.1, "the first does not wait for the last"
    assert len([chunk for chunk in chunks if chunk.text]) > 5
    assert "".join(chunk.text for chunk in chunks) == ANSWER
    total = sum((c.usage_metadata["output_tokens"] for c in chunks if c.usage_metadata), 0)
    assert total == len(ANSWER)
    body = openai_server.requests[0].body
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert body["temperature"] == 0
    assert [message["role"] for message in body["messages"]] == ["system", "user"]


@pytest.mark.parametrize(
    ("finish_reason", "told"),
    [("length", "limit of tokens"), ("content_filter", "content filter"), ("stop", "")],
)
async def test_an_answer_that_was_cut_off_is_kept_and_told(
    chat: EndpointChat, openai_server: OpenAIServer, finish_reason: str, told: str
) -> None:
    openai_server.finish_reason = finish_reason
    strip = Strip("s1", "d1", "灯塔立在海边。", "灯塔", "a.md", "internal", (0, 0))
    request = DraftRequest("灯塔是做什么的？", [], [strip], floor=0.0, language="zh")
    draft = await generate_answer(request, fakes.services(chat=chat), NO_LISTENER)

    assert (draft.answer, draft.generator) == ("灯塔立在海边 (a.md) [1]。", "fake-chat")
    assert [entry.component for entry in draft.degraded] == (["generator"] if told else [])
    assert all(told in entry.reason for entry in draft.degraded)


async def test_an_address_without_v1_is_told(
    open_chat: OpenChat, openai_server: OpenAIServer
) -> None:
    failure = await failure_of(open_chat(openai_server.url))
    assert "(HTTP 404)" in str(failure)
    assert str(failure).endswith("most servers are asked below /v1.")


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "did not accept the request"),
        (401, "refused the key"),
        (403, "refused the key"),
        (404, "does not know the model 'stand-in'"),
        (413, "did not accept the request"),
        (429, "limiting requests"),
        (500, "failing on its side"),
    ],
)
async def test_a_refusal_is_told_in_words(
    chat: EndpointChat, openai_server: OpenAIServer, status: int, words: str, streamed: bool
) -> None:
    openai_server.status = status
    failure = await failure_of(chat, streamed=streamed)
    assert words in str(failure)
    assert openai_server.address in str(failure)
    assert failure.component == "generator"
    tried = 1 + MAX_RETRIES if status >= 429 else 1
    assert len(openai_server.requests) == tried


@pytest.mark.parametrize(
    ("status", "streamed"), [(429, True), (500, False), (502, True), (503, False), (504, True)]
)
async def test_what_fails_for_the_moment_is_tried_again(
    chat: EndpointChat, openai_server: OpenAIServer, status: int, streamed: bool
) -> None:
    openai_server.status, openai_server.failures = status, 1
    answer = await chat.ainvoke(ENGLISH, stream=streamed)
    assert answer.text == ANSWER
    assert answer.usage_metadata is not None
    assert len(openai_server.requests) == 2


async def test_a_connection_that_breaks_is_made_again(
    open_chat: OpenChat, openai_server: OpenAIServer
) -> None:
    async with breaking_first(openai_server.port) as port:
        model = open_chat(f"http://127.0.0.1:{port}/v1")
        assert (await model.ainvoke(ENGLISH)).text == ANSWER
        await model.aclose()
    assert len(openai_server.requests) == 1


async def test_an_endpoint_is_let_be_for_as_long_as_it_says(
    chat: EndpointChat, openai_server: OpenAIServer
) -> None:
    openai_server.refusal_headers = {"Retry-After": "1"}
    openai_server.status, openai_server.failures = 429, 1
    began = time.monotonic()
    assert (await chat.ainvoke(ENGLISH)).text == ANSWER
    assert time.monotonic() - began > 0.5
    assert len(openai_server.requests) == 2


async def test_an_endpoint_that_is_busy_for_long_is_not_waited_for(
    chat: EndpointChat, openai_server: OpenAIServer
) -> None:
    openai_server.status, openai_server.refusal_headers = 429, {"Retry-After": "4"}
    for _ in range(4):
        assert "limiting requests" in str(await failure_of(chat))
    assert len(openai_server.requests) == 4
    assert chat.endpoint.breaker.openness() == 0, "it is not down"


async def test_retries_do_not_multiply_the_calls_of_an_endpoint_that_is_down(
    open_chat: OpenChat, openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FIRST_WAIT_S", 0.0)
    openai_server.status, calls = 500, 40
    model = open_chat(breaker=CircuitBreaker("chat", max_failures=calls + 1))
    for _ in range(calls):
        await failure_of(model)
    assert calls < len(openai_server.requests) <= 1.2 * calls + MAX_SAVED


@asynccontextmanager
async def breaking_first(port: int) -> AsyncIterator[int]:
    """The port of a proxy to `port` that breaks its first connection off."""
    taken: list[asyncio.Task[None] | None] = []

    async def passed(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65_536):
            sink.write(data)
        sink.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.append(asyncio.current_task())
        if len(taken) == 1:
            await reader.read(1)
            writer.transport.abort()
            return
        back, forth = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(passed(reader, forth), passed(back, writer))
        await asyncio.gather(forth.wait_closed(), writer.wait_closed())

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
    await asyncio.gather(*filter(None, taken))


async def test_a_wrong_key_is_not_repeated(open_chat: OpenChat) -> None:
    model = open_chat(key="sk-wrong-secret")
    failure = await failure_of(model)
    assert "refused the key" in str(failure)
    assert "sk-wrong-secret" not in "".join(traceback.format_exception(failure))
    assert "sk-wrong-secret" not in repr(model)


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        ("drop", "broke off"),
        ("end", "broke its answer off"),
        ("error_event", "reported an error while answering"),
        ("garbage", "no chat completion|broke its answer off"),
        ("empty", "empty answer"),
    ],
)
async def test_a_broken_answer_is_no_answer(
    chat: EndpointChat, openai_server: OpenAIServer, failure: Failure, words: str
) -> None:
    openai_server.failure = failure
    told = str(await failure_of(chat))
    assert any(part in told for part in words.split("|"))
    assert len(openai_server.requests) == 1, "what was heard is not begun again"


@pytest.mark.parametrize(("failure", "streamed"), [("hang_midway", True), ("hang", False)])
async def test_a_call_ends_in_time(
    open_chat: OpenChat, openai_server: OpenAIServer, failure: Failure, streamed: bool
) -> None:
    openai_server.failure = failure
    started = time.monotonic()
    told = await failure_of(open_chat(timeout_s=0.3), streamed=streamed)
    assert "did not finish within 0.3 s" in str(told)
    assert time.monotonic() - started < 2


async def test_whoever_goes_on_speaking_is_not_silent(
    open_chat: OpenChat, openai_server: OpenAIServer
) -> None:
    openai_server.token_delay_s, openai_server.token_chars = 0.1, len(ANSWER) // 6
    began = time.monotonic()
    assert (await open_chat(timeout_s=0.5).ainvoke(ENGLISH)).text == ANSWER
    assert time.monotonic() - began > 0.5


async def test_slow_drops_do_not_stretch_the_run_s_deadline(
    chat: EndpointChat, openai_server: OpenAIServer
) -> None:
    openai_server.token_delay_s = 0.1
    with run_ends_at(asyncio.get_running_loop().time() + 0.6):
        failure = await failure_of(chat)
    assert isinstance(failure, AnswerInterrupted)
    assert "all that the run's deadline left" in str(failure)
    await until_abandoned(openai_server)


async def test_what_was_written_until_the_deadline_is_kept(
    chat: EndpointChat, openai_server: OpenAIServer
) -> None:
    openai_server.says = says = "船需要灯塔[1]。船还需要" + "很" * 99 + "多"
    openai_server.token_delay_s, openai_server.token_chars = 0.05, 2
    heard = ""

    def retract(_: str) -> None:
        nonlocal heard
        heard = ""

    def token(text: str) -> None:
        nonlocal heard
        heard += text

    with run_ends_at(asyncio.get_running_loop().time() + 1.5):
        draft = await generate_answer(
            asked_about("船需要什么？"), fakes.services(chat=chat), Listener(token, retract)
        )

    assert says.startswith(draft.answer)
    assert draft.answer.endswith("船需要灯塔[1]。")
    assert heard == draft.answer
    assert draft.generator == "fake-chat"
    assert ["cut off at the run's deadline" in entry.reason for entry in draft.degraded] == [True]
    assert draft.usage.llm_calls == 1
    await until_abandoned(openai_server)


@pytest.mark.parametrize(
    ("question", "says", "kept"),
    [
        ("What do ships need?", "Ships need a light [1]. It is red. ", "Ships need a light [1]."),
        ("船需要什么？", "船需要灯塔[1]。灯是红的。", "船需要灯塔[1]。灯是红的。"),
    ],
)
async def test_a_model_in_a_loop_is_stopped(
    chat: EndpointChat, openai_server: OpenAIServer, question: str, says: str, kept: str
) -> None:
    openai_server.says, openai_server.token_delay_s, openai_server.token_chars = says * 500, 1e-3, 9
    draft = await generate_answer(asked_about(question), fakes.services(chat=chat), NO_LISTENER)

    assert draft.answer.startswith(kept)
    assert len(draft.answer) <= len(says)
    assert ["repeat itself and was stopped" in entry.reason for entry in draft.degraded] == [True]
    assert (draft.usage.llm_calls, draft.usage.input_tokens) == (1, 0)
    assert draft.usage.output_tokens > 800 / 9  # counted here: the endpoint tells it at the end
    await until_abandoned(openai_server)


async def test_a_reply_to_a_small_task_is_stopped_where_it_is_too_long(
    chat: EndpointChat, openai_server: OpenAIServer
) -> None:
    thoughts = " ".join(f"Perhaps {n}?" for n in range(200))
    words = ", ".join(f"lamp {n}" for n in range(4000))
    openai_server.says, openai_server.token_chars = f"<think>{thoughts}</think>{words}", 40
    openai_server.token_delay_s = 1e-3
    with pytest.raises(GeneratorFailed, match="had no end") as failed:
        await short_reply(chat, ENGLISH)
    usage = failed.value.usage
    assert (usage.llm_calls, usage.input_tokens) == (1, 0)
    assert usage.output_tokens > (len(thoughts) + MAX_REPLY_CHARS) / openai_server.token_chars
    await until_abandoned(openai_server)


@pytest.mark.parametrize("opening", ["", "<think>"])
async def test_long_thoughts_before_a_short_reply_are_free(
    chat: EndpointChat, openai_server: OpenAIServer, opening: str
) -> None:
    thoughts = " ".join(f"Perhaps {n}?" for n in range(550))
    openai_server.says, openai_server.token_chars = f"{opening}{thoughts}</think>lamp", 40
    assert 6000 < len(thoughts) < MAX_REPLY_CHARS
    assert (await short_reply(chat, ENGLISH))[0] == "lamp"


async def until_abandoned(server: OpenAIServer) -> None:
    """The server sees soon that nobody reads any more, and writes no more."""
    await asyncio.to_thread(wait_until, lambda: server.abandoned > 0, 2)


async def test_a_run_without_a_sentence_at_its_deadline_quotes(
    chat: EndpointChat, openai_server: OpenAIServer
) -> None:
    openai_server.failure = "hang_midway"
    with run_ends_at(asyncio.get_running_loop().time() + 0.6):
        draft = await generate_answer(
            asked_about("What does a lighthouse do?"), fakes.services(chat=chat), NO_LISTENER
        )
    assert (draft.answer, draft.generator) == ("A lighthouse warns ships [1].", "extractive")
    assert "did not finish within" in draft.degraded[0].reason


@pytest.mark.parametrize(
    ("says", "answer"),
    [
        ("Ships need a light [1]. They also ne", "Ships need a light [1]."),
        ("船需要灯塔[1]。船还需", "船需要灯塔[1]。"),
        ("Two:\n- a light [1]\n- a horn [1]\n- a b", "Two:\n- a light [1]\n- a horn [1]"),
        ("Ships need", "Ships need"),
        ("Run it [1]:\n```\nmake", "Run it [1]:\n```\nmake"),
    ],
)
async def test_an_unfinished_sentence_is_cut_off(
    chat: EndpointChat, openai_server: OpenAIServer, says: str, answer: str
) -> None:
    openai_server.says, openai_server.finish_reason = says, "length"
    services = fakes.services(chat=chat)
    draft = await generate_answer(asked_about("What do ships need?"), services, NO_LISTENER)
    assert draft.answer == answer
    assert ["limit of tokens" in entry.reason for entry in draft.degraded] == [True]


async def test_tags_of_the_prompt_are_left_out(
    chat: EndpointChat, openai_server: OpenAIServer
) -> None:
    nonce = "0123456789abcdef"
    openai_server.says = (
        f"<answer-{nonce}>1 < 2 </knowledge-{nonce}>holds [1].</Answer-{nonce}> `<answer>` <b"
    )
    for openai_server.token_chars in (0, 1, 7):
        heard: list[str] = []
        draft = await generate_answer(
            asked_about("Does it hold?"),
            fakes.services(chat=chat),
            Listener(heard.append, heard.remove),
        )
        assert draft.answer == "".join(heard) == "1 < 2 holds [1]. `<answer>` < b"


def asked_about(question: str) -> DraftRequest:
    strip = Strip(
        "s1", "d1", "A lighthouse warns ships.", "L", "a.md", "internal", (0, 0), relevance=1.0
    )
    return DraftRequest(question, [], [strip], floor=0.0, language=script_of(question))


async def test_usage_counts_what_was_sent(open_chat: OpenChat, openai_server: OpenAIServer) -> None:
    openai_server.status, model = 400, open_chat()
    assert (await failure_of(model)).usage.llm_calls == 1
    openai_server.status, openai_server.failure = 200, "empty"
    usage = (await failure_of(model)).usage
    assert (usage.llm_calls, usage.input_tokens > 0) == (1, True)

    down = open_chat(breaker=CircuitBreaker("chat", max_failures=1))
    before = len(openai_server.requests)
    with run_ends_at(asyncio.get_running_loop().time()):
        assert (await failure_of(down)).usage.llm_calls == 0
    openai_server.status = 500
    assert (await failure_of(down)).usage.llm_calls == 1
    sent = len(openai_server.requests)
    assert (await failure_of(down)).usage.llm_calls == 0
    assert len(openai_server.requests) == sent > before


async def test_an_endpoint_that_is_down_fails_fast(open_chat: OpenChat) -> None:
    model = open_chat(f"http://user:secret@127.0.0.1:{free_port()}/v1", "")
    started = time.monotonic()
    failure = await failure_of(model)
    assert "could not be reached" in str(failure)
    assert "secret" not in str(failure)
    assert time.monotonic() - started < 2


async def test_calls_at_a_time_are_bounded(
    open_chat: OpenChat, openai_server: OpenAIServer
) -> None:
    openai_server.together, model = 2, open_chat(max_concurrent=2)
    answers = await asyncio.gather(*(model.ainvoke(ENGLISH) for _ in range(4)))
    assert [answer.text for answer in answers] == [ANSWER] * 4
    assert openai_server.most_at_once == 2


async def test_waiting_for_a_turn_counts(open_chat: OpenChat, openai_server: OpenAIServer) -> None:
    openai_server.failure = "hang"
    model = open_chat(max_concurrent=1, timeout_s=0.4)
    first = asyncio.create_task(failure_of(model))
    await asyncio.sleep(0.1)
    started = time.monotonic()
    told = str(await failure_of(model))
    assert "did not finish" in told or "is busy" in told
    assert time.monotonic() - started < 2
    await first


async def test_a_reader_that_leaves_frees_its_turn(
    open_chat: OpenChat, openai_server: OpenAIServer
) -> None:
    openai_server.token_delay_s, model = 0.05, open_chat(max_concurrent=1)
    task = asyncio.create_task(read(model))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    openai_server.token_delay_s = 0
    assert (await asyncio.wait_for(model.ainvoke(ENGLISH), 2)).text == ANSWER


def test_the_environment_switches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://from-the-environment.invalid")
    model = chat_model("http://127.0.0.1:1/v1", "", MODEL)
    client: Any = model.root_async_client
    assert client.api_key == "none"
    assert str(client.base_url) == "http://127.0.0.1:1/v1/"
