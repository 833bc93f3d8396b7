"""The knowledge compressed in real runs: what generator, critic and citations are given."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from graphs.errors import CompressorFailed
from graphs.options import Ablation
from graphs.state import Context
from graphs.text.citations import without_markers
from graphs.types import WebPage
from graphs.workflows.crag import build_crag
from tests.fakes import FakeChat, FakeEvaluator, FakeWebSearch, ScriptedChat
from tests.graphs.languages import EN, ZH, World, both_languages
from tests.graphs.traced import traced

WORKFLOWS = pytest.mark.parametrize("workflow", ["rag", "crag", "self_rag", "self_crag"])
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


@both_languages
@WORKFLOWS
async def test_the_best_sentences_are_shown_and_whole_strips_cited(
    world: World, workflow: str
) -> None:
    text = glue(world).join([world.off, world.full, world.noise, world.off])
    chat = FakeChat(chunks=["x [1]"])
    parts = world.parts(text, chat=chat)
    trace = await traced(
        parts.services,
        world.question,
        workflow,
        **NEVER,
        strip_mode="passage",
        upper=-0.9,
        lower=-1.0,
        compress="extractive",
        compress_ratio=0.25,
        max_critic=0,
    )

    assert "compress" in trace.nodes
    shown = next(p for n in range(len(chat.asked)) if "[1]" in (p := chat.prompt(n)))
    assert world.full in shown
    assert world.off not in shown
    assert [c.text for c in trace.output["citations"]] == [text]
    assert trace.output["stopped_by"] != "no_evidence"


async def test_all_sentences_are_graded_in_one_request() -> None:
    text = f"{EN.off} {EN.full}"
    parts = EN.parts(text, f"{EN.noise} {EN.half}", chat=FakeChat(chunks=["x [1]"]))
    await traced(parts.services, EN.question, "rag", compress="extractive")

    (pairs,) = parts.evaluator.calls
    assert [passage for _, passage in pairs] == [
        f"Page 0 // {EN.off}",
        f"Page 0 // {EN.full}",
        f"Page 1 // {EN.noise}",
        f"Page 1 // {EN.half}",
    ]


@both_languages
async def test_one_sentence_stays_as_it_is(world: World) -> None:
    plain = await traced(world.parts(world.full, offline=True).services, world.question)
    short = await traced(
        world.parts(world.full, offline=True).services, world.question, compress="extractive"
    )

    assert (short.answer, short.output["citations"]) == (plain.answer, plain.output["citations"])


@both_languages
async def test_an_extracted_answer_quotes_only_what_was_left(world: World) -> None:
    text = glue(world).join([world.full, world.half])
    parts = world.parts(text, offline=True)
    trace = await traced(parts.services, world.question, compress="extractive", compress_ratio=0.5)

    assert without_markers(trace.answer) == world.full
    (citation,) = trace.output["citations"]
    start, end = citation.spans[0]
    assert without_markers(trace.answer[start:end]) == world.full
    assert citation.text == text


async def test_without_the_evaluator_the_knowledge_stays_whole() -> None:
    chat = FakeChat(chunks=["x [1]"])
    parts = EN.parts(f"{EN.off} {EN.full}", chat=chat, evaluator=FakeEvaluator(fails_from_call=1))
    trace = await traced(parts.services, EN.question, "rag", compress="extractive")

    assert trace.failed == ["evaluator"]
    assert EN.off in chat.prompt()
    assert EN.full in chat.prompt()


@pytest.mark.parametrize(("known", "told"), [(None, "The evaluator"), (0.9, "1 sentences")])
async def test_sentences_that_cannot_be_graded_are_told(known: float | None, told: str) -> None:
    evaluator = FakeEvaluator(known={EN.off: None, EN.full: known})
    chat = FakeChat(chunks=["x [1]"])
    parts = EN.parts(f"{EN.off} {EN.full}", chat=chat, evaluator=evaluator)
    trace = await traced(parts.services, EN.question, "rag", compress="extractive")

    assert [entry.reason[: len(told)] for entry in trace.output["degraded"]] == [told]
    assert EN.full in chat.prompt()


@both_languages
@WORKFLOWS
async def test_a_document_is_summarised_for_the_question(world: World, workflow: str) -> None:
    chat = FakeChat(chunks=["x [1]"], keywords="1852")
    parts = world.parts(world.full * 3, chat=chat)
    trace = await traced(
        parts.services,
        world.question,
        workflow,
        **NEVER,
        compress="abstractive",
        max_critic=0,
    )

    asked = [chat.prompt(n) for n in range(len(chat.asked))]
    summarised = [text for text in asked if world.full in text]
    assert len(summarised) == 1
    assert world.question in summarised[0]
    assert any(") 1852" in text for text in asked)
    assert [c.text for c in trace.output["citations"]] == [world.full * 3]
    assert trace.output["usage"].llm_calls >= 2


@both_languages
@WORKFLOWS
async def test_where_no_summary_says_anything_there_is_no_evidence(
    world: World, workflow: str
) -> None:
    chat = FakeChat(chunks=["x [1]"], keywords="无" if world.language == "zh" else "NONE")
    parts = world.parts(world.full, chat=chat)
    trace = await traced(parts.services, world.question, workflow, **NEVER, compress="abstractive")

    assert (trace.output["stopped_by"], trace.answer) == ("no_evidence", world.unknown)
    assert trace.output["citations"] == []


async def test_documents_are_summarised_side_by_side_and_once() -> None:
    page = WebPage(EN.url, "Mills", 0.8, (EN.web, f"{EN.web} It was cold."), None)
    chat = FakeChat(chunks=["x [2]"], keywords="short")
    parts = EN.parts(f"{EN.full} Cold.", chat=chat, web=FakeWebSearch([page]))
    trace = await traced(
        parts.services,
        EN.question,
        "self_crag",
        ablation=Ablation(only_action="ambiguous"),
        ablation=Ablation(ambiguous_candidates="all"),
        web="always",
        retrieval="always",
        ablation=Ablation(rewriting=False),
        compress="abstractive",
        max_critic=0,
    )

    asked = [chat.prompt(n) for n in range(len(chat.asked))]
    assert sum("You shorten a text" in text for text in asked) == 2
    drafted = [text for text in asked if "You shorten a text" not in text]
    assert sum(f"(Mills — {EN.url}) short" in text for text in drafted) == 2
    assert len(trace.output["candidates"]) == len(drafted) == 3


async def test_a_summary_that_fails_leaves_its_strips_whole() -> None:
    chat = FakeChat(chunks=["x [1]"], fails_to_rewrite=True)
    parts = EN.parts(EN.full, EN.half, chat=chat)
    trace = await traced(parts.services, EN.question, "rag", compress="abstractive")

    assert trace.failed == ["generator"]
    assert EN.full in chat.prompt()
    assert EN.half in chat.prompt()
    assert trace.output["usage"].llm_calls == 3


@both_languages
@pytest.mark.parametrize("by", ["longllmlingua", "selective_context"])
async def test_a_local_model_compresses_each_candidate(world: World, by: str) -> None:
    compressor, chat = FakeCompressor(drops=world.half), FakeChat(chunks=["x [1]"])
    parts = world.parts(world.full, world.half, chat=chat)
    served = replace(parts.services, compressors={by: compressor})
    trace = await traced(served, world.question, "rag", compress=by, compress_ratio=0.3)

    assert compressor.asked == [([world.full, world.half], 0.3)]
    assert f") {world.full[:10].strip()}" in chat.prompt()
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
    trace = await traced(parts.services, EN.question, "rag", **options)

    assert len(chat.asked) == trace.output["usage"].llm_calls == 2
    assert ") short" in chat.prompt()
    assert f"{EN.half} Cold." in chat.prompt()


async def test_summaries_without_a_language_model_are_told() -> None:
    parts = EN.parts(EN.full, offline=True)
    trace = await traced(parts.services, EN.question, compress="abstractive")

    assert trace.failed == ["generator"]
    assert trace.output["stopped_by"] == "answered"


async def test_the_order_is_that_of_the_best_also_when_documents_are_joined() -> None:
    chat = FakeChat(chunks=["x [2]"], keywords="short")
    parts = EN.parts(f"{EN.full} Cold.", f"{EN.half} Cold.", chat=chat)
    trace = await traced(
        parts.services,
        EN.question,
        ablation=Ablation(only_action="correct"),
        compress="abstractive",
        repack="reverse",
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
    trace = await traced(
        parts.services,
        ZH.question,
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
