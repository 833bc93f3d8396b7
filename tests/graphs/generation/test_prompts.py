"""What a language model is told: the dialogue, the question, the numbered knowledge."""

from typing import Any

import pytest

from graphs.generation.prompts import LATEST_TURNS, DraftRequest, answering_messages
from graphs.text.language import script_of
from graphs.types import Message
from tests.fakes import FakeChat, FakeCritic
from tests.graphs.languages import EN, ZH, World, both_languages
from tests.graphs.traced import traced

TURNS: list[Message] = [
    {"role": "user", "content": "Tell me of\nHardanger."},
    {"role": "assistant", "content": "它在挪威。"},
]


@both_languages
async def test_the_dialogue_reaches_both_prompts(world: World) -> None:
    chat = FakeChat(chunks=["a [1]"], keywords="mill")
    await world.parts(world.off, chat=chat).ask(history=TURNS, follow_ups=False)

    rewriting, answering = chat.prompt(0), chat.prompt(1)
    for said in (rewriting, answering):
        assert "user: Tell me of Hardanger.\nassistant: 它在挪威。" in said
        assert said.index("Hardanger.") < said.rindex(world.question)
    assert rewriting.endswith("Keywords:" if world.language == "en" else "关键词：")
    assert f"[1] (Mills — {world.url})\n{world.web}" in answering


async def test_without_dialogue_none_is_mentioned() -> None:
    chat = FakeChat(chunks=["a [1]"])
    await ZH.parts(ZH.full, chat=chat).ask()

    assert "对话：" not in chat.prompt()


def test_only_the_latest_turns_are_told() -> None:
    history: list[Message] = [{"role": "user", "content": f"turn-{n}."} for n in range(20)]
    request = DraftRequest("why?", history, [], floor=0, language="en")
    said = str(answering_messages(request)[-1].text)

    assert said.count("turn-") == LATEST_TURNS
    assert "turn-19." in said


FOLLOW_UPS = [
    ("什么是中文全文检索与向量检索的混合排序？", "Is it fast?", EN),
    ("What is the asynchronous LangGraph checkpointer of Postgres clusters?", "快吗？", ZH),
]


@pytest.mark.parametrize(
    ("before", "question", "world", "workflow"),
    [(*FOLLOW_UPS[0], "crag"), (*FOLLOW_UPS[1], "self_crag")],
    ids=["en", "zh"],
)
async def test_a_topic_of_another_language_does_not_change_the_abstentions(
    before: str, question: str, world: World, workflow: str
) -> None:
    history: list[Message] = [{"role": "user", "content": before}]
    trace = await traced(world.parts(offline=True).services, question, workflow, history)

    assert script_of(trace.output["standalone_question"]) != world.language
    assert trace.answer == world.unknown


@pytest.mark.parametrize(
    ("before", "question", "world", "workflow", "options"),
    [
        (*FOLLOW_UPS[0], "crag", {}),
        (*FOLLOW_UPS[1], "crag", {"choices": ["a", "b"]}),
        (*FOLLOW_UPS[0], "self_rag", {"retrieval": "never"}),
        (*FOLLOW_UPS[1], "self_rag", {"beam_depth": 2}),
    ],
    ids=["answer", "choice", "direct", "segment"],
)
async def test_a_topic_of_another_language_does_not_change_the_models(
    before: str, question: str, world: World, workflow: str, options: dict[str, Any]
) -> None:
    # The model's own standalone form is no line, so it is made by rule.
    chat = FakeChat(chunks=["a [1]"], keywords="a\nb")
    parts = world.parts(f"{before} {question}", chat=chat, critic=FakeCritic())
    history: list[Message] = [{"role": "user", "content": before}]
    trace = await traced(parts.services, question, workflow, history, **options)

    assert script_of(trace.output["standalone_question"]) != world.language
    assert ("Answer in English" in chat.prompt()) == (world is EN)
    assert ("用中文" in chat.prompt()) == (world is ZH)
    assert ("Question:" in chat.prompt()) == (world is EN)
    assert ("只能从下列答案" in chat.prompt()) == (world is ZH and "choices" in options)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("It is `argv[1]`, then `argv[2]`【1】.", "It is `argv[1]`, then `argv[2]`[1]."),
        ("先是 `argv[1]`，再是 `m[3][7]`【1】【9】。", "先是 `argv[1]`，再是 `m[3][7]`[1]。"),
    ],
)
async def test_subscripts_reach_the_reader_and_markers_of_any_form(said: str, told: str) -> None:
    chat = FakeChat(chunks=list(said))
    trace = await EN.parts(EN.full, chat=chat).ask()

    assert trace.answer == trace.streamed == told
    assert [citation.n for citation in trace.output["citations"]] == [1]


@pytest.mark.parametrize("said", ["`argv[1]` is it [1].", "就是 `argv[1]`【1】。"])
async def test_a_direct_answer_keeps_its_subscripts(said: str) -> None:
    parts = EN.parts(EN.full, chat=FakeChat(chunks=list(said)), critic=FakeCritic())
    trace = await parts.ask("self_rag", retrieval="never")

    assert trace.answer == trace.streamed == said.replace(" [1].", ".").replace("【1】", "")
