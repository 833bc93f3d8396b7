"""The loop of critique and revision: it ends, keeps the best draft, and repeats no call."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphs.nodes.quote import QUOTED
from graphs.options import Ablation
from graphs.reflection.scores import accepted, score_of
from graphs.state import Context
from graphs.types import Bars, Judgement, Passage, Usage
from tests.fakes import (
    GOOD,
    POOR,
    FakeCritic,
    HalfGoneRetriever,
    KnowingRetriever,
    ScriptedChat,
    passage,
)
from tests.graphs.languages import EN, ZH, Parts, World, both_languages
from tests.graphs.traced import Trace, traced
from tests.graphs.workflows.test_crag import LOCAL

MANY = [f"Draft number {n} [1]." for n in range(20)]
ROUND = ["criticise", "revise", "critique"]


def parts_of(critic: FakeCritic, answers: Sequence[str] = MANY, world: World = EN) -> Parts:
    return world.parts(world.full, chat=ScriptedChat(answers=list(answers)), critic=critic)


async def reflected(parts: Parts, **options: Any) -> Trace:
    return await parts.ask(reflect=True, **options)


def calls_of(parts: Parts) -> list[str]:
    assert parts.chat is not None
    return [parts.chat.prompt(n) for n in range(len(parts.chat.asked))]


async def test_an_accepted_draft_is_not_revised() -> None:
    parts = parts_of(FakeCritic())
    trace = await reflected(parts)

    assert trace.nodes == [*LOCAL, "reflect"]
    assert trace.inner["reflect"] == ["critique"]
    assert trace.answer == trace.streamed == MANY[0]
    [entry] = trace.output["critique"]
    assert (entry.round, entry.accepted, entry.criticism) == (0, True, "")
    assert (entry.relevance, entry.support, entry.utility) == (1, 1, 1)
    assert entry.score == pytest.approx(2.5)
    assert trace.output["stopped_by"] == "accepted"


@pytest.mark.parametrize("most", [0, 1, 3])
async def test_a_critic_that_never_accepts_is_heard_max_critic_times(most: int) -> None:
    parts = parts_of(FakeCritic(script=[POOR]))
    trace = await reflected(parts, max_critic=most)

    last = ["quote"] if most else []
    assert trace.inner["reflect"] == ["critique", *ROUND * most, *last]
    assert len(calls_of(parts)) == 1 + most, "a draft, then a revision a round"
    assert [entry.round for entry in trace.output["critique"]] == list(range(most + 1))
    assert not any(entry.accepted for entry in trace.output["critique"])
    assert trace.output["stopped_by"] == "max_critic"
    assert trace.answer == MANY[0], "of equal ones the first stays"


@both_languages
async def test_the_revision_is_written_from_draft_and_criticism(world: World) -> None:
    critic = FakeCritic(script=[POOR, GOOD], words=["Say the year."])
    parts = parts_of(critic, ["First [1].", "Second [1]."], world)
    trace = await reflected(parts)

    assert trace.answer == trace.streamed == "Second [1]."
    assert trace.output["stopped_by"] == "accepted"
    asked = calls_of(parts)[1]
    for piece in (world.question, world.full, "First [1].", "Say the year."):
        assert piece in asked
    first, second = trace.output["critique"]
    assert (first.criticism, first.accepted, second.accepted) == ("Say the year.", False, True)
    assert [event for event in trace.said if "retract" in event] == [
        {"retract": {"round": 0, "reason": "Say the year."}}
    ]
    assert {e["token"]["round"] for e in trace.said if "token" in e} == {0, 1}
    assert trace.output["citations"][0].text == world.full


async def test_a_generator_that_repeats_itself_is_asked_no_more() -> None:
    parts = parts_of(FakeCritic(script=[POOR]), ["Same [1].", "same [1]"])
    trace = await reflected(parts)

    assert (trace.answer, trace.output["stopped_by"]) == ("Same [1].", "unchanged")
    assert len(calls_of(parts)) == 2
    assert len(trace.output["critique"]) == 1, "what was judged is not judged again"


@both_languages
async def test_rejected_drafts_give_way_to_a_quotation(world: World) -> None:
    critic = FakeCritic(script=[POOR, POOR, GOOD])
    trace = await reflected(parts_of(critic, world=world), max_critic=1)

    assert trace.inner["reflect"] == ["critique", *ROUND, "quote"]
    assert [entry.accepted for entry in trace.output["critique"]] == [False, False]
    assert (trace.output["stopped_by"], trace.output["generator"]) == ("max_critic", "extractive")
    assert [it.text for it in trace.output["citations"]] == [world.full]
    assert [it.reason for it in trace.output["degraded"]] == [QUOTED]


async def test_a_quotation_that_the_critic_rejects_is_not_taken() -> None:
    parts = parts_of(FakeCritic(script=[POOR, POOR, replace(POOR, support=0.45)]))
    trace = await reflected(parts, max_critic=1)

    assert trace.inner["reflect"][-1] == "quote"
    assert (trace.answer, trace.output["degraded"]) == (MANY[0], [])


async def test_a_draft_that_admits_not_knowing_stays() -> None:
    refusal = replace(POOR, support=0.0, utility=-0.99)
    trace = await reflected(parts_of(FakeCritic(script=[refusal])), max_critic=1)

    assert (trace.answer, trace.inner["reflect"][-1]) == (MANY[0], "critique")


async def test_nothing_is_quoted_in_another_language() -> None:
    """A Chinese answer from English documents."""
    chat = ScriptedChat(answers=[f"卑尔根造纸厂：{n}[1]。" for n in range(9)])
    parts = EN.parts(EN.full, chat=chat, critic=FakeCritic(script=[POOR, POOR, GOOD]))
    open_to_all = {"ablation": Ablation(only_action="correct"), "strip_floor": -1.0, "lower": -1.0}
    trace = await traced(
        parts.services, "造纸厂何时开业？", "crag", reflect=True, max_critic=1, **open_to_all
    )

    assert trace.inner["reflect"][-1] == "quote"
    assert trace.answer == "卑尔根造纸厂：0[1]。"


async def test_a_cycle_ends_where_it_closes() -> None:
    parts = parts_of(FakeCritic(script=[POOR]), ["A one [1].", "B two [1].", "A one [1]."] * 5)
    trace = await reflected(parts, max_critic=10)

    assert trace.output["stopped_by"] == "unchanged"
    assert len(trace.output["critique"]) == 2
    asked = calls_of(parts)
    assert len(asked) == len(set(asked)) == 3


async def test_the_best_draft_is_kept_not_the_last() -> None:
    middling = replace(POOR, support=0.6)
    parts = parts_of(FakeCritic(script=[POOR, middling, POOR]))
    trace = await reflected(parts, max_critic=2)

    assert trace.answer == MANY[1]
    assert [entry.score for entry in trace.output["critique"]] == pytest.approx([0.95, 1.35, 0.95])


async def test_an_accepted_revision_stands_though_an_earlier_one_scored_higher() -> None:
    weak = Judgement(1, 1, 1, weak=("It is so.",))
    parts = parts_of(FakeCritic(script=[weak, Judgement(0.5, 0.8, 0.8)]))
    trace = await reflected(parts)

    assert (trace.answer, trace.output["stopped_by"]) == (MANY[1], "accepted")


BETTER = replace(POOR, support=0.5)


@pytest.mark.parametrize(
    ("critic", "judged"),
    [
        *((FakeCritic(script=[POOR, BETTER], fails_from_call=n + 1), n) for n in range(3)),
        (FakeCritic(script=[Judgement()]), 0),
        (FakeCritic(script=[POOR, BETTER, Judgement()]), 2),
    ],
)
async def test_a_critic_that_fails_or_judges_nothing_leaves_the_best_draft(
    critic: FakeCritic, judged: int
) -> None:
    trace = await reflected(parts_of(critic))

    assert (trace.failed, trace.output["stopped_by"]) == (["critic"], "answered")
    assert len(trace.output.get("critique", [])) == judged
    assert trace.answer == MANY[1 if judged == 2 else 0]
    assert trace.output["citations"]


async def test_a_critic_without_words_is_quoted_by_its_judgement() -> None:
    weak = Judgement(1, 0.2, 0, weak=("Draft number 0.",))
    parts = parts_of(FakeCritic(script=[weak, GOOD], fails_to_criticise=True))
    trace = await reflected(parts)

    assert trace.failed == ["critic"]
    assert trace.output["stopped_by"] == "accepted"
    assert "Draft number 0." in trace.output["critique"][0].criticism
    assert trace.output["critique"][0].criticism in calls_of(parts)[1]


async def test_a_generator_that_fails_to_revise_leaves_the_draft() -> None:
    parts = parts_of(FakeCritic(script=[POOR], words=["Mend it."]))
    assert isinstance(parts.chat, ScriptedChat)
    parts.chat.fails_on = "Mend it."
    trace = await reflected(parts)

    assert (trace.failed, trace.answer) == (["generator"], MANY[0])
    assert trace.output["stopped_by"] == "unchanged"
    assert len(calls_of(parts)) == 2, "a failed call is not repeated"
    assert trace.output["usage"].llm_calls == 2


@pytest.mark.parametrize(
    ("options", "rounds"),
    [({"max_llm_calls": 2}, 2), ({"max_tokens": 27}, 3)],
)
async def test_the_budget_ends_the_loop(options: dict[str, int], rounds: int) -> None:
    trace = await reflected(parts_of(FakeCritic(script=[POOR])), max_critic=10, **options)

    assert (trace.answer, trace.output["stopped_by"]) == (MANY[0], "budget")
    assert len(trace.output["critique"]) == rounds
    assert "quote" not in trace.inner["reflect"], "revision had not come to its end"


async def test_the_critics_calls_are_of_the_budget() -> None:
    parts = parts_of(FakeCritic(script=[POOR], costs=Usage(llm_calls=3)))
    trace = await reflected(parts, max_llm_calls=8)

    assert trace.output["stopped_by"] == "budget"
    assert trace.output["usage"].llm_calls == 8


async def test_where_rounds_and_budget_end_together_it_is_the_budget() -> None:
    trace = await reflected(parts_of(FakeCritic(script=[POOR])), max_critic=0, max_llm_calls=1)

    assert trace.output["stopped_by"] == "budget", "named before max_critic by the contract"


async def test_an_abstention_is_not_reflected_on() -> None:
    critic = FakeCritic()
    trace = await reflected(EN.parts(EN.off, offline=True, critic=critic))

    assert "reflect" not in trace.nodes
    assert (trace.output["stopped_by"], critic.judged) == ("no_evidence", [])


OPEN = "who paid for the mill"
PAID = Passage("new", "Merchants paid for the mill who dared.", "Money", "docs/en/money.md")


@pytest.mark.parametrize(
    ("workflow", "chat"),
    [("crag", False), ("self_rag", True), ("self_crag", False), ("reflect", True)],
)
async def test_an_open_part_brings_new_strips_that_are_cited(workflow: str, chat: bool) -> None:
    lacking = Judgement(1, 1, 0.2, uncovered=(OPEN,))
    parts = EN.parts(
        EN.full,
        chat=ScriptedChat(answers=["One [1].", "One [1]. Two [2]."]) if chat else None,
        critic=FakeCritic(script=[lacking, GOOD]),
    )
    retriever = KnowingRetriever([passage(EN.full)], known={OPEN: [PAID]})
    asked = replace(parts.services, retriever=retriever)
    options: dict[str, Any] = {"reflect": True} if workflow == "crag" else {}
    trace = await traced(asked, EN.question, workflow, **options)

    assert trace.output["stopped_by"] == "accepted"
    assert [query for query, _ in retriever.asked] == [EN.question, OPEN]
    strips = {strip.id: strip for strip in trace.output["internal_strips"]}
    documents = {document.id: document for document in trace.output["documents"]}
    cited = trace.output["citations"]
    assert [citation.text for citation in cited] == [EN.full, PAID.text]
    for citation in cited:
        strip = strips[citation.strip_id]
        assert strip.kept
        assert (strip.text, strip.score) == (citation.text, citation.score)
        assert documents[strip.document_id].source == citation.source
        assert all(f"[{citation.n}]" in trace.answer[a:b] for a, b in citation.spans)
    assert len(documents) == len(trace.output["documents"]), "none twice"
    scores = [document.score for document in trace.output["documents"]]
    assert scores == sorted(scores, reverse=True), "best first still"


async def test_a_part_that_stays_open_brings_no_strip_twice() -> None:
    lacking = Judgement(1, 1, 0.2, uncovered=(OPEN,))
    beside = Passage("beside", "Nothing of that.", "Other", "docs/en/other.md")
    parts = EN.parts(
        EN.full,
        chat=ScriptedChat(answers=["One [1].", "One [1]. Two [2].", "Two [2]. One [1]."]),
        critic=FakeCritic(script=[lacking, lacking, GOOD]),
    )
    retriever = KnowingRetriever([passage(EN.full)], known={OPEN: [PAID, beside]})
    asked = replace(parts.services, retriever=retriever)
    trace = await traced(asked, EN.question, "self_rag")

    assert trace.output["stopped_by"] == "accepted"
    strips = trace.output["internal_strips"]
    assert len({strip.id for strip in strips}) == len(strips)
    documents = [document.id for document in trace.output["documents"]]
    assert len(set(documents)) == len(documents)
    assert {strip.document_id for strip in strips} == set(documents)


async def test_a_draft_of_which_nothing_would_be_left_stays() -> None:
    weak = Judgement(1, 0.1, 1, weak=(ZH.full,))
    trace = await reflected(ZH.parts(ZH.full, critic=FakeCritic(script=[weak])))

    assert (trace.output["stopped_by"], trace.answer) == ("unchanged", trace.streamed)
    assert not [event for event in trace.said if "retract" in event], "nothing new was told"


@pytest.mark.parametrize("left", [[], [PAID]], ids=["nothing", "something"])
async def test_an_index_that_fails_at_a_revision_costs_no_more_than_it_did_not_find(
    left: list[Passage],
) -> None:
    lacking = Judgement(1, 1, 0.2, uncovered=(OPEN,))
    said = ["One [1].", "One [1]. Two [2]."]
    parts = parts_of(FakeCritic(script=[lacking, GOOD]), said)
    retriever = HalfGoneRetriever([passage(EN.full)], left=left)
    asked = replace(parts.services, retriever=retriever)
    trace = await traced(asked, EN.question, "crag", reflect=True)

    assert trace.failed == ["retriever"]
    assert trace.output["stopped_by"] == "accepted"
    texts = [citation.text for citation in trace.output["citations"]]
    assert texts == [EN.full, *(it.text for it in left)]


@both_languages
async def test_without_a_language_model_the_evaluator_alone_brings_it_to_an_end(
    world: World,
) -> None:
    trace = await reflected(world.parts(world.full))

    assert trace.output["stopped_by"] in {"accepted", "unchanged", "max_critic"}
    assert 1 <= len(trace.output["critique"]) <= 4
    assert trace.output["citations"]
    assert trace.output["usage"].llm_calls == 0


judgements = st.builds(
    Judgement,
    relevance=st.floats(0, 1) | st.none(),
    support=st.floats(0, 1) | st.none(),
    utility=st.floats(-1, 1) | st.none(),
    weak=st.sampled_from([(), ("Draft number 0.",)]),
    uncovered=st.sampled_from([(), (), ("who paid",)]),
).filter(lambda judgement: judgement != Judgement())  # which is none: the critic failed


@settings(max_examples=10)
@given(
    script=st.lists(judgements, min_size=1, max_size=6),
    answers=st.lists(st.sampled_from(["A [1].", "B [1].", "C.", "D [7]."]), min_size=1, max_size=6),
    words=st.lists(st.sampled_from(["Longer.", "Shorter.", ""]), min_size=1, max_size=3),
    most=st.integers(0, 5),
)
async def test_whatever_critic_and_generator_say_it_ends_with_the_best(
    script: list[Judgement], answers: list[str], words: list[str], most: int
) -> None:
    parts = parts_of(FakeCritic(script=script, words=words), answers)
    trace = await reflected(parts, max_critic=most)
    asked, rounds = calls_of(parts), trace.output["critique"]

    assert len(asked) == len(set(asked)) <= most + 1, "no call is made twice"
    assert 1 <= len(rounds) <= most + 1
    assert trace.output["stopped_by"] in {"accepted", "unchanged", "max_critic"}
    judged = [(draft, n) for n, [draft] in enumerate(parts.critic.judged)]  # type: ignore[union-attr]
    said = [script[min(n, len(script) - 1)] for _, n in judged]
    scores = [score_of(judgement, Context()) for judgement in said]
    assert [entry.score for entry in rounds] == scores[: len(rounds)]
    assert len(judged) - len(rounds) <= 1, "the quotation is judged as well"
    was_accepted = accepted(said[len(rounds) - 1], Bars())
    assert was_accepted == (trace.output["stopped_by"] == "accepted")
    best = max(judged[: len(rounds)], key=lambda item: scores[item[1]])
    assert trace.answer == (judged[-1] if accepted(said[-1], Bars()) else best)[0]
