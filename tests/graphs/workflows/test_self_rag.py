"""The self_rag graph, whole: retrieval on demand, drafts side by side, one chosen."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from graphs.text.citations import without_markers
from graphs.types import Bars, Judgement, Retrieval, Usage
from tests.fakes import (
    GOOD,
    POOR,
    FakeCritic,
    FakeEvaluator,
    FakeWebSearch,
    ScriptedChat,
)
from tests.graphs.languages import EN, ZH, Parts, World, both_languages
from tests.graphs.traced import traced

BEGINNING = ["prepare", "decide_retrieval"]
DRAFTED = ["judge", "select_candidate", "reflect"]
RETRIEVED = ["retrieve", "grade"]
WEB = ["rewrite_query", "search_web", "select_web_strips"]
SELF = pytest.mark.parametrize(("workflow", "world"), [("self_rag", EN), ("self_crag", ZH)])


def prompts_of(parts: Parts) -> list[str]:
    assert parts.chat is not None
    return [parts.chat.prompt(n) for n in range(len(parts.chat.asked))]


@SELF
async def test_what_needs_no_retrieval_costs_one_generation(workflow: str, world: World) -> None:
    chat, critic = ScriptedChat(answers=["Four [1]."]), FakeCritic(share=0.1)
    parts = world.parts(world.full, chat=chat, critic=critic)
    trace = await parts.ask(workflow)

    assert trace.nodes == [*BEGINNING, "generate"]
    assert trace.answer == trace.streamed == "Four.", "there is nothing to cite"
    assert trace.output["retrieval"] == Retrieval(False, 0.1)
    assert trace.output["usage"] == Usage(1, 10, 3)
    assert len(chat.asked) == 1
    assert (parts.retriever.asked, parts.web.queries, parts.evaluator.calls) == ([], [], [])
    assert critic.judged == []
    assert trace.output["citations"] == []
    assert (trace.output["stopped_by"], trace.output.get("action")) == ("answered", None)
    assert world.question in chat.prompt()


@pytest.mark.parametrize(
    ("options", "critic", "decision", "probability"),
    [
        ({}, FakeCritic(share=0.9), True, 0.9),
        ({}, FakeCritic(share=0.2), False, 0.2),
        ({}, FakeCritic(share=0.1, bars=Bars(retrieval=0.05)), True, 0.1),
        ({"retrieval_threshold": 0.1}, FakeCritic(share=0.2), True, 0.2),
        ({"retrieval": "always"}, FakeCritic(share=0.0), True, 1.0),
        ({"retrieval": "never"}, FakeCritic(share=1.0), False, 0.0),
    ],
)
async def test_the_mode_or_the_critic_decides(
    options: dict[str, object], critic: FakeCritic, decision: bool, probability: float
) -> None:
    parts = EN.parts(EN.full, chat=ScriptedChat(), critic=critic)
    trace = await parts.ask("self_rag", **options)

    assert trace.output["retrieval"] == Retrieval(decision, probability)
    assert bool(parts.retriever.asked) == decision
    assert critic.asked == ([] if "retrieval" in options else [EN.question])


@pytest.mark.parametrize(
    ("said", "reply", "workflow"),
    [
        ("Thank you!", "Ask me a question", "self_rag"),
        ("你好", "请提出问题", "self_crag"),
    ],
)
async def test_thanks_and_greetings_are_not_looked_up(said: str, reply: str, workflow: str) -> None:
    parts = EN.parts(EN.full, critic=FakeCritic(share=0.0))
    trace = await traced(parts.services, said, workflow)

    assert reply in trace.answer
    assert trace.answer == trace.streamed
    assert trace.output["citations"] == []
    assert trace.output.get("degraded", []) == []
    assert (parts.retriever.asked, parts.web.queries) == ([], [])


async def test_a_critic_that_cannot_decide_retrieves() -> None:
    parts = EN.parts(EN.full, chat=ScriptedChat(), critic=FakeCritic(share=None))
    trace = await parts.ask("self_rag")

    assert trace.output["retrieval"] == Retrieval(True, 1.0)
    assert trace.failed == ["critic"]
    assert trace.output["stopped_by"] == "accepted"


async def test_without_a_language_model_every_question_retrieves() -> None:
    parts = ZH.parts(ZH.full, critic=FakeCritic(share=0.0))
    trace = await parts.ask("self_rag")
    never = await parts.ask("self_rag", retrieval="never")

    assert trace.output["retrieval"] == Retrieval(True, 0.0)
    assert trace.output["citations"][0].text == ZH.full
    assert (never.answer, never.output["stopped_by"]) == (ZH.unknown, "no_evidence")


async def test_a_direct_answer_that_fails_is_an_abstention() -> None:
    chat = ScriptedChat(fails_on=EN.question)
    trace = await EN.parts(EN.full, chat=chat, critic=FakeCritic(share=0.0)).ask("self_rag")

    assert trace.failed == ["generator"]
    assert (trace.answer, trace.output["stopped_by"]) == (EN.unknown, "no_evidence")
    assert trace.streamed == trace.answer


@both_languages
async def test_each_relevant_passage_is_drafted_from_alone(world: World) -> None:
    chat = ScriptedChat(answers=["One [1].", "Two [1]."])
    critic = FakeCritic(known={"One [1].": replace(GOOD, support=0.9), "Two [1].": GOOD})
    parts = world.parts(world.off, world.half, world.full, chat=chat, critic=critic)
    trace = await parts.ask("self_rag")

    assert trace.nodes == [*BEGINNING, *RETRIEVED, "build_candidates", "draft", "draft", *DRAFTED]
    assert trace.output["action"] is None
    first, second = trace.output["candidates"]
    assert [first.document_ids, second.document_ids] == [("p2",), ("p1",)], "the best first"
    assert [
        text in prompt for prompt in prompts_of(parts) for text in (world.full, world.half)
    ] in (
        [True, False, False, True],
        [False, True, True, False],
    )
    assert {first.answer, second.answer} == {"One [1].", "Two [1]."}
    [chosen] = [draft for draft in (first, second) if draft.chosen]
    assert chosen.answer == trace.answer == trace.streamed == "Two [1]."
    assert (chosen.judgement, chosen.critique_score) == (GOOD, 2.5)
    assert critic.judged == [[first.answer, second.answer]], "judged once, all in one call"
    assert [entry.score for entry in trace.output["critique"]] == [2.5]
    assert trace.output["citations"][0].text == chosen.knowledge[0].text
    assert trace.output["stopped_by"] == "accepted"
    assert len([event for event in trace.said if "token" in event]) == 1


async def test_no_more_drafts_than_allowed_are_written_side_by_side() -> None:
    """Every draft waits for the others to have begun: one after the other would never end."""
    chat = ScriptedChat(meet=asyncio.Barrier(3))
    texts = [f"{EN.full} Part {n}." for n in range(4)]
    trace = await EN.parts(*texts, chat=chat, critic=FakeCritic()).ask("self_rag", max_drafts=3)

    assert len(trace.output["candidates"]) == 3
    assert trace.output["usage"].llm_calls == 3
    assert trace.failed == []


async def test_passages_alike_are_drafted_from_once() -> None:
    parts = EN.parts(EN.full, EN.full, chat=ScriptedChat(), critic=FakeCritic())
    alike = [replace(found, title="Page") for found in parts.retriever.passages]
    parts.retriever.passages = alike
    trace = await parts.ask("self_rag")

    assert len(prompts_of(parts)) == len(trace.output["candidates"]) == 1


async def test_one_failed_draft_of_several_is_quoted_instead() -> None:
    chat = ScriptedChat(answers=["Made [1]."], fails_on=EN.half)
    critic = FakeCritic(known={"Made [1].": GOOD}, script=[POOR])
    trace = await EN.parts(EN.full, EN.half, chat=chat, critic=critic).ask("self_rag")

    assert trace.failed == ["generator"]
    by_generator = {draft.generator: draft for draft in trace.output["candidates"]}
    assert by_generator["fake-chat"].chosen
    assert by_generator["extractive"].knowledge[0].text == EN.half
    assert (trace.answer, trace.streamed) == ("Made [1].", "Made [1].")
    assert trace.output["generator"] == "fake-chat"


@pytest.mark.parametrize("workflow", ["self_rag", "self_crag"])
async def test_a_critic_that_fails_to_judge_leaves_a_draft(workflow: str) -> None:
    critic = FakeCritic(fails_from_call=1)
    chat = ScriptedChat(answers=["One [1].", "Two [1]."])
    parts = EN.parts(EN.full, EN.half, chat=chat, critic=critic)
    trace = await parts.ask(workflow)

    assert trace.failed == ["critic"]
    assert trace.nodes[-1] == "select_candidate", "it is not asked again"
    assert trace.answer in {"One [1].", "Two [1]."}
    assert trace.output["stopped_by"] == "answered"
    assert trace.output.get("critique", []) == []


async def test_of_a_closed_set_the_votes_of_all_drafts_decide() -> None:
    chat = ScriptedChat(answers=["True [1].", "false", "true [1]"])
    judged = {
        "True [1].": Judgement(0.3, 0.3, 0),
        "false": Judgement(0.5, 0.5, 0),
        "true [1]": Judgement(0.4, 0.3, 0),
    }
    texts = [f"{EN.full} Part {n}." for n in range(3)]
    parts = EN.parts(*texts, chat=chat, critic=FakeCritic(known=judged))
    trace = await parts.ask("self_rag", choices=["true", "false"], max_critic=0)

    assert trace.answer == "true"
    assert "true | false" in prompts_of(parts)[0]


async def test_without_a_model_a_choice_is_picked_by_support() -> None:
    parts = EN.parts(EN.full, critic=FakeCritic())
    trace = await parts.ask("self_rag", choices=["in 1852", "in 1901"])

    assert trace.answer == "in 1852"
    assert trace.output["citations"][0].text == EN.full


async def test_irrelevant_passages_make_it_look_again_then_go_to_the_web() -> None:
    parts = ZH.parts(*[ZH.off] * 5, chat=ScriptedChat(), critic=FakeCritic())
    trace = await parts.ask("self_rag", retrieve_k=2)

    assert trace.nodes == [
        *BEGINNING, *RETRIEVED * 2, *WEB, "build_candidates", "draft", *DRAFTED
    ]  # fmt: skip
    assert [k for _, k in parts.retriever.asked] == [2, 4]
    [candidate] = trace.output["candidates"]
    assert (candidate.origin, candidate.document_ids) == ("web", (ZH.url,))
    assert trace.output["citations"][0].source == ZH.url
    assert trace.output["usage"].web_searches == 1


async def test_a_second_look_that_finds_something_is_the_last() -> None:
    parts = EN.parts(EN.off, EN.off, EN.full, chat=ScriptedChat(), critic=FakeCritic())
    trace = await parts.ask("self_rag", retrieve_k=2)

    assert [k for _, k in parts.retriever.asked] == [2, 4]
    assert parts.web.queries == []
    assert [draft.document_ids for draft in trace.output["candidates"]] == [("p2",)]


async def test_it_does_not_look_again_where_no_more_may_be_found() -> None:
    parts = EN.parts(EN.off, chat=ScriptedChat(), critic=FakeCritic())
    await parts.ask("self_rag", retrieve_k=2)

    assert len(parts.retriever.asked) == len(parts.web.queries) == 1


@pytest.mark.parametrize(
    ("workflow", "web", "world"),
    [
        ("self_rag", "noise", EN),
        ("self_rag", "never", ZH),
        ("self_rag", "off", EN),
        ("self_crag", "off", EN),
    ],
)
async def test_where_nothing_is_relevant_it_admits_not_knowing(
    workflow: str, web: str, world: World
) -> None:
    chat, critic = ScriptedChat(), FakeCritic()
    pages = [replace(page, paragraphs=(world.noise,)) for page in world.parts().web.pages]
    parts = world.parts(
        world.off, web=FakeWebSearch(pages), chat=chat, critic=critic, offline=web == "off"
    )
    options = {"web": "never" if web == "never" else "auto"}
    trace = await parts.ask(workflow, **options)

    assert trace.answer == trace.streamed == world.unknown
    assert (trace.output["stopped_by"], trace.output["citations"]) == ("no_evidence", [])
    assert trace.nodes[-2:] == ["build_candidates", "abstain"]
    assert (len(chat.asked), critic.judged) == (web == "noise", []), "keywords, but no draft"
    assert trace.output["degraded"] == []


async def test_where_no_draft_comes_of_it_it_admits_not_knowing() -> None:
    question_only = "When did the Bergen paper mill open?"
    parts = EN.parts(question_only, critic=FakeCritic())
    trace = await parts.ask("self_rag", web="never")

    assert trace.nodes[-2:] == ["judge", "abstain"], "a question answers nothing"
    assert (trace.answer, trace.output["stopped_by"]) == (EN.unknown, "no_evidence")


@SELF
async def test_with_the_evaluator_down_the_model_still_answers(workflow: str, world: World) -> None:
    down = FakeEvaluator(fails_from_call=1)
    parts = world.parts(world.full, evaluator=down, chat=ScriptedChat())
    trace = await parts.ask(workflow)

    assert set(trace.failed) == {"critic", "evaluator"}
    assert (trace.answer, trace.output["stopped_by"]) == ("x [1].", "answered")
    assert trace.output["action"] is None
    assert trace.output["citations"][0].text == world.full


async def test_with_evaluator_and_model_down_it_still_says_something() -> None:
    chat = ScriptedChat(fails_on=EN.question)
    parts = EN.parts(EN.full, evaluator=FakeEvaluator(fails_from_call=1), chat=chat)
    trace = await parts.ask("self_rag")

    assert set(trace.failed) == {"critic", "evaluator", "generator"}
    assert trace.answer == EN.unknown == trace.streamed


CLOSED = [(EN, ["in 1852", "in 1901", "true"]), (ZH, ["1852年", "1901年", "是"])]
WANTING = Judgement(1.0, 0.4, 0.1, uncovered=(EN.question, ZH.question))


@pytest.mark.parametrize(
    ("workflow", "world", "choices", "options"),
    [
        ("self_rag", *CLOSED[0], {}),
        ("self_rag", *CLOSED[1], {"beam_depth": 3}),
        ("self_crag", *CLOSED[1], {}),
        ("crag", *CLOSED[0], {}),
    ],
)
async def test_no_sentence_is_quoted_where_the_set_is_closed(
    workflow: str, world: World, choices: list[str], options: dict[str, Any]
) -> None:
    parts = world.parts(world.full, world.half, critic=FakeCritic(script=[WANTING]))
    trace = await parts.ask(workflow, choices=choices, reflect=True, **options)

    assert without_markers(trace.answer) in choices
    assert trace.answer == trace.streamed
    assert trace.output["stopped_by"] == "unchanged"


@pytest.mark.parametrize(
    ("revision", "answer", "why"),
    [
        ("True [1].", "true", "accepted"),
        ("It is true [1].", "true", "accepted"),
        ("false [1]", "false", "unchanged"),
    ],
)
async def test_a_revision_outside_a_closed_set_is_none(
    revision: str, answer: str, why: str
) -> None:
    chat = ScriptedChat(answers=["false [1]", revision])
    parts = EN.parts(EN.full, chat=chat, critic=FakeCritic(script=[WANTING, GOOD]))
    trace = await parts.ask("self_rag", choices=["true", "false"])

    assert (trace.answer, trace.output["stopped_by"]) == (answer, why)
    assert "It is" not in "".join(e["token"]["text"] for e in trace.said if "token" in e)
