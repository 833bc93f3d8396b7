"""A run that has spent its budget ends with what it has, in every workflow and language."""

from dataclasses import replace
from typing import Any

import pytest

from graphs.generation.answer import EXTRACTIVE
from graphs.options import Ablation
from graphs.types import Draft, Judgement, Usage, WebPage
from tests import fakes
from tests.graphs.traced import traced
from tests.umbra import ENGLISH, TOWER, TURM

CHINESE = "乌木城的红塔有多高？"
PAGE = WebPage("https://example.org/tower", "Tower", 0.9, (TOWER.text, TURM.text))
REFLECTING = [("crag", ENGLISH), ("self_rag", CHINESE), ("self_crag", ENGLISH)]
CORRECT = Ablation(only_action="correct")
LAST_CALL = {"ablation": CORRECT, "reflect": True, "retrieval": "always", "max_llm_calls": 1}
both_questions = pytest.mark.parametrize("question", [ENGLISH, CHINESE], ids=["en", "zh"])


def parts(chat: fakes.FakeChat) -> fakes.Services:
    return fakes.services(
        fakes.FakeRetriever([TOWER, TURM]),
        web_search=fakes.FakeWebSearch([PAGE]),
        chat=chat,
        critic=fakes.FakeCritic(script=(fakes.POOR,)),
    )


def off_topic(critic: fakes.FakeCritic) -> fakes.Services:
    """Where the only call that is left goes to rewriting the question for the web."""
    fruit = fakes.FakeRetriever([fakes.passage("Bananas are yellow fruit. 香蕉是黄色的。", 1)])
    chat = fakes.FakeChat(chunks=["Tall [1]."], keywords="Umbra, tower")
    return replace(parts(chat), retriever=fruit, critic=critic)


async def answered(
    services: fakes.Services, workflow: str, question: str = ENGLISH, **options: Any
) -> dict[str, Any]:
    return (await traced(services, question, workflow, **options)).output


@pytest.mark.parametrize(
    ("workflow", "question", "spent"),
    [
        ("rag", CHINESE, {"max_llm_calls": 1}),
        ("crag", ENGLISH, {"max_tokens": 1}),
        ("self_rag", CHINESE, {"max_llm_calls": 1}),
        ("self_crag", CHINESE, {"max_tokens": 1}),
    ],
)
async def test_the_web_is_searched_and_quoted_when_rewriting_took_the_last_call(
    workflow: str, question: str, spent: dict[str, int]
) -> None:
    chat = fakes.FakeChat(chunks=["Tall [1]."], keywords="Umbra, tower")
    incorrect = Ablation(only_action="incorrect")
    answer = await answered(
        parts(chat), workflow, question, ablation=incorrect, reflect=True, **spent
    )

    assert len(chat.asked) == 1
    assert answer["answer"]
    assert answer["stopped_by"] == ("answered" if workflow == "rag" else "budget")


@pytest.mark.parametrize(
    ("workflow", "question", "options"),
    [
        *((*pair, {"reflect": True}) for pair in REFLECTING),
        *(("self_rag", question, {"beam_depth": 2}) for question in (ENGLISH, CHINESE)),
    ],
)
async def test_an_accepted_answer_quoted_for_want_of_calls_is_the_budget_s(
    workflow: str, question: str, options: dict[str, Any]
) -> None:
    services = off_topic(fakes.FakeCritic())
    answer = await answered(services, workflow, question, max_llm_calls=1, **options)

    assert (answer["usage"].llm_calls, answer["generator"]) == (1, EXTRACTIVE)
    assert answer["stopped_by"] == "budget"


@pytest.mark.parametrize(
    ("workflow", "question", "critic"),
    [
        ("self_rag", ENGLISH, fakes.FakeCritic(fails_from_call=1)),
        ("self_crag", CHINESE, fakes.FakeCritic(script=(Judgement(),))),
    ],
    ids=["fails", "judges nothing"],
)
async def test_what_is_quoted_for_want_of_calls_is_the_budget_s_where_the_critic_fails(
    workflow: str, question: str, critic: fakes.FakeCritic
) -> None:
    answer = await answered(off_topic(critic), workflow, question, max_llm_calls=1)

    assert "critic" in {entry.component for entry in answer["degraded"]}
    assert (answer["generator"], answer["stopped_by"]) == (EXTRACTIVE, "budget")


