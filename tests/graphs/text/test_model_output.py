"""Neither thoughts nor half characters reach the reader, however the stream is cut."""

from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from graphs.text.model_output import (
    joined_characters,
    whole_characters,
    without_fence,
    without_opening_reasoning,
    without_reasoning,
)
from graphs.types import Message
from tests import fakes
from tests.graphs.languages import EN, ZH, World
from tests.graphs.traced import traced

REPLIES = [
    ("<think>hm, 想一想 < / think</think>\n\n In 1852 [1].", "In 1852 [1]."),
    ("\n<think></think>一八五二年。", "一八五二年。"),
    ("<think>never ends", ""),
    ("In 1852.", "In 1852."),
    ("<thin ice> breaks.", "<thin ice> breaks."),
    ("<th", "<th"),
    ("a < b and <think> in the middle", "a < b and <think> in the middle"),
    ("", ""),
]
CHARACTERS = [
    ("Built \ud83d\ude00 in 1852.", "Built 😀 in 1852."),
    ("建于\ud83d\ude00一八五二年", "建于😀一八五二年"),
    ("in \ud83d1852\ude00", "in \ufffd1852\ufffd"),
    ("\ud83d\ud83d\ude00", "\ufffd😀"),
    ("\ud83d", "\ufffd"),
    ("", ""),
]
Filter = Callable[[AsyncIterator[str]], AsyncIterator[str]]


async def heard(pieces: Sequence[str], filtered: Filter = without_opening_reasoning) -> list[str]:
    async def chunks() -> AsyncIterator[str]:
        for piece in pieces:
            yield piece

    return [text async for text in filtered(chunks())]


async def test_thoughts_are_left_out_wherever_the_stream_is_cut() -> None:
    for reply, said in REPLIES:
        for cut in range(len(reply) + 1):
            assert "".join(await heard([reply[:cut], reply[cut:]])) == said
        assert "".join(await heard(list(reply))) == said
        assert without_reasoning(reply) == said


async def test_an_answer_is_not_held_back() -> None:
    assert await heard(["In ", "1852", "."]) == ["In ", "1852", "."]
    assert await heard(["<think>a", "b</think>", "In ", "1852"]) == ["In ", "1852"]
    assert await heard(["In ", "1852", "。"], joined_characters) == ["In ", "1852", "。"]


async def test_a_pair_stays_whole_wherever_the_stream_is_cut() -> None:
    for said, told in CHARACTERS:
        for cut in range(len(said) + 1):
            assert "".join(await heard([said[:cut], said[cut:]], joined_characters)) == told
        assert "".join(await heard(list(said), joined_characters)) == told
        assert whole_characters(said) == told


@pytest.mark.parametrize(("workflow", "world"), [("rag", EN), ("crag", ZH)])
async def test_queries_and_answers_can_be_stored(workflow: str, world: World) -> None:
    chat = fakes.FakeChat(
        chunks=["\ud83d", "\ude00 1852 \ud83d", " [1]."], keywords=f"{world.question}\ud83d"
    )
    parts = world.parts(world.full, chat=chat)
    history: list[Message] = [{"role": "user", "content": world.full}]
    trace = await parts.ask(
        workflow, history, expand=["rewrite", "decompose", "hyde"], web="always"
    )

    queries = [query for query, _ in parts.retriever.asked] + parts.web.queries
    assert any("\ufffd" in query for query in queries)
    for text in (*queries, trace.output["standalone_question"] or "", trace.answer):
        assert text.encode()
    assert trace.answer == trace.streamed == "😀 1852 \ufffd [1]."


def test_the_marks_of_a_code_block_are_left_out() -> None:
    assert without_fence("```json\n{}\n```") == "{}"
    assert without_fence("one ``` two") == "one \n two"


def test_thoughts_that_the_prompt_opened_end_where_they_are_closed() -> None:
    assert without_reasoning("let me see</think>\nIn 1852.") == "In 1852."


async def test_an_answer_is_told_without_thoughts() -> None:
    for reply in ["<think>hm, Oslo</think>\nIt is tall [1].", "hm</think>It is tall [1]."]:
        tower = fakes.passage("The red tower of Umbra is 87 metres tall.", 1)
        chat = fakes.FakeChat(chunks=list(reply))
        services = fakes.services(fakes.FakeRetriever([tower]), chat=chat)
        trace = await traced(services, "How tall is the red tower of Umbra?", "rag")

        assert trace.output["answer"] == "It is tall [1]."
        assert [citation.n for citation in trace.output["citations"]] == [1]
