"""A run that has spent its budget ends with what it has, in every workflow and language."""

from dataclasses import replace

import pytest

from graphs.generation.answer import EXTRACTIVE
from graphs.options import Ablation
from graphs.state import Context, Question
from graphs.types import Draft, Judgement, Usage, WebPage
from graphs.workflows.registry import WORKFLOWS
from tests import fakes
from tests.umbra import ENGLISH, TOWER, TURM

CHINESE = "乌木城的红塔有多高？"
PAGE = WebPage("https://example.org/tower", "Tower", 0.9, (TOWER.text, TURM.text))
REFLECTING = [("crag", ENGLISH), ("self_rag", CHINESE), ("self_crag", ENGLISH)]
reflecting = pytest.mark.parametrize(("workflow", "question"), REFLECTING)
both_questions = pytest.mark.parametrize("question", [ENGLISH, CHINESE], ids=["en", "zh"])


def parts(chat: fakes.FakeChat) -> fakes.Services:
    return fakes.services(
        fakes.FakeRetriever([TOWER, TURM]),
        web_search=fakes.FakeWebSearch([PAGE]),
        chat=chat,
        critic=fakes.FakeCritic(script=(fakes.POOR,)),
    )


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
    context = Context(ablation=Ablation(only_action="incorrect"), reflect=True, **spent)
    graph = WORKFLOWS[workflow].build(parts(chat))
    answer = await graph.ainvoke(Question(question=question), context=context)

    assert len(chat.asked) == 1
    assert answer["answer"]
    assert answer["stopped_by"] == ("answered" if workflow == "rag" else "budget")


@reflecting
async def test_an_accepted_answer_quoted_for_want_of_calls_is_the_budget_s(
    workflow: str, question: str
) -> None:
    chat = fakes.FakeChat(chunks=["Tall [1]."], keywords="Umbra, tower")
    fruit = fakes.FakeRetriever([fakes.passage("Bananas are yellow fruit. 香蕉是黄色的。", 1)])
    services = replace(parts(chat), retriever=fruit, critic=fakes.FakeCritic())
    graph = WORKFLOWS[workflow].build(services)
    context = Context(reflect=True, max_llm_calls=1)
    answer = await graph.ainvoke(Question(question=question), context=context)

    assert answer["generator"] == EXTRACTIVE
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
    chat = fakes.FakeChat(chunks=["Tall [1]."], keywords="Umbra, tower")
    fruit = fakes.FakeRetriever([fakes.passage("Bananas are yellow fruit. 香蕉是黄色的。", 1)])
    services = replace(parts(chat), retriever=fruit, critic=critic)
    graph = WORKFLOWS[workflow].build(services)
    answer = await graph.ainvoke(Question(question=question), context=Context(max_llm_calls=1))

    assert "critic" in {entry.component for entry in answer["degraded"]}
    assert (answer["generator"], answer["stopped_by"]) == (EXTRACTIVE, "budget")


@pytest.mark.parametrize(("workflow", "question"), REFLECTING[:2])
async def test_what_is_quoted_for_the_model_that_failed_at_its_last_call_is_not_the_budget_s(
    workflow: str, question: str
) -> None:
    chat = fakes.ScriptedChat(fails_on=question)
    graph = WORKFLOWS[workflow].build(replace(parts(chat), critic=fakes.FakeCritic()))
    context = Context(
        ablation=Ablation(only_action="correct"), reflect=True, retrieval="always", max_llm_calls=1
    )
    answer = await graph.ainvoke(Question(question=question), context=context)

    assert "generator" in {entry.component for entry in answer["degraded"]}
    assert (answer["usage"].llm_calls, answer["generator"]) == (1, EXTRACTIVE)
    assert answer["stopped_by"] == "accepted"


@pytest.mark.parametrize(("workflow", "question"), REFLECTING[:2])
async def test_a_draft_of_the_last_call_is_accepted(workflow: str, question: str) -> None:
    """The budget changed nothing of it."""
    chat = fakes.FakeChat(chunks=["Tall [1]."])
    graph = WORKFLOWS[workflow].build(replace(parts(chat), critic=fakes.FakeCritic()))
    context = Context(
        ablation=Ablation(only_action="correct"), reflect=True, retrieval="always", max_llm_calls=1
    )
    answer = await graph.ainvoke(Question(question=question), context=context)

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
    graph = WORKFLOWS[workflow].build(services)
    # All strips are kept, and no sentence of them is good enough to be quoted.
    context = Context(
        strip_floor=-1.0,
        lower=0.9,
        upper=0.95,
        max_llm_calls=1,
        beam_depth=beam_depth,
        retrieval="always",
    )
    answer = await graph.ainvoke(Question(question=question), context=context)

    assert not answer["citations"]
    assert answer["stopped_by"] == ("budget" if has_page else "no_evidence")


