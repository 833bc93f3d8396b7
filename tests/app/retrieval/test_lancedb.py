"""What only the index on one machine does: it wears, is renewed beside its readers, and tidied."""

import asyncio
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from app.ingest.pipeline import ingest
from app.ingest.rows import encoded
from app.retrieval import lancedb as lance
from app.retrieval.embedder import Embedder, StaticEmbedder, Vectors
from app.retrieval.index import Encode, IndexMismatch, open_index
from app.retrieval.lancedb import indexed, is_worn
from app.retrieval.retriever import HybridRetriever
from app.retrieval.tokenizer import Segmenter
from graphs.errors import RetrieverFailed
from graphs.options import Scope
from tests.app.retrieval.test_index import Writer


def encoding(embedder: Embedder, segmenter: Segmenter) -> Encode:
    return lambda rows, _: encoded(rows, embedder, segmenter)


@pytest.fixture
async def index(tmp_path: Path, embedder: StaticEmbedder) -> lance.LanceIndex:
    return await lance.LanceIndex.open(tmp_path / "data" / "index", embedder)


@pytest.fixture
def writer(index: lance.LanceIndex, segmenter: Segmenter) -> Writer:
    return Writer(index, segmenter)


async def worn(index: lance.LanceIndex) -> bool:
    return await is_worn(index._table, index.folder)


async def test_what_replaced_documents_leave_is_cleaned_away(
    index: lance.LanceIndex, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [f"The lamp of hall {number} is lit." for number in range(200)]
    await writer.put("halls.md", *many)
    monkeypatch.setattr(lance, "MAX_VERSIONS", 5)
    await index.tidy()
    for number in range(12):
        await writer.put("水泵.md", f"水泵在{number}月检修。")
        await index.tidy()
    versions = index.folder / "chunks.lance/_versions"
    assert len(list(versions.iterdir())) > 12, "readers may still be in the middle of any"
    monkeypatch.setattr(lance, "KEEP_VERSIONS", timedelta(milliseconds=1))
    assert await worn(index)
    await index.tidy()
    assert len(list(versions.iterdir())) <= 3
    assert not await worn(index)
    assert [document.source for document in await index.documents(Scope())] == [
        "halls.md",
        "水泵.md",
    ]


async def test_the_memory_of_former_versions_is_given_back(
    index: lance.LanceIndex, writer: Writer
) -> None:
    held = []
    for number in range(12):
        await writer.put(f"{number}.md", f"The lamp of hall {number} is lit.")
        assert await index.search_words("lamp", "en", 5, Scope())
        await index.tidy()
        await index.delete([f"{number}.md"], Scope())
        held.append(index.caches.size_bytes)
    assert held[-1] < 2 * held[1]


async def test_the_vector_index_comes_back_with_the_index_that_is_renewed(
    index: lance.LanceIndex,
    embedder: StaticEmbedder,
    segmenter: Segmenter,
    writer: Writer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = [f"The lamp of hall {number} is lit." for number in range(300)]
    await writer.put("halls.md", *texts)
    await index.tidy()
    monkeypatch.setattr(lance, "VECTOR_INDEX_FROM", 300)
    assert not await worn(index)
    await index.tidy()
    assert "vector" in await indexed(index._table)
    encode = encoding(embedder, segmenter)
    assert await lance.renew(index.folder, embedder, encode) == 300
    assert "vector" in await indexed(index._table)


class Same(StaticEmbedder):
    name = "as-wide"


class Wider(StaticEmbedder):
    name = "wider"
    dimensions = 192

    def embed(self, texts: list[str]) -> Vectors:  # type: ignore[override]
        return np.ones((len(texts), self.dimensions), np.float32)


@pytest.mark.parametrize("kind", [Same, Wider])
async def test_a_service_whose_index_is_renewed_for_another_embedder_asks_to_be_restarted(
    retriever: HybridRetriever, segmenter: Segmenter, kind: type[StaticEmbedder]
) -> None:
    index, writer = retriever.index, Writer(retriever.index, segmenter)
    await writer.put("水泵.md", "水泵在三月检修。")
    other = kind(segmenter)
    encode = encoding(other, segmenter)
    await lance.renew(index.folder, other, encode)
    with pytest.raises(RetrieverFailed, match="restart the service"):
        await retriever.retrieve("Who serviced the pump?", 3)
    with pytest.raises(IndexMismatch, match=r"^The index was renewed .*: restart the service\.$"):
        await writer.put("lamp.md", "It is lit.")
    assert [
        it.source for it in await (await open_index(index.folder, other)).documents(Scope())
    ] == ["水泵.md"]


async def test_what_a_killed_ingest_left_untidied_is_tidied_by_the_next(
    retriever: HybridRetriever, tmp_path: Path
) -> None:
    index = retriever.index
    assert isinstance(index, lance.LanceIndex)
    file = tmp_path / "docs" / "灯.md"
    file.parent.mkdir()
    file.write_text("# 灯\n\n灯在夜里亮。\n", "utf-8")
    await ingest([file], index, retriever.segmenter)
    await Writer(index, retriever.segmenter).put("lamp.md", "It is lit.")
    assert await worn(index)
    report = await ingest([file], index, retriever.segmenter)
    assert (len(report.skipped), report.chunks) == (1, 0)
    assert not await worn(index)


async def test_an_index_from_before_there_were_collections_goes_on_in_the_default_one(
    index: lance.LanceIndex, embedder: StaticEmbedder, segmenter: Segmenter, writer: Writer
) -> None:
    texts = [f"The lamp of hall {number} is lit." for number in range(20)]
    await writer.put("halls.md", *texts)
    await writer.put("水泵.md", "水泵在三月检修。")
    await index._table.drop_columns(["collection"])
    looked_at = await lance.inspected(index.folder)
    assert {document.collection for document in looked_at} == {"default"}
    assert "collection" not in (await index._table.schema()).names, "looking changes nothing"
    opened = await asyncio.gather(*(open_index(index.folder, embedder) for _ in range(3)))
    for one in opened:
        assert [document.source for document in await one.documents(Scope())] == [
            "halls.md",
            "水泵.md",
        ]
        assert [hit.source for hit in await one.search_words("水泵", "zh", 3, Scope())] == [
            "水泵.md"
        ]
        assert await one.search_words("水泵", "zh", 3, Scope(collections=("manuals",))) == []
    await Writer(opened[0], segmenter).put("水泵.md", "水泵在四月检修。")
    (hit,) = await opened[1].search_words("水泵", "zh", 3, Scope())
    assert hit.text == "水泵在四月检修。"
    assert await opened[2].count(Scope()) == 21


async def test_an_index_from_before_there_were_collections_is_renewed(
    index: lance.LanceIndex, embedder: StaticEmbedder, segmenter: Segmenter, writer: Writer
) -> None:
    await writer.put("水泵.md", "水泵在三月检修。")
    await index._table.drop_columns(["collection"])
    encode = encoding(embedder, segmenter)
    assert await lance.renew(index.folder, embedder, encode) == 1
    (document,) = await (await open_index(index.folder, embedder)).documents(Scope())
    assert (document.source, document.collection) == ("水泵.md", "default")
