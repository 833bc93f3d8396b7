"""What is returned around a hit: blocks and neighbours, merged, nothing twice."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ingest import chunker
from app.ingest.chunker import Chunking
from app.ingest.pipeline import ingest
from app.retrieval.index import Hit
from app.retrieval.retriever import HybridRetriever, chunk_ids, windows
from graphs.options import Scope
from graphs.text.sentences import sentences, token_count


def hit(position: int, first: int, last: int, document: str = "d") -> Hit:
    key = f"{document}-v-{position}"
    text = f"{document} {position}"
    return Hit(key, document, "T", "", "s", text, None, position, first, last, 1.0)


def test_hits_of_one_block_become_one_window_of_the_best() -> None:
    order = [(hit(4, 3, 5), 0.9), (hit(3, 3, 5), 0.8), (hit(0, 0, 2), 0.7), (hit(5, 3, 5), 0.6)]
    found = windows(order, 10)
    assert [(one.first, one.last, one.score, one.hit.position) for one in found] == [
        (3, 5, 0.9, 4),
        (0, 2, 0.7, 0),
    ]
    assert [one.id for one in found] == ["d-v-3..5", "d-v-0..2"]
    assert chunk_ids(found[0].id) == ["d-v-3", "d-v-4", "d-v-5"]


def test_windows_that_overlap_share_their_chunks_out() -> None:
    order = [(hit(5, 4, 6), 0.9), (hit(6, 5, 7), 0.8), (hit(7, 6, 8), 0.7), (hit(3, 2, 4), 0.6)]
    found = windows(order, 10)
    assert [(one.first, one.last) for one in found] == [(4, 6), (7, 8), (2, 3)]
    assert windows(order, 1) == found[:1]


def test_documents_and_their_versions_are_kept_apart() -> None:
    order = [(hit(1, 0, 2, "a"), 0.9), (hit(1, 0, 2, "b"), 0.8)]
    assert [one.id for one in windows(order, 10)] == ["a-v-0..2", "b-v-0..2"]


def test_of_equal_texts_the_best_is_returned() -> None:
    best, same, other = hit(1, 1, 1, "a"), hit(4, 4, 4, "b"), hit(2, 2, 2, "c")
    same = replace(same, text=best.text)
    assert ids(best, same, other) == ["a-v-1", "c-v-2"]
    # Of another setting, or with other text around it.
    assert ids(best, replace(same, heading="timeout")) == ["a-v-1", "b-v-4"]
    assert ids(best, replace(same, last=5)) == ["a-v-1", "b-v-4..5"]


def ids(*hits: Hit) -> list[str]:
    return [one.id for one in windows([(each, 0.0) for each in hits], 10)]


def test_a_passage_of_one_chunk_keeps_its_id() -> None:
    (found,) = windows([(hit(12345678, 12345678, 12345678), 0.5)], 5)
    assert found.id == "d-v-12345678"
    assert chunk_ids("d-v-12345678") == ["d-v-12345678"]
    assert chunk_ids("no form at all") == ["no form at all"]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=40))
def test_no_chunk_is_in_two_windows_and_every_hit_in_one(found: list[tuple[int, int]]) -> None:
    hits = [hit(at, max(0, at - reach), at + reach) for at, reach in found]
    made = windows([(one, 0.0) for one in hits], 100)
    positions = [at for one in made for at in range(one.first, one.last + 1)]
    assert len(positions) == len(set(positions))
    assert {one.position for one in hits} <= set(positions)


ENGLISH = " ".join(
    f"Valve {number} of the pump house opens at {number} bar." for number in range(60)
)
CHINESE = "".join(f"水泵房的第{number}号阀门在{number}巴时打开。" for number in range(60))


@pytest.mark.parametrize(
    ("text", "question"),
    [
        (ENGLISH, "At what does valve 31 of the pump house open?"),
        (CHINESE, "第31号阀门什么时候打开？"),
    ],
)
@pytest.mark.parametrize("method", ["sentence", "small_to_big", "sliding_window"])
async def test_a_question_gets_the_sentence_with_what_stands_around_it(
    retriever: HybridRetriever,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    text: str,
    question: str,
) -> None:
    monkeypatch.setattr(chunker, "PARENT_TOKENS", 200)
    file = tmp_path / "valves.md"
    file.write_text(f"# Valves\n\n## A\n\nAnother section 另一节。\n\n## B\n\n{text}\n", "utf-8")
    chunking = Chunking(method, tokens=60)  # type: ignore[arg-type]
    await ingest([file], retriever.index, retriever.segmenter, chunking=chunking)
    found = await retriever.retrieve(question, 20)
    assert "31" in found[0].text
    handed = [one for passage in found for one in sentences(passage.text)]
    assert len(handed) == len(set(handed)), "no sentence twice"
    assert all(passage.text in text or "section" in passage.text for passage in found)
    longest = max(token_count(passage.text) for passage in found)
    assert longest <= {"sentence": 61, "small_to_big": 201, "sliding_window": 3 * 61}[method]
    assert (longest > 61) == (method != "sentence")
    assert {passage.title for passage in found} <= {"Valves › B", "Valves › A", "Valves"}


async def test_another_way_of_cutting_is_noticed(
    retriever: HybridRetriever, tmp_path: Path
) -> None:
    file = tmp_path / "valves.md"
    file.write_text(ENGLISH, "utf-8")
    big = Chunking("small_to_big", tokens=60)
    index, segmenter = retriever.index, retriever.segmenter
    assert (await ingest([file], index, segmenter)).added == [str(file)]
    assert (await ingest([file], index, segmenter, chunking=big)).updated == [str(file)]
    assert (await ingest([file], index, segmenter, chunking=big)).skipped == [str(file)]
    (document,) = await retriever.index.documents(Scope())
    assert document.chunking == big.name
    assert await index.count(Scope()) == document.chunks
