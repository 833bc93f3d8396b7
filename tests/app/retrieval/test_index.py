"""What every index promises, held by both adapters alike."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.ingest.loaders.document import Block, LoadedDocument
from app.ingest.rows import Row, document_id, document_rows, encoded
from app.retrieval import index as module
from app.retrieval.embedder import StaticEmbedder
from app.retrieval.index import (
    Hit,
    Index,
    IndexMismatch,
    StoredDocument,
    embedder_of,
    open_index,
    renew_index,
)
from app.retrieval.tokenizer import Segmenter
from graphs.options import Filters, Scope

HOSTILE = ["' OR '1'='1", '" or "1" == "1', "100%", "_", "\\", "a'; drop table --", "%", "\n"]


@pytest.fixture(params=["lance", pytest.param("milvus", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "" if request.param == "lance" else str(tmp_path / "milvus.db")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "index"


@pytest.fixture
async def index(url: str, folder: Path, embedder: StaticEmbedder) -> Index:
    return await open_index(folder, embedder, url)


class Writer:
    def __init__(self, index: Index, segmenter: Segmenter) -> None:
        self.index = index
        self.segmenter = segmenter

    def rows(
        self, source: str, *texts: str, owner: str = "", collection: str = "default"
    ) -> list[Row]:
        blocks = [Block(text, (f"Part {number}",)) for number, text in enumerate(texts, start=1)]
        document = LoadedDocument("About", blocks, f"{hash(texts):x}", len("".join(texts)))
        rows = document_rows(source, "", document, owner, collection=collection)
        return encoded(rows, self.index.embedder, self.segmenter)

    async def put(self, source: str, *texts: str, owner: str = "", to: str = "default") -> str:
        await self.index.put(self.rows(source, *texts, owner=owner, collection=to))
        return document_id(source, owner, to)


@pytest.fixture
def writer(index: Index, segmenter: Segmenter) -> Writer:
    return Writer(index, segmenter)


async def by_words(
    index: Index, words: str, filters: Filters | None = None, scope: Scope | None = None
) -> list[Hit]:
    return await index.search_words(words, "en", 10, scope or Scope(), filters or Filters())


def sources(found: list[Hit] | list[StoredDocument]) -> list[str]:
    return sorted(one.source for one in found)


async def test_words_and_meaning_find_the_chunk(writer: Writer) -> None:
    index = writer.index
    await writer.put("pump.md", "The pump stands in the cellar.", "Mice live in the attic.")
    await writer.put("水泵.md", "水泵由林德女士在三月检修。", "果园里的树在春天开花。")
    (hit,) = await by_words(index, "cellar pump")
    assert (hit.source, hit.text, hit.title, hit.heading, hit.position, hit.page) == (
        *("pump.md", "The pump stands in the cellar.", "About", "Part 1", 0, None),
    )
    (hit,) = await index.search_words("水泵 检修", "zh", 10, Scope())
    assert hit.text == "水泵由林德女士在三月检修。"
    vector = index.embedder.embed(["Mice in the attic"])[0]
    first, second = await index.search_vector(vector, "en", 10, Scope())
    assert first.text == "Mice live in the attic."
    assert 1 >= first.score > second.score
    assert await index.count(Scope()) == 4


async def test_what_has_more_of_the_words_comes_first(writer: Writer) -> None:
    for number in range(5):
        await writer.put(f"other{number}.md", f"A gate of number {number} is closed.")
    await writer.put("pumps.md", "Pump beside pump beside pump.")
    await writer.put("one.md", "A pump and many other things that stand in the same long hall.")
    found = await by_words(writer.index, "pump")
    assert [hit.source for hit in found] == ["pumps.md", "one.md"]
    assert found[0].score > found[1].score > 0


async def test_a_document_is_replaced_as_a_whole(writer: Writer) -> None:
    await writer.put("other.md", "The gate is closed.")
    await writer.put("pump.md", "The pump is old.", "The pump leaks.", "The pump is loud.")
    before = {document.source: document for document in await writer.index.documents(Scope())}
    pump = before["pump.md"]
    assert (pump.title, pump.chunks, pump.language, pump.bytes) == ("About", 3, "en", 48)
    assert pump.chunking == "sentence-175-v3"
    await writer.put("pump.md", "The pump is new.")
    assert [hit.text for hit in await by_words(writer.index, "pump")] == ["The pump is new."]
    documents = await writer.index.documents(Scope())
    assert [(document.source, document.chunks) for document in documents] == [
        ("other.md", 1),
        ("pump.md", 1),
    ]
    assert await writer.index.count(Scope()) == 2


async def test_the_same_document_again_changes_nothing(writer: Writer) -> None:
    for _ in range(2):
        await writer.put("pump.md", "The pump is old.", "The pump leaks.")
    assert await writer.index.count(Scope()) == 2


async def test_documents_are_deleted_and_counted(writer: Writer) -> None:
    one, two = [await writer.put(f"{name}.md", "The pump.") for name in ("one", "two")]
    assert await writer.index.delete([], Scope()) == 0
    assert await writer.index.delete([*HOSTILE, "unknown"], Scope()) == 0
    assert await writer.index.delete([one, one, "unknown"], Scope()) == 1
    assert sources(await writer.index.documents(Scope())) == ["two.md"]
    assert sources(await by_words(writer.index, "pump")) == ["two.md"]
    assert await writer.index.delete([two], Scope()) == 1
    assert (await writer.index.documents(Scope()), await writer.index.count(Scope())) == ([], 0)


async def test_filters_restrict_both_searches_before_they_choose(writer: Writer) -> None:
    for number in range(30):
        await writer.put(f"many/{number}.md", "The pump, the pump and the pump.")
    wanted = await writer.put("few/it's.md", "A pump was once seen beside the windmill.")
    await writer.put("zh/水泵.md", "水泵 pump 由林德女士在三月检修。")
    vector = writer.index.embedder.embed(["The pump, the pump and the pump."])[0]
    for filters in (
        Filters(sources=["few/"]),
        Filters(sources=["*/it's.m?"]),
        Filters(document_ids=[wanted]),
        Filters(keywords=["windmill", "nothing"]),
        Filters(language="en", sources=["none", "few/it's.md"]),
    ):
        for found in (
            await writer.index.search_words("pump", "en", 5, Scope(), filters),
            await writer.index.search_vector(vector, "en", 5, Scope(), filters),
        ):
            assert sources(found) == ["few/it's.md"], filters
    none = Filters(sources=["few/"], keywords=["gate"])
    assert await writer.index.search_words("pump", "en", 5, Scope(), none) == []
    assert await writer.index.search_vector(vector, "en", 5, Scope(), Filters(language="zh")) == []


@pytest.mark.parametrize("field", ["sources", "document_ids", "keywords"])
async def test_no_value_of_a_filter_says_more_than_itself(writer: Writer, field: str) -> None:
    await writer.put("pump.md", "The pump.")
    await writer.put("100% sure_.md", "The pump of it.")
    for value in HOSTILE:
        filters = Filters.model_validate({field: [value]})
        found = sources(await by_words(writer.index, "pump", filters))
        assert found == (["100% sure_.md"] if (field, value) == ("sources", "100%") else [])


async def test_a_keyword_is_known_whoever_owns_its_chunk(writer: Writer) -> None:
    await writer.put("pump.md", "The windmill.", owner="ada")
    known = [word for word in ["windmill", "gate", *HOSTILE] if await writer.index.has(word)]
    assert known == ["windmill"]


async def test_owners_see_their_own_and_what_is_shared(writer: Writer) -> None:
    index = writer.index
    await writer.put("shared.md", "The pump.")
    await writer.put("note.md", "The pump of Ada.", owner="ada")
    bobs = await writer.put("note.md", "The pump of Bob.", owner="bob' or '1'='1")
    seen = {"": ["shared.md"], "ada": ["note.md", "shared.md"], "eve": ["shared.md"]}
    vector = index.embedder.embed(["The pump of Bob."])[0]
    for owner, expected in seen.items():
        scope = Scope(owner)
        assert sources(await by_words(index, "pump", scope=scope)) == expected
        assert sources(await index.search_vector(vector, None, 10, scope)) == expected
        assert sources(await index.documents(scope)) == expected
        assert await index.count(scope) == len(expected)
        assert await index.delete([bobs], scope) == 0
        assert await index.columns([f"{bobs}-0"], ["text"], scope) == {}


async def test_collections_are_seen_one_by_one_or_all(writer: Writer) -> None:
    index = writer.index
    plain = await writer.put("note.md", "The pump.", "The lamp.")
    manual = await writer.put("note.md", "The pump of the manual.", to="manuals")
    chinese = await writer.put("水泵.md", "水泵由林德女士在三月检修。", to="手册")
    await writer.put("note.md", "The pump of Ada.", owner="ada", to="手册")
    assert len({plain, manual, chinese}) == 3
    (hit,) = await by_words(index, "pump", scope=Scope(collections=("manuals",)))
    vector = index.embedder.embed(["The pump of the manual."])[0]
    seen = {(): {plain, manual, chinese}, ("manuals",): {manual}, ("手册",): {chinese}}
    for named, expected in (
        *seen.items(),
        (("nope",), set()),
        (("default", "手册"), {plain, chinese}),
    ):
        scope = Scope(collections=named)
        assert {document.id for document in await index.documents(scope)} == expected
        words = {hit.document_id for hit in await by_words(index, "pump", scope=scope)}
        assert words == expected - {chinese}
        near = await index.search_vector(vector, None, 10, scope)
        assert {hit.document_id for hit in near} == expected
        assert await index.count(scope) == len(expected) + (plain in expected)
        assert bool(await index.columns([hit.id], ["text"], scope)) is (manual in expected)
        assert bool(await index.chunks_of(manual, ["text"], scope)) is (manual in expected)
        if manual not in expected:
            assert await index.delete([manual], scope) == 0
    assert {document.id for document in await index.documents(Scope())} == {plain}, (
        "the default one"
    )
    everything = Scope(collections=())
    assert [
        (one.name, one.documents, one.chunks) for one in await index.collections(everything)
    ] == [
        *(("default", 1, 2), ("manuals", 1, 1), ("手册", 1, 1)),
    ]
    assert {document.collection for document in await index.documents(everything)} == {
        *("default", "manuals", "手册"),
    }


async def test_columns_are_read_by_id(writer: Writer) -> None:
    rows = writer.rows("pump.md", "The pump is old.", "The windmill leaks.")
    await writer.index.put([row | {"terms": b"\x00\xff", "page": 3} for row in rows])
    ids = [row["id"] for row in rows]
    found = await writer.index.columns([*ids, "gone", *HOSTILE], ["text", "terms", "page"], Scope())
    assert list(map(found.get, ids)) == [
        {"id": ids[0], "text": "The pump is old.", "terms": b"\x00\xff", "page": 3},
        {"id": ids[1], "text": "The windmill leaks.", "terms": b"\x00\xff", "page": 3},
    ]
    (keywords,) = (await writer.index.columns([ids[1]], ["keywords"], Scope())).values()
    assert {"windmill", "leaks"} <= set(keywords["keywords"])


async def test_tidying_loses_nothing(writer: Writer) -> None:
    await writer.put("pump.md", "The pump is old.")
    await writer.index.tidy()
    await writer.put("mill.md", "The windmill is old.")
    await writer.index.tidy()
    assert sources(await by_words(writer.index, "old")) == ["mill.md", "pump.md"]


async def test_another_client_sees_what_was_written(
    writer: Writer, url: str, folder: Path, embedder: StaticEmbedder
) -> None:
    other = await open_index(folder, embedder, url)
    await writer.put("pump.md", "The pump is old.")
    assert sources(await by_words(other, "pump")) == ["pump.md"]


async def test_an_index_names_the_embedder_that_wrote_it(
    url: str, folder: Path, embedder: StaticEmbedder
) -> None:
    assert await asyncio.to_thread(embedder_of, folder, url) == ""
    await open_index(folder, embedder, url)
    assert await asyncio.to_thread(embedder_of, folder, url) == embedder.name


async def test_searching_goes_on_while_documents_are_replaced(writer: Writer) -> None:
    await writer.put("pump.md", "The pump number none.", "The pump leaks.")
    stop = asyncio.Event()

    async def search() -> int:
        searched = 0
        while not stop.is_set():
            assert await by_words(writer.index, "pump"), "the old or the new is there"
            searched += 1
        return searched

    searching = asyncio.create_task(search())
    for number in range(5):
        await writer.put("pump.md", f"The pump number {number}.", "The pump leaks.")
    stop.set()
    assert await searching > 0


class Renamed(StaticEmbedder):
    name = "another-table"  # type: ignore[assignment]


async def test_another_embedder_must_renew(
    writer: Writer, url: str, folder: Path, segmenter: Segmenter
) -> None:
    rows = [*writer.rows("pump.md", "The pump is old.", "The pump leaks.")]
    await writer.index.put(rows)
    await writer.put("note.md", "The pump of Ada.", owner="ada")
    await writer.put("note.md", "The pump of the manual.", to="手册")
    other = Renamed(segmenter)
    with pytest.raises(IndexMismatch, match="selfcrag ingest --reindex"):
        await open_index(folder, other, url)
    totals = []

    def encode(rows: Sequence[Row], total: int) -> list[Row]:
        totals.append(total)
        return encoded(rows, other, segmenter)

    assert await renew_index(folder, other, encode, url) == 4
    assert set(totals) == {4}
    renewed = await open_index(folder, other, url)
    assert sources(await by_words(renewed, "pump")) == ["pump.md", "pump.md"]
    manual = Scope(collections=("手册",))
    assert sources(await by_words(renewed, "pump", scope=manual)) == ["note.md"]
    kept = ["text", "lead", "first", "last", "keywords", "chunking"]
    found = await renewed.columns([rows[1]["id"]], kept, Scope())
    assert {name: found[rows[1]["id"]][name] for name in kept} == {
        name: rows[1][name] for name in kept
    }


async def test_the_list_is_made_once_for_each_reader_and_state(
    writer: Writer, url: str, folder: Path, embedder: StaticEmbedder, segmenter: Segmenter
) -> None:
    await writer.put("水泵.md", "水泵在三月检修。")
    await writer.put("lamp.md", "It is lit.", owner="ann")
    (first,) = await writer.index.documents(Scope())
    (again,) = await writer.index.documents(Scope())
    assert again == first
    assert (again is first) is not bool(url), "a server does not tell its state"
    assert sources(await writer.index.documents(Scope("ann"))) == ["lamp.md", "水泵.md"]
    other = Writer(await open_index(folder, embedder, url), segmenter)
    await other.put("阀门.md", "阀门在夜里打开。")
    assert sources(await writer.index.documents(Scope())) == ["水泵.md", "阀门.md"]


async def test_two_readers_at_once_see_their_own_lists(writer: Writer) -> None:
    for owner in ("ann", "bob"):
        await writer.put(f"{owner}.md", "Words.", owner=owner)

    async def seen(owner: str) -> list[str]:
        return sources(await writer.index.documents(Scope(owner)))

    names = ["ann", "bob"] * 5
    assert await asyncio.gather(*map(seen, names)) == [[f"{name}.md"] for name in names]


@pytest.mark.slow
async def test_a_milvus_from_before_there_were_collections_must_be_renewed(
    tmp_path: Path,
    embedder: StaticEmbedder,
    segmenter: Segmenter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, url = tmp_path / "data" / "index", str(tmp_path / "milvus.db")
    with monkeypatch.context() as before:
        before.setattr(module, "STRINGS", module.STRINGS[:-1])
        writer = Writer(await open_index(folder, embedder, url), segmenter)
        await writer.index.put(writer.rows("pump.md", "The pump is old."))
    with pytest.raises(IndexMismatch, match=r"another version.*selfcrag ingest --reindex"):
        await open_index(folder, embedder, url)

    def encode(rows: Sequence[Row], _: int) -> list[Row]:
        return encoded(rows, embedder, segmenter)

    assert await renew_index(folder, embedder, encode, url) == 1
    (hit,) = await by_words(await open_index(folder, embedder, url), "pump")
    assert hit.source == "pump.md"