@pytest.mark.parametrize(
    ("workflow", "spent"),
    [
        ("crag", {"max_llm_calls": 1}),
        ("self_rag", {"max_tokens": 1}),
        ("self_crag", {"max_tokens": 1}),
    ],
)
async def test_no_draft_is_revised_beyond_it(workflow: str, spent: dict[str, int]) -> None:
    chat = fakes.FakeChat(chunks=["Tall [1]."])
    context = Context(
        ablation=Ablation(only_action="correct"), reflect=True, retrieval="always", **spent
    )
    graph = WORKFLOWS[workflow].build(parts(chat))
    answer = await graph.ainvoke(Question(question=ENGLISH), context=context)

    assert answer["stopped_by"] == "budget"
    assert answer["answer"] == "Tall [1]."
    assert len(chat.asked) == 1


async def test_a_long_answer_ends_where_it_has_come_to() -> None:
    chat = fakes.FakeChat(chunks=["Tall."], keywords="It is tall.")
    context = Context(beam_depth=5, max_llm_calls=2, retrieval="always")
    graph = WORKFLOWS["self_rag"].build(parts(chat))
    answer = await graph.ainvoke(Question(question=ENGLISH), context=context)

    assert answer["stopped_by"] == "budget"
    assert answer["answer"]
    assert len(chat.asked) <= 2


@both_questions
async def test_a_long_answer_quoted_for_want_of_calls_is_the_budget_s(question: str) -> None:
    chat = fakes.FakeChat(chunks=["Tall [1]."], keywords="Umbra, tower")
    fruit = fakes.FakeRetriever([fakes.passage("Bananas are yellow fruit. 香蕉是黄色的。", 1)])
    services = replace(parts(chat), retriever=fruit, critic=fakes.FakeCritic())
    graph = WORKFLOWS["self_rag"].build(services)
    context = Context(beam_depth=2, max_llm_calls=1)
    answer = await graph.ainvoke(Question(question=question), context=context)

    assert len(chat.asked) == 1
    assert (answer["generator"], answer["stopped_by"]) == (EXTRACTIVE, "budget")


async def test_no_more_web_searches_than_allowed() -> None:
    web = fakes.FakeWebSearch([PAGE])
    services = fakes.services(fakes.FakeRetriever([TOWER]), web_search=web)
    for most in (0, 1):
        context = Context(
            ablation=Ablation(only_action="incorrect"), web="always", max_web_searches=most
        )
        await (
            WORKFLOWS["self_crag"]
            .build(services)
            .ainvoke(Question(question=ENGLISH), context=context)
        )
        assert len(web.queries) == most


async def test_no_more_segments_are_asked_for_than_calls_are_left() -> None:
    pages = [fakes.passage(f"The red tower of Umbra has {n} floors.", n) for n in range(1, 8)]
    chat = fakes.FakeChat(chunks=["Tall."], keywords="It is tall.")
    critic = fakes.FakeCritic(script=(fakes.POOR,))
    services = fakes.services(fakes.FakeRetriever(pages), chat=chat, critic=critic)
    context = Context(beam_depth=3, max_drafts=7, max_llm_calls=3, retrieval="always")
    await WORKFLOWS["self_rag"].build(services).ainvoke(Question(question=ENGLISH), context=context)

    assert len(chat.asked) == 3


@pytest.mark.parametrize(("question", "most"), [(ENGLISH, 1), (CHINESE, 2)])
async def test_a_question_is_expanded_by_no_more_calls_than_are_left(
    question: str, most: int
) -> None:
    chat = fakes.FakeChat(chunks=["Tall [1]."], keywords="red tower height 红塔")
    context = Context(expand=["rewrite", "decompose", "hyde"], max_llm_calls=most)
    graph = WORKFLOWS["crag"].build(parts(chat))
    answer = await graph.ainvoke(Question(question=question), context=context)

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
    context = Context(ablation=Ablation(only_action="correct"), reflect=True, max_llm_calls=3)
    answer = (
        await WORKFLOWS["crag"]
        .build(services)
        .ainvoke(Question(question=question), context=context)
    )

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
    graph = WORKFLOWS[workflow].build(services)
    context = Context(retrieval="adaptive", max_llm_calls=1)
    answer = await graph.ainvoke(Question(question=question), context=context)

    assert chat.asked == []
    assert (answer["retrieval"].decision, answer["retrieval"].probability) == (True, 0.0)
    assert answer["citations"]


async def test_steps_before_retrieval_keep_to_it() -> None:
    chat = fakes.FakeChat(chunks=["Tall [1]."], keywords="When was the red tower built?")
    context = Context(expand=["rewrite", "decompose", "hyde"], max_llm_calls=1)
    asked = Question(
        question="它是什么时候建成的？", history=[{"role": "user", "content": "The red tower?"}]
    )
    await WORKFLOWS["rag"].build(parts(chat)).ainvoke(asked, context=context)

    assert len(chat.asked) == 1
