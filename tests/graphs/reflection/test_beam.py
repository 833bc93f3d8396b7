"""Long answers: segments from several passages, the best paths kept, each segment cited."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from pydantic import Field

from graphs.errors import GeneratorFailed
from graphs.generation.answer import cited
from graphs.options import Ablation
from graphs.ports import Reflected
from graphs.reflection.beam import drafts_of, next_beam
from graphs.text.citations import citations_in, with_marker
from graphs.types import Draft, Extension, Judgement, Path, Segment, Strip, Usage, WebPage
from tests.fakes import FakeChat, FakeCritic, FakeWebSearch, HalfGoneRetriever, passage
from tests.graphs.languages import EN, ZH, World
from tests.graphs.traced import traced

SCORES = st.floats(-0.5, 2.5)


def strip(n: int) -> Strip:
    return Strip(f"s{n}", f"d{n}", f"Text {n}.", "Title", "a.md", "internal", (0, n))


def segment(text: str, score: float = 1.0, n: int = 0, **said: object) -> Segment:
    return replace(Segment(text, strip(n), Judgement(1, 1, 1), critique_score=score), **said)  # type: ignore[arg-type]


@given(st.lists(SCORES, min_size=1, max_size=5))
def test_among_paths_of_one_length_the_product_ranks(scores: list[float]) -> None:
    path = Path((), tuple(segment(str(n), score) for n, score in enumerate(scores)))

    product = math.prod(max(score, 0) for score in scores)
    assert path.score == pytest.approx(product ** (1 / len(scores)))


def test_backticks_left_open_hide_no_marker() -> None:
    for first, second in [
        ("Use `foo.", "It is `x` here."),
        ("Run ```make run to serve.", "It listens on 8080."),
        ("使用 `foo。", "它是 `x`。"),
        ("运行 ```make run 来启动。", "它监听 8080。"),
    ]:
        path = Path((), (segment(first, n=0), segment(second, n=1)))
        [draft] = drafts_of([path])
        assert [c.n for c in citations_in(draft.answer, draft.knowledge)] == [1, 2]

        [citation] = citations_in(cited(f"{first} {second}"), [strip(0)])
        assert len(citation.spans) == 2


def test_the_best_paths_are_kept_and_no_wording_twice() -> None:
    start = Path((strip(0), strip(1)))
    found = [
        Extension(0, segment("Good.", 2.0)),
        Extension(0, segment("good.", 1.9, n=1)),
        Extension(0, segment("Fair.", 1.0)),
        Extension(0, segment("Poor.", 0.1)),
    ]

    kept = next_beam([start], found, width=2)

    assert [path.text for path in kept] == ["Good.", "Fair."]


def test_a_path_that_nothing_follows_is_finished_and_may_still_win() -> None:
    done = Path((strip(0),), (segment("All said.", 2.0),))
    open_ = Path((strip(0),), (segment("More", 1.5),))

    kept = next_beam([done, open_], [Extension(1, segment("to come.", 0.2))], width=2)

    assert [(path.text, path.is_finished) for path in kept] == [
        ("All said.", True),
        ("More to come.", False),
    ]


def test_a_segment_that_continues_keeps_to_its_passage() -> None:
    start = Path((strip(0), strip(1)))
    going_on = Extension(0, segment("On and on.", n=1, continues=True))

    (path,) = next_beam([start], [going_on], width=2)

    assert path.passages == (strip(1),)
    assert not path.wants_retrieval(0.0)


def test_a_path_asks_above_the_threshold() -> None:
    for share, asks in [(0.9, True), (0.2, False), (None, False)]:
        path = Path((strip(0),), (segment("So far.", retrieval=share),))

        assert path.wants_retrieval(0.2) is asks
        assert not replace(path, is_finished=True).wants_retrieval(0.2)


def test_every_segment_is_cited_with_its_passage() -> None:
    path = Path((), (segment("First.", n=4), segment("Second.", n=2), segment("Third.", n=4)))

    (draft,) = drafts_of([path])

    assert draft.answer == "First [1]. Second [2]. Third [1]."
    assert [each.id for each in draft.knowledge] == ["s4", "s2"]


@dataclass
class FakeReflective:
    """Says the passage's text, then asks for more, then ends."""

    fails: bool = False
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    name: str = "fake-reflective"

    async def write(
        self, question: str, passage: Strip | None = None, preceding: str | None = None
    ) -> Reflected:
        self.asked.append((passage.id if passage else "", preceding))
        if self.fails:
            raise GeneratorFailed("the model is gone")
        text = "" if preceding else (passage.text if passage else question)
        return Reflected(text, Judgement(0.9, 0.9, 0.9), Usage(llm_calls=1), retrieval=0.9)


