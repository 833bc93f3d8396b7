"""The knowledge made shorter: its order, share and what is left of it, and what a run is given."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.memory import InMemorySaver

from graphs.errors import CompressorFailed
from graphs.generation.compression import (
    MIN_SUMMARY_WORDS,
    DocumentSummary,
    as_summary,
    best_sentences,
    by_document,
    compress_knowledge,
    judged_sentences,
    merged,
    summary_of,
    with_compressed_text,
)
from graphs.options import Ablation
from graphs.state import Context
from graphs.text.citations import without_markers
from graphs.text.sentences import sentences, token_count
from graphs.types import Strip, Usage, WebPage
from graphs.workflows.crag import build_crag
from tests.fakes import FakeChat, FakeEvaluator, FakeWebSearch, ScriptedChat, services
from tests.graphs.languages import EN, ZH, World, both_languages, every_workflow
from tests.graphs.traced import traced

ENGLISH = "One is {n}. Two is {n}. Three is {n}."
CHINESE = "第一是{n}。第二是{n}。第三是{n}。"


def strips(form: str, count: int) -> list[Strip]:
    return [
        Strip(f"p{n}#0", f"p{n}", form.format(n=n), "T", "a.md", "internal", (n, 0), 0.5, kept=True)
        for n in range(count)
    ]


def shortened(knowledge: list[Strip], ratio: float, *worth: float | None) -> list[Strip]:
    """The n-th sentence of all is worth the n-th number."""
    texts = [text for strip in knowledge for text in judged_sentences(strip, with_title=False)]
    scores = dict(zip(texts, worth, strict=True))
    return best_sentences(knowledge, scores, ratio, with_title=False)


def test_the_best_of_all_sentences_stay_in_document_order() -> None:
    for form, expected in [
        (ENGLISH, ["One is 0. Three is 0.", "Three is 1."]),
        (CHINESE, ["第一是0。第三是0。", "第三是1。"]),
    ]:
        found = shortened(strips(form, 2), 0.4, 0.7, 0.1, 0.8, 0.2, 0.3, 0.9)

        assert [strip.text for strip in found] == expected
        assert [strip.whole for strip in found] == [strip.text for strip in strips(form, 2)]


def test_a_strip_without_a_kept_sentence_disappears() -> None:
    found = shortened(strips(ENGLISH, 2), 0.5, 0.1, 0.2, 0.3, 0.7, 0.8, 0.9)

    assert [(strip.id, strip.text, strip.whole) for strip in found] == [
        ("p1#0", strips(ENGLISH, 2)[1].text, "")
    ]


def test_a_sentence_without_a_score_is_worth_least() -> None:
    assert [s.text for s in shortened(strips(ENGLISH, 1), 0.6, None, -0.9, -0.8)] == [
        "Two is 0. Three is 0."
    ]


def test_a_share_is_counted_as_written() -> None:
    """0.1 * 30 is a little more than 3 in binary."""
    found = shortened(strips(ENGLISH, 10), 0.1, *(n / 100 for n in range(30)))

    assert sum(len(sentences(strip.text)) for strip in found) == 3


def test_the_same_sentence_is_told_apart_by_its_title() -> None:
    one, two = strips("It is long.", 2)
    two = replace(two, title="Other")
    scores = {"T // It is long.": 0.1, "Other // It is long.": 0.9}

    assert best_sentences([one, two], scores, 0.5, with_title=True) == [two]


@given(
    st.lists(st.lists(st.sampled_from(["A b.", "它长。", "C d!", "好？"]), max_size=5), max_size=5),
    st.floats(0.01, 1),
    st.randoms(),
)
def test_what_is_kept_is_a_share_in_order(
    texts: list[list[str]], ratio: float, random: object
) -> None:
    knowledge = [
        Strip(f"{n}", f"{n}", " ".join(lines), "", "a", "internal", (n, 0))
        for n, lines in enumerate(texts)
        if lines
    ]
    all_texts = {t for strip in knowledge for t in judged_sentences(strip, with_title=False)}
    scores: dict[str, float | None] = {t: random.random() for t in sorted(all_texts)}  # type: ignore[attr-defined]
    found = best_sentences(knowledge, scores, ratio, with_title=False)

    total = sum(len(sentences(strip.text)) for strip in knowledge)
    left = [sentences(strip.text) for strip in found]
    assert sum(map(len, left)) == math.ceil(round(ratio * total, 9))
    assert [strip.id for strip in found] == sorted((s.id for s in found), key=int)
    whole = {strip.id: iter(sentences(strip.text)) for strip in knowledge}
    for strip in found:
        assert all(line in whole[strip.id] for line in sentences(strip.text))  # in order
    assert best_sentences(knowledge, scores, 1, with_title=False) == knowledge


def test_a_longer_text_is_no_compression() -> None:
    (strip,) = strips("Short.", 1)

    assert with_compressed_text(strip, "This one is a good deal longer than that.") is strip
    assert with_compressed_text(strip, strip.text) is strip


def test_compressed_twice_the_citation_is_still_whole() -> None:
    (strip,) = strips(ENGLISH, 1)
    twice = with_compressed_text(with_compressed_text(strip, "One is 0. Two is 0."), "One is 0.")

    assert (twice.text, twice.whole) == ("One is 0.", strip.text)


def test_a_documents_strips_are_joined_under_the_first() -> None:
    a, b = strips(ENGLISH, 2)
    again = replace(a, id="p0#1", text="More.", relevance=0.9)
    (first, second) = by_document([a, b, again])

    assert merged(first) == replace(a, text=f"{a.text}\nMore.", relevance=0.9)
    assert second == [b]


async def test_tokens_are_counted_over_all_candidates() -> None:
    before, context = [strips(ENGLISH, 2), strips(ENGLISH, 1)], Context(compress="extractive")
    result = await compress_knowledge(["One is what?"], before, context, services(), spare_calls=9)

    assert result.compression is not None
    sizes = [
        sum(token_count(strip.text) for each in knowledge for strip in each)
        for knowledge in (before, result.knowledge)
    ]
    assert [result.compression.before_tokens, result.compression.after_tokens] == sizes
    assert sizes[1] < sizes[0]


async def test_without_compression_nothing_is_counted() -> None:
    before = [strips(ENGLISH, 2)]
    result = await compress_knowledge(["q"], before, Context(), services(), spare_calls=9)

    assert (result.knowledge, result.compression) == (before, None)


def test_a_summary_is_what_was_said() -> None:
    for reply, text in [
        *((reply, "") for reply in ("", " \n", "NONE", "“无”", "无。", "Summary: none")),
        ("Summary: It opened.", "It opened."),
        ("摘要：开业。", "开业。"),
        ("None knew.", "None knew."),
    ]:
        assert as_summary(reply) == text


async def test_a_summary_may_have_its_share_of_words_and_always_a_sentence() -> None:
    for text, ratio, words in [
        ("word " * 200, 0.4, 80),
        ("字" * 400, 0.4, 80),
        ("word", 0.01, MIN_SUMMARY_WORDS),
    ]:
        chat = FakeChat(keywords="short")
        (document,) = strips(text, 1)
        summary = await summary_of("What is it?", document, ratio, services(chat=chat))

        assert summary == DocumentSummary("short", Usage(1, 10, 3))
        assert f"{words} words" in chat.prompt()


NEVER: dict[str, Any] = {"web": "never", "retrieval": "always"}


@dataclass
class FakeCompressor:
    """Keeps the first word, or the first two characters, of every text; nothing of `drops`."""

    drops: str = "?"
    fails: bool = False
    asked: list[tuple[Sequence[str], float]] = field(default_factory=list)

    async def compress(self, question: str, texts: Sequence[str], ratio: float) -> Sequence[str]:
        self.asked.append((list(texts), ratio))
        if self.fails:
            raise CompressorFailed("the model is gone")
        return ["" if self.drops in text else text[:10] for text in texts]


def glue(world: World) -> str:
    return "" if world.language == "zh" else " "


@every_workflow
async def test_the_best_sentences_are_shown_and_whole_strips_cited(
    world: World, workflow: str
) -> None:
    text = glue(world).join([world.off, world.full, world.noise, world.off])
    chat = FakeChat(chunks=["x [1]"])
    parts = world.parts(text, chat=chat)
    trace = await parts.ask(
        workflow,
        **NEVER,
        strip_mode="passage",
        upper=-0.9,
        lower=-1.0,
        compress="extractive",
        compress_ratio=0.25,
        max_critic=0,
    )

    assert trace.output["compression"].after_tokens < trace.output["compression"].before_tokens
    shown = next(p for n in range(len(chat.asked)) if "[1]" in (p := chat.prompt(n)))
    assert world.full in shown
    assert world.off not in shown
    assert [c.text for c in trace.output["citations"]] == [text]
    assert trace.output["stopped_by"] != "no_evidence"


async def test_all_sentences_are_graded_in_one_request() -> None:
    text = f"{EN.off} {EN.full}"
    parts = EN.parts(text, f"{EN.noise} {EN.half}", chat=FakeChat(chunks=["x [1]"]))
    await parts.ask("rag", compress="extractive")

    (pairs,) = parts.evaluator.calls
    assert [passage for _, passage in pairs] == [
        f"Page 0 // {EN.off}",
        f"Page 0 // {EN.full}",
        f"Page 1 // {EN.noise}",
        f"Page 1 // {EN.half}",
    ]


async def test_one_sentence_stays_as_it_is() -> None:
    plain = await ZH.parts(ZH.full, offline=True).ask()
    short = await ZH.parts(ZH.full, offline=True).ask(compress="extractive")

    assert (short.answer, short.output["citations"]) == (plain.answer, plain.output["citations"])


@both_languages
async def test_an_extracted_answer_quotes_only_what_was_left(world: World) -> None:
    text = glue(world).join([world.full, world.half])
    parts = world.parts(text, offline=True)
    trace = await parts.ask(compress="extractive", compress_ratio=0.5)

    assert without_markers(trace.answer) == world.full
    (citation,) = trace.output["citations"]
    start, end = citation.spans[0]
    assert without_markers(trace.answer[start:end]) == world.full
    assert citation.text == text


async def test_without_the_evaluator_the_knowledge_stays_whole() -> None:
    chat = FakeChat(chunks=["x [1]"])
    parts = EN.parts(f"{EN.off} {EN.full}", chat=chat, evaluator=FakeEvaluator(fails_from_call=1))
    trace = await parts.ask("rag", compress="extractive")

    assert trace.failed == ["evaluator"]
    assert EN.off in chat.prompt()
    assert EN.full in chat.prompt()


@pytest.mark.parametrize(("known", "told"), [(None, "The evaluator"), (0.9, "1 sentences")])
async def test_sentences_that_cannot_be_graded_are_told(known: float | None, told: str) -> None:
    evaluator = FakeEvaluator(known={EN.off: None, EN.full: known})
    chat = FakeChat(chunks=["x [1]"])
    parts = EN.parts(f"{EN.off} {EN.full}", chat=chat, evaluator=evaluator)
    trace = await parts.ask("rag", compress="extractive")

    assert [entry.reason[: len(told)] for entry in trace.output["degraded"]] == [told]
    assert EN.full in chat.prompt()


@every_workflow
async def test_a_document_is_summarised_for_the_question(world: World, workflow: str) -> None:
    chat = FakeChat(chunks=["x [1]"], keywords="1852")
    parts = world.parts(world.full * 3, chat=chat)
    trace = await parts.ask(workflow, **NEVER, compress="abstractive", max_critic=0)

    asked = [chat.prompt(n) for n in range(len(chat.asked))]
    summarised = [text for text in asked if world.full in text]
    assert len(summarised) == 1
    assert world.question in summarised[0]
    assert any(")\n1852" in text for text in asked)
    assert [c.text for c in trace.output["citations"]] == [world.full * 3]
    assert trace.output["usage"].llm_calls >= 2


@pytest.mark.parametrize(("workflow", "world"), [("rag", EN), ("self_crag", ZH)])
async def test_where_no_summary_says_anything_there_is_no_evidence(
    world: World, workflow: str
) -> None:
    chat = FakeChat(chunks=["x [1]"], keywords="无" if world.language == "zh" else "NONE")
    parts = world.parts(world.full, chat=chat)
    trace = await parts.ask(workflow, **NEVER, compress="abstractive")

    assert (trace.output["stopped_by"], trace.answer) == ("no_evidence", world.unknown)
    assert trace.output["citations"] == []


async def test_documents_are_summarised_side_by_side_and_once() -> None:
    page = WebPage(EN.url, "Mills", 0.8, (EN.web, f"{EN.web} It was cold."))
    chat = FakeChat(chunks=["x [2]"], keywords="short")
    parts = EN.parts(f"{EN.full} Cold.", chat=chat, web=FakeWebSearch([page]))
    trace = await parts.ask(
        "self_crag",
        ablation=Ablation(only_action="ambiguous", ambiguous_candidates="all", rewriting=False),
        web="always",
        retrieval="always",
        compress="abstractive",
        max_critic=0,
    )

    asked = [chat.prompt(n) for n in range(len(chat.asked))]
    assert sum("You shorten a text" in text for text in asked) == 2
    drafted = [text for text in asked if "You shorten a text" not in text]
    assert sum(f"(Mills — {EN.url})\nshort" in text for text in drafted) == 2
    assert len(trace.output["candidates"]) == len(drafted) == 3


async def test_a_summary_that_fails_leaves_its_strips_whole() -> None:
    chat = FakeChat(chunks=["x [1]"], fails_to_rewrite=True)
    parts = EN.parts(EN.full, EN.half, chat=chat)
    trace = await parts.ask("rag", compress="abstractive")

    assert trace.failed == ["generator"]
    assert EN.full in chat.prompt()
    assert EN.half in chat.prompt()
    assert trace.output["usage"].llm_calls == 3


@pytest.mark.parametrize(("by", "world"), [("longllmlingua", EN), ("selective_context", ZH)])
async def test_a_local_model_compresses_each_candidate(by: str, world: World) -> None:
    compressor, chat = FakeCompressor(drops=world.half), FakeChat(chunks=["x [1]"])
    parts = world.parts(world.full, world.half, chat=chat)
    served = replace(parts.services, compressors={by: compressor})
    trace = await traced(served, world.question, "rag", compress=by, compress_ratio=0.3)

    assert compressor.asked == [([world.full, world.half], 0.3)]
    assert f")\n{world.full[:10].strip()}" in chat.prompt()
    assert world.full not in chat.prompt()
    assert world.half not in chat.prompt()
    assert [c.text for c in trace.output["citations"]] == [world.full]


@pytest.mark.parametrize("compressor", [FakeCompressor(fails=True), None])
async def test_without_its_model_the_knowledge_stays_whole(
    compressor: FakeCompressor | None,
) -> None:
    chat = FakeChat(chunks=["x [1]"])
    parts = EN.parts(EN.full, chat=chat)
    known = {"longllmlingua": compressor} if compressor else {}
    served = replace(parts.services, compressors=known)
    trace = await traced(served, EN.question, "rag", compress="longllmlingua")

    assert trace.failed == ["generator"]
    assert EN.full in chat.prompt()


async def test_summaries_leave_a_call_for_the_answer() -> None:
    chat = FakeChat(chunks=["x [1]"], keywords="short")
    parts = EN.parts(f"{EN.full} Cold.", f"{EN.half} Cold.", chat=chat)
    options: dict[str, Any] = {"compress": "abstractive", "max_llm_calls": 2}
    trace = await parts.ask("rag", **options)

    assert len(chat.asked) == trace.output["usage"].llm_calls == 2
    assert ")\nshort" in chat.prompt()
    assert f"{EN.half} Cold." in chat.prompt()


async def test_summaries_without_a_language_model_are_told() -> None:
    parts = EN.parts(EN.full, offline=True)
    trace = await parts.ask(compress="abstractive")

    assert trace.failed == ["generator"]
    assert trace.output["stopped_by"] == "answered"


async def test_the_order_is_that_of_the_best_also_when_documents_are_joined() -> None:
    chat = FakeChat(chunks=["x [2]"], keywords="short")
    parts = EN.parts(f"{EN.full} Cold.", f"{EN.half} Cold.", chat=chat)
    trace = await parts.ask(
        ablation=Ablation(only_action="correct"), compress="abstractive", repack="reverse"
    )

    assert [c.strip_id for c in trace.output["citations"]] == ["p0#0"]


async def test_what_an_earlier_run_compressed_is_void() -> None:
    parts = EN.parts(EN.full, offline=True)
    graph = build_crag(parts.services)
    graph.checkpointer = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "t"}}
    first: Any = {"question": EN.question}
    await graph.ainvoke(first, config, context=Context(compress="extractive"))
    parts.retriever.passages = [replace(parts.retriever.passages[0], id="q", text=EN.full + " ")]
    second = await graph.ainvoke(first, config, context=Context())

    assert [c.strip_id for c in second["citations"]] == ["q#0"]


async def test_it_revises_from_what_was_shown() -> None:
    chat = ScriptedChat(answers=["Cats sleep [1].", "It did open in 1852 [1]."])
    parts = ZH.parts(f"{ZH.full}{ZH.off}", chat=chat)
    trace = await parts.ask(
        "self_crag",
        **NEVER,
        compress="extractive",
        compress_ratio=0.5,
        min_support=1.0,
        min_utility=5.0,
        max_critic=1,
    )

    assert len(chat.asked) == 2
    assert all(ZH.full in chat.prompt(n) for n in range(2))
    assert all(ZH.off not in chat.prompt(n) for n in range(2))
    assert [c.text for c in trace.output["citations"]] == [f"{ZH.full}{ZH.off}"]
