"""A web search that begins beside grading: kept where the action wants it, else thrown away."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from app.websearch.search import SearchesAhead
from graphs.options import Ablation
from graphs.ports import Services
from graphs.state import Context
from graphs.types import Degraded, Scores, Task, Usage, WebPage
from graphs.workflows.crag import build_crag
from tests.app.slow import SlowEvaluator, SlowWebSearch, Waiting
from tests.fakes import FakeChat, FakeEvaluator, FakeWebSearch
from tests.graphs.languages import EN, ZH, Parts, World, both_languages
from tests.graphs.traced import Trace, traced
from tests.graphs.workflows.test_crag import BEGINNING, LOCAL, WEB
from tests.graphs.workflows.threads import on_threads, thread


def speculating(parts: Parts) -> Services:
    return replace(parts.services, search_ahead=SearchesAhead(parts.web))


async def asked(parts: Parts, world: World = EN, **options: Any) -> Trace:
    return await traced(speculating(parts), world.question, speculative_search=True, **options)


@dataclass
class PickyWebSearch(FakeWebSearch):
    """Knows nothing of, or fails at, the question itself; keywords find the pages."""

    refuses: str = ""
    unknown: str = EN.question

    async def search(
        self, query: str, max_pages: int
    ) -> tuple[Sequence[WebPage], Sequence[Degraded]]:
        self.fails = self.refuses == query
        found = await super().search(query, max_pages)
        return ((), ()) if query == self.unknown else found


@dataclass
class HeardWebSearch(SlowWebSearch):
    """Says when it is asked, before it takes its time."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def search(
        self, query: str, max_pages: int
    ) -> tuple[Sequence[WebPage], Sequence[Degraded]]:
        self.asked.set()
        return await super().search(query, max_pages)


class HeardSearchesAhead(SearchesAhead):
    """Says when a search is about to be waited for."""

    def __init__(self, web: FakeWebSearch) -> None:
        super().__init__(web)
        self.taken = asyncio.Event()

    async def take(self, ticket: str) -> Any:
        self.taken.set()
        return await super().take(ticket)


@dataclass
class PatientEvaluator(FakeEvaluator):
    """Scores nothing before the web was asked."""

    web: HeardWebSearch = field(default_factory=HeardWebSearch)

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        await asyncio.wait_for(self.web.asked.wait(), 5)
        return await super().score(task, pairs)


async def test_under_correct_the_search_is_ended_not_awaited() -> None:
    web = HeardWebSearch()
    parts = ZH.parts(ZH.full, ZH.off, web=web, evaluator=PatientEvaluator(web=web))
    trace = await asked(parts, ZH)

    assert trace.nodes == LOCAL
    assert trace.answer.replace("[1]", "") == ZH.full
    assert (len(web.waiting.at_s), len(web.waiting.left_s)) == (1, 1)
    assert trace.output["usage"] == Usage(scored_pairs=4, web_searches=1, discarded_searches=1)
    assert trace.output.get("web_pages", []) == []


@both_languages
async def test_under_incorrect_its_pages_stand_for_those_of_keywords(world: World) -> None:
    chat = FakeChat(chunks=["a [1]"], keywords="never asked")
    parts = world.parts(world.off, chat=chat)
    trace = await asked(parts, world)

    assert trace.nodes == WEB
    assert parts.web.queries == [world.question]
    assert trace.output.get("rewritten_query") is None
    assert [citation.source for citation in trace.output["citations"]] == [world.url]
    assert trace.output["usage"] == Usage(1, 10, 3, scored_pairs=3, web_searches=1)


async def test_it_begins_before_the_grades_are_there() -> None:
    web = HeardWebSearch(EN.parts().web.pages, waiting=Waiting(0))
    trace = await asked(EN.parts(EN.off, web=web, evaluator=PatientEvaluator(web=web)))

    assert web.queries == [EN.question]
    assert trace.output["citations"][0].source == EN.url


@pytest.mark.parametrize("text", [EN.half, EN.full])
async def test_a_web_that_is_down_costs_no_more_than_without(text: str) -> None:
    parts = EN.parts(text, web=FakeWebSearch(fails=True))
    without, ahead = await parts.ask(), await asked(parts)

    for key in ("answer", "citations", "degraded", "stopped_by", "action"):
        assert ahead.output[key] == without.output[key], key
    assert len(parts.web.queries) <= 2, "at most one search each"


@pytest.mark.parametrize("refuses", ["", EN.question], ids=["nothing found", "failed"])
async def test_where_it_brings_nothing_a_second_search_may_follow(refuses: str) -> None:
    parts = EN.parts(EN.off, web=PickyWebSearch(EN.parts().web.pages, refuses=refuses))
    trace = await asked(parts, max_web_searches=2)

    assert trace.nodes == WEB
    assert parts.web.queries == [EN.question, "When, Bergen"]
    assert trace.output["citations"][0].source == EN.url
    assert trace.output["usage"].web_searches == 2
    assert trace.output["degraded"] == []