@pytest.mark.parametrize("world", [EN, ZH], ids=["en", "zh"])
async def test_a_long_answer_is_made_of_sentences_of_several_passages(world: World) -> None:
    parts = world.parts(world.full, world.half, world.off)

    trace = await parts.ask("self_rag", beam_depth=3)

    assert trace.inner["draft_segments"] == ["extend", "prune"] * 3
    assert trace.answer == trace.streamed
    assert world.full.rstrip(".。") in trace.answer
    assert "[1]" in trace.answer
    assert all(citation.spans for citation in trace.output["citations"])


async def test_a_model_that_asks_for_more_is_given_more() -> None:
    parts = EN.parts(EN.full, EN.half)
    reflective = FakeReflective()
    services = replace(parts.services, reflective=reflective)

    trace = await traced(
        services,
        EN.question,
        "self_rag",
        beam_depth=4,
        ablation=Ablation(beam_width=1),
        retrieval="always",
    )

    assert trace.inner["draft_segments"][:4] == ["extend", "prune", "retrieve_more", "extend"]
    queries = [query for query, _ in parts.retriever.asked]
    assert queries[0] == EN.question
    assert queries[1].startswith(EN.question)
    assert len(queries[1]) > len(EN.question)
    assert [preceding for _, preceding in reflective.asked][:1] == [""]
    assert trace.output["stopped_by"] == "accepted"


async def test_what_an_index_that_fails_still_finds_is_written_from() -> None:
    parts, more = EN.parts(EN.full, EN.half), passage(EN.full.replace("mill", "old mill"), 7)
    found = (await parts.retriever.retrieve(EN.question, 2))[:1]
    for left, ids in (([more], {"p7"}), ([], set())):
        retriever = HalfGoneRetriever(found, left=left)
        services = replace(parts.services, retriever=retriever, reflective=FakeReflective())
        trace = await traced(
            services, EN.question, "self_rag", beam_depth=3,
            ablation=Ablation(beam_width=1), retrieval="always",
        )  # fmt: skip
        assert "retriever" in trace.failed
        assert len(retriever.asked) > 1
        assert {it.id for it in trace.output["documents"]} == {found[0].id, *ids}
        assert trace.output["citations"]


async def test_a_model_that_fails_leaves_an_abstention_that_says_so() -> None:
    services = replace(EN.parts(EN.full).services, reflective=FakeReflective(fails=True))

    trace = await traced(services, EN.question, "self_rag", beam_depth=2, retrieval="always")

    assert trace.answer == EN.unknown
    assert "generator" in trace.failed


class Sayings(FakeChat):
    """The n-th sentence is the n-th of `sayings`, the last one from then on."""

    sayings: list[str] = Field(default_factory=list)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any
    ) -> ChatResult:
        self.keywords = self.sayings[min(len(self.asked), len(self.sayings) - 1)]
        return super()._generate(messages)


ENDINGS = [("END", EN), ("**END**", ZH), ("<end>!", EN), ("【END】", ZH), ("```\nEND", EN)]


@pytest.mark.parametrize(("ending", "world"), ENDINGS)
async def test_a_model_may_end_in_any_marks(ending: str, world: World) -> None:
    chat = Sayings(sayings=[world.half, ending])
    parts = world.parts(world.full, chat=chat, critic=FakeCritic())
    trace = await parts.ask("self_rag", beam_depth=4, retrieval="always")

    assert trace.answer == with_marker(world.half, 1)
    assert len(chat.asked) == 2


async def test_a_sentence_that_holds_the_word_goes_on() -> None:
    chat = Sayings(sayings=["The end is near.", "END"])
    parts = EN.parts(EN.full, chat=chat, critic=FakeCritic())
    trace = await parts.ask("self_rag", beam_depth=4, retrieval="always")

    assert trace.answer == "The end is near [1]."


async def test_of_a_page_the_paragraph_that_answers_opens() -> None:
    page = WebPage(ZH.url, "Mills", 0.8, (ZH.half, ZH.full))
    parts = ZH.parts(web=FakeWebSearch([page]), critic=FakeCritic())
    trace = await parts.ask("self_rag", beam_depth=2)

    assert [strip.kept for strip in trace.output["web_strips"]] == [True, True]
    assert trace.answer == with_marker(ZH.full, 1)


class HalfBlindCritic(FakeCritic):
    """Judges every other draft, as where one of several calls fails."""

    async def judge(
        self, question: str, drafts: Sequence[Draft]
    ) -> tuple[Sequence[Judgement], Usage]:
        judgements, usage = await super().judge(question, drafts)
        return [j if n % 2 else Judgement() for n, j in enumerate(judgements)], usage


async def test_segments_that_were_not_judged_are_told_and_keep_their_passages_score() -> None:
    parts = EN.parts(EN.full, EN.half, critic=HalfBlindCritic())
    trace = await parts.ask("self_rag", beam_depth=1, retrieval="always")

    assert [each.reason for each in trace.output["degraded"]] == [
        "1 of 2 segments were not judged."
    ]
    assert all(draft.critique_score > 0 for draft in trace.output["candidates"])
