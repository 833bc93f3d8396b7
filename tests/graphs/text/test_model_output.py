"""A reasoning model's thoughts do not reach the reader, however the stream is cut."""

from collections.abc import AsyncIterator, Sequence

import pytest

from graphs.text.model_output import without_opening_thoughts, without_thoughts
from tests import fakes
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


async def heard(pieces: Sequence[str]) -> list[str]:
    async def chunks() -> AsyncIterator[str]:
        for piece in pieces:
            yield piece

    return [text async for text in without_opening_thoughts(chunks())]


@pytest.mark.parametrize(("reply", "said"), REPLIES)
async def test_thoughts_are_left_out_wherever_the_stream_is_cut(reply: str, said: str) -> None:
    for cut in range(len(reply) + 1):
        assert "".join(await heard([reply[:cut], reply[cut:]])) == said
    assert "".join(await heard(list(reply))) == said
    assert without_thoughts(reply) == said


async def test_an_answer_is_not_held_back() -> None:
    assert await heard(["In ", "1852", "."]) == ["In ", "1852", "."]
    assert await heard(["<think>a", "b</think>", "In ", "1852"]) == ["In ", "1852"]


def test_thoughts_that_the_prompt_opened_end_where_they_are_closed() -> None:
    assert without_thoughts("let me see</think>\nIn 1852.") == "In 1852."


@pytest.mark.parametrize(
    "reply", ["<think>hm, Oslo</think>\nIt is tall [1].", "hm</think>It is tall [1]."]
)
async def test_an_answer_is_told_without_thoughts(reply: str) -> None:
    tower = fakes.passage("The red tower of Umbra is 87 metres tall.", 1)
    chat = fakes.FakeChat(chunks=list(reply))
    services = fakes.services(fakes.FakeRetriever([tower]), chat=chat)
    trace = await traced(services, "How tall is the red tower of Umbra?", "rag")

    assert trace.output["answer"] == "It is tall [1]."
    assert [citation.n for citation in trace.output["citations"]] == [1]


async def test_keywords_are_told_without_thoughts() -> None:
    chat = fakes.FakeChat(chunks=["x"], keywords="<think>Okay, who pays, well</think>Umbra, tower")
    web = fakes.FakeWebSearch([])
    services = fakes.services(fakes.FakeRetriever([]), web_search=web, chat=chat)
    await traced(services, "How tall is the red tower of Umbra?", "crag")

    assert web.queries == ["Umbra, tower"]