@pytest.mark.parametrize(("workflow", "question"), REFLECTING[:2])
async def test_what_is_quoted_for_the_model_that_failed_at_its_last_call_is_not_the_budget_s(
    workflow: str, question: str
) -> None:
    chat = fakes.ScriptedChat(fails_on=question)
    services = replace(parts(chat), critic=fakes.FakeCritic())
    answer = await answered(services, workflow, question, **LAST_CALL)

    assert "generator" in {entry.component for entry in answer["degraded"]}
    assert (answer["usage"].llm_calls, answer["generator"]) == (1, EXTRACTIVE)
    assert answer["stopped_by"] == "accepted"


@pytest.mark.parametrize(("workflow", "question"), REFLECTING[:2])
async def test_a_draft_of_the_last_call_is_accepted(workflow: str, question: str) -> None:
    """The budget changed nothing of it."""
    chat = fakes.FakeChat(chunks=["Tall [1]."])
    services = replace(parts(chat), critic=fakes.FakeCritic())
    answer = await answered(services, workflow, question, **LAST_CALL)

    assert (answer["answer"], answer["stopped_by"]) == ("Tall [1].", "accepted")


@pytest.mark.parametrize(
    ("workflow", "question", "text", "beam_depth"),
    [
        ("crag", "红塔有多高？", "香蕉是黄色的水果。", 0),
        ("self_rag", "How tall is the tower?", "Bananas are yellow fruit.", 0),
        ("self_rag", "红塔有多高？", "香蕉是黄色的水果。", 2),
        ("self_crag", "How tall is the tower?", "Bananas are yellow fruit.", 0),
    ],
)
@pytest.mark.parametrize("has_page", [True, False])
async def test_who_could_quote_nothing_for_want_of_calls_abstains_for_the_budget(
    workflow: str, question: str, text: str, beam_depth: int, has_page: bool
) -> None:
    """Without any knowledge a model would have written nothing either."""
    chat = fakes.FakeChat(chunks=["Tall [1]."], keywords="tower")
    pages = [WebPage("https://example.org", "Fruit", 0.9, (text,))] if has_page else []
    services = replace(
        parts(chat),
        retriever=fakes.FakeRetriever([fakes.passage(text, 1)]),
        web_search=fakes.FakeWebSearch(pages),
    )
    # All strips are kept, and no sentence of them is good enough to be quoted.
    options = {"strip_floor": -1.0, "lower": 0.9, "upper": 0.95, "retrieval": "always"}
    answer = await answered(
        services, workflow, question, max_llm_calls=1, beam_depth=beam_depth, **options
    )

    assert not answer["citations"]
    assert answer["stopped_by"] == ("budget" if has_page else "no_evidence")


@pytest.mark.parametrize(
    ("workflow", "spent"),
    [("self_rag", {"max_llm_calls": 1}), ("self_crag", {"max_tokens": 1})],
)
async def test_no_draft_is_revised_beyond_it(workflow: str, spent: dict[str, int]) -> None:
    chat = fakes.FakeChat(chunks=["Tall [1]."])
    options = {"ablation": CORRECT, "reflect": True, "retrieval": "always", **spent}
    answer = await answered(parts(chat), workflow, **options)

    assert answer["stopped_by"] == "budget"
    assert answer["answer"] == "Tall [1]."
    assert len(chat.asked) == 1


async def test_a_long_answer_ends_where_it_has_come_to() -> None:
    chat = fakes.FakeChat(chunks=["Tall."], keywords="It is tall.")
    options = {"beam_depth": 5, "max_llm_calls": 2, "retrieval": "always"}
    answer = await answered(parts(chat), "self_rag", **options)

    assert answer["stopped_by"] == "budget"
    assert answer["answer"]
    assert len(chat.asked) <= 2


