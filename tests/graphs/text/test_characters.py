"""Half of a surrogate pair in what a model says reaches neither the index nor the reader."""

from collections.abc import AsyncIterator, Sequence

import pytest

from graphs.text.characters import joined, whole
from graphs.types import Message
from tests.fakes import FakeChat
from tests.graphs.languages import World, both_languages
from tests.graphs.traced import traced

SAID = [
    ("Built \ud83d\ude00 in 1852.", "Built 😀 in 1852."),
    ("建于\ud83d\ude00一八五二年", "建于😀一八五二年"),
    ("in \ud83d1852\ude00", "in \ufffd1852\ufffd"),
    ("\ud83d\ud83d\ude00", "\ufffd😀"),
    ("\ud83d", "\ufffd"),
    ("", ""),
]


async def heard(pieces: Sequence[str]) -> list[str]:
    async def chunks() -> AsyncIterator[str]:
        for piece in pieces:
            yield piece

    return [text async for text in joined(chunks())]


@pytest.mark.parametrize(("said", "told"), SAID)
async def test_a_pair_stays_whole_wherever_the_stream_is_cut(said: str, told: str) -> None:
    for cut in range(len(said) + 1):
        assert "".join(await heard([said[:cut], said[cut:]])) == told
    assert "".join(await heard(list(said))) == told
    assert whole(said) == told


async def test_an_answer_is_not_held_back() -> None:
    assert await heard(["In ", "1852", "。"]) == ["In ", "1852", "。"]


@both_languages
@pytest.mark.parametrize("workflow", ["rag", "crag"])
async def test_queries_and_answers_can_be_stored(world: World, workflow: str) -> None:
    chat = FakeChat(
        chunks=["\ud83d", "\ude00 1852 \ud83d", " [1]."], keywords=f"{world.question}\ud83d"
    )
    parts = world.parts(world.full, chat=chat)
    asked = {"rewrite_question": True, "decompose": True, "hyde": True, "web": "always"}
    history: list[Message] = [{"role": "user", "content": world.full}]
    trace = await traced(parts.services, world.question, workflow, history, **asked)

    queries = [query for query, _ in parts.retriever.asked] + parts.web.queries
    assert any("\ufffd" in query for query in queries)
    for text in (*queries, trace.output["standalone_question"] or "", trace.answer):
        assert text.encode()
    assert trace.answer == trace.streamed == "😀 1852 \ufffd [1]."