@pytest.mark.parametrize(
    "options", [{}, {"max_web_searches": 2, "ablation": Ablation(rewriting=False)}]
)
async def test_no_second_search_beyond_the_runs_bound_or_in_the_same_words(
    options: dict[str, Any],
) -> None:
    parts = EN.parts(EN.off, web=PickyWebSearch(EN.parts().web.pages))
    trace = await asked(parts, **options)

    assert trace.nodes == WEB
    assert parts.web.queries == [EN.question]
    assert trace.output["stopped_by"] == "no_evidence"


async def test_without_grades_it_is_thrown_away() -> None:
    parts = EN.parts(EN.full, evaluator=FakeEvaluator(fails_from_call=1))
    trace = await asked(parts)

    assert trace.nodes == [*BEGINNING, "generate"]
    assert trace.output["usage"] == Usage(web_searches=1, discarded_searches=1)


@pytest.mark.parametrize(
    ("texts", "options"),
    [
        ([EN.full], {"speculative_search": False}),
        ([EN.full], {"web": "never"}),
        ([EN.off], {"ablation": Ablation(only_action="correct")}),
    ],
)
async def test_no_search_begins_that_could_not_be_used(
    texts: list[str], options: dict[str, Any]
) -> None:
    parts = EN.parts(*texts)
    trace = await traced(speculating(parts), EN.question, **{"speculative_search": True, **options})

    assert trace.nodes == LOCAL
    assert parts.web.queries == []


async def test_without_passages_there_is_no_grading_to_search_beside() -> None:
    parts = EN.parts()
    trace = await asked(parts)

    assert trace.nodes == WEB
    assert parts.web.queries == ["When, Bergen"]


async def test_beyond_the_cap_a_run_goes_on_as_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.websearch.search.MAX_AHEAD", 1)
    parts = EN.parts(EN.off)
    services = speculating(parts)
    assert services.search_ahead is not None
    with services.search_ahead.begin("of another run", 1):
        trace = await traced(services, EN.question, speculative_search=True)
    after = await traced(services, EN.question, speculative_search=True)

    assert trace.output["rewritten_query"] == "When, Bergen"
    assert trace.output["usage"].web_searches == 1
    assert after.output["rewritten_query"] is None, "the place is free again"
    assert parts.web.queries[-2:] == ["When, Bergen", EN.question]


async def test_a_run_stopped_while_grading_ends_its_search() -> None:
    web = HeardWebSearch()
    services = speculating(EN.parts(EN.off, web=web, evaluator=SlowEvaluator()))
    run = asyncio.create_task(traced(services, EN.question, speculative_search=True))
    await asyncio.wait_for(web.asked.wait(), 5)

    assert await ended(run, web) == 1


async def test_a_run_stopped_while_it_waits_for_its_search_ends_it() -> None:
    web = HeardWebSearch()
    parts = EN.parts(EN.half, web=web, evaluator=PatientEvaluator(web=web))
    ahead = HeardSearchesAhead(web)
    services = replace(parts.services, search_ahead=ahead)
    run = asyncio.create_task(traced(services, EN.question, speculative_search=True))
    await asyncio.wait_for(ahead.taken.wait(), 5)

    assert await ended(run, web) == 1


async def ended(run: asyncio.Task[Trace], web: SlowWebSearch) -> int:
    """How many searches have ended when the cancelled run has."""
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    return len(web.waiting.left_s)


async def test_a_run_resumed_in_another_process_searches_anew() -> None:
    saver, context = InMemorySaver(), Context(speculative_search=True)
    first, second = EN.parts(EN.off), EN.parts(EN.off)
    begun = build_crag(speculating(first))
    begun.checkpointer, begun.interrupt_before_nodes = saver, ["search_web"]
    await begun.ainvoke({"question": EN.question}, thread(), context=context)
    resumed = build_crag(speculating(second))
    resumed.checkpointer = saver
    output = await resumed.ainvoke(None, thread(), context=context)

    assert first.web.queries == [EN.question]
    assert second.web.queries == ["When, Bergen"]
    assert output["usage"].web_searches == 1
    assert output["citations"]


async def test_a_second_question_on_the_thread_takes_no_older_search() -> None:
    parts = EN.parts(EN.off)
    graph, question = on_threads(build_crag, speculating(parts)), {"question": EN.question}
    await graph.ainvoke(question, thread(), context=Context(speculative_search=True))
    plain = await graph.ainvoke(question, thread(), context=Context(follow_ups=False))

    assert parts.web.queries == [EN.question, "When, Bergen"]
    assert plain["usage"].web_searches == 1