async def test_no_more_web_searches_than_allowed() -> None:
    web = fakes.FakeWebSearch([PAGE])
    services = fakes.services(fakes.FakeRetriever([TOWER]), web_search=web)
    incorrect = Ablation(only_action="incorrect")
    for most in (0, 1):
        options = {"ablation": incorrect, "web": "always", "max_web_searches": most}
        await answered(services, "self_crag", **options)
        assert len(web.queries) == most


async def test_no_more_segments_are_asked_for_than_calls_are_left() -> None:
    pages = [fakes.passage(f"The red tower of Umbra has {n} floors.", n) for n in range(1, 8)]
    chat = fakes.FakeChat(chunks=["Tall."], keywords="It is tall.")
    critic = fakes.FakeCritic(script=(fakes.POOR,))
    services = fakes.services(fakes.FakeRetriever(pages), chat=chat, critic=critic)
    options = {"beam_depth": 3, "max_drafts": 7, "max_llm_calls": 3, "retrieval": "always"}
    await answered(services, "self_rag", **options)

    assert len(chat.asked) == 3


@pytest.mark.parametrize(("question", "most"), [(ENGLISH, 1), (CHINESE, 2)])
async def test_a_question_is_expanded_by_no_more_calls_than_are_left(
    question: str, most: int
) -> None:
    chat = fakes.FakeChat(chunks=["Tall [1]."], keywords="red tower height 红塔")
    ways = ["rewrite", "decompose", "hyde"]
    answer = await answered(parts(chat), "crag", question, expand=ways, max_llm_calls=most)

    assert len(chat.asked) == answer["usage"].llm_calls == most
    assert answer["stopped_by"] == "budget"
    assert answer["citations"]


@both_questions
async def test_a_criticism_that_took_the_last_call_is_not_followed(question: str) -> None:
    class Wordy(fakes.FakeCritic):
        async def criticise(
            self, question: str, draft: Draft, judgement: Judgement, /
        ) -> tuple[str, Usage]:
            words, _ = await super().criticise(question, draft, judgement)
            return words, Usage(llm_calls=1)

    chat = fakes.FakeChat(chunks=["Tall [1]."])
    critic = Wordy(script=(fakes.POOR,), costs=Usage(llm_calls=1))
    services = fakes.services(fakes.FakeRetriever([TOWER, TURM]), chat=chat, critic=critic)
    options = {"ablation": CORRECT, "reflect": True, "max_llm_calls": 3}
    answer = await answered(services, "crag", question, **options)

    assert answer["usage"].llm_calls == 3
    assert (answer["answer"], answer["stopped_by"]) == ("Tall [1].", "budget")
    assert len(chat.asked) == len(critic.criticised) == 1


@pytest.mark.parametrize(("workflow", "question"), REFLECTING[:2])
async def test_what_no_model_may_answer_any_more_is_looked_up(workflow: str, question: str) -> None:
    class Costly(fakes.FakeCritic):
        async def needs_retrieval(self, question: str) -> tuple[float, Usage]:
            share, _ = await super().needs_retrieval(question)
            return share, Usage(llm_calls=1)

    chat = fakes.FakeChat(chunks=["Tall."])
    services = replace(parts(chat), critic=Costly(share=0.0))
    options = {"retrieval": "adaptive", "max_llm_calls": 1}
    answer = await answered(services, workflow, question, **options)

    assert chat.asked == []
    assert (answer["retrieval"].decision, answer["retrieval"].probability) == (True, 0.0)
    assert answer["citations"]


async def test_steps_before_retrieval_keep_to_it() -> None:
    chat = fakes.FakeChat(chunks=["Tall [1]."], keywords="When was the red tower built?")
    ways = ["rewrite", "decompose", "hyde"]
    history = [{"role": "user", "content": "The red tower?"}]
    question = "它是什么时候建成的？"
    await traced(parts(chat), question, "rag", history, expand=ways, max_llm_calls=1)

    assert len(chat.asked) == 1
