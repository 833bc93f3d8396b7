import asyncio
import re
from pathlib import Path

import lancedb
import pytest

from app.composition.embedder import open_retriever
from app.ingest.pipeline import ingest, reindex
from app.retrieval.embedder import StaticEmbedder
from app.retrieval.index import IndexMismatch, IndexUnusable, open_index
from app.retrieval.retriever import HybridRetriever
from app.retrieval.terms import LexicalReranker, term_tables
from graphs.errors import RetrieverFailed
from graphs.options import Scope

PAGES = {
    "en/pump.md": "# Pump house\n\nThe pump was serviced in March by Ms. Lind.\n\n"
    "## Valves\n\nThe upper valve opens at 0.59 bar.\n",
    "en/orchard.md": "# Orchard\n\nApple trees blossom in spring and need frost-free nights.\n",
    "zh/pump.md": "# 水泵房\n\n水泵由林德女士在三月检修。\n\n## 阀门\n\n上阀门在0.59巴时打开。\n",
    "zh/orchard.md": "# 果园\n\n蘋果樹在春天開花，夜裡不能有霜。控制器叫做 OrchardBox。\n",
}


@pytest.mark.parametrize(
    ("question", "source", "title"),
    [
        ("When was the pump serviced?", "docs/en/pump.md", "Pump house"),
        ("At what pressure does the upper valve open?", "docs/en/pump.md", "Pump house › Valves"),
        ("What do apple trees need?", "docs/en/orchard.md", "Orchard"),
        ("谁检修了水泵？", "docs/zh/pump.md", "水泵房"),
        ("上阀门什么时候打开？", "docs/zh/pump.md", "水泵房 › 阀门"),
        ("苹果树什么时候开花？", "docs/zh/orchard.md", "果园"),
        ("蘋果樹什麼時候開花？", "docs/zh/orchard.md", "果园"),
        ("What is 水泵房?", "docs/zh/pump.md", "水泵房"),
        ("Where is 果园?", "docs/zh/orchard.md", "果园"),
    ],
)
async def test_the_right_section_comes_first(
    filled: HybridRetriever, question: str, source: str, title: str
) -> None:
    first, *rest = await filled.retrieve(question, 3)
    assert (first.source, first.title, first.origin) == (source, title, "internal")
    assert all(first.score >= passage.score for passage in rest)


async def test_a_question_in_other_words_finds_its_page_by_meaning(
    filled: HybridRetriever,
) -> None:
    first, *_ = await filled.retrieve("fruit garden", 3)
    assert first.source == "docs/en/orchard.md"


async def test_a_name_that_only_the_other_language_has_is_found(filled: HybridRetriever) -> None:
    found = await filled.retrieve("Tell me about OrchardBox", 10)
    assert "docs/zh/orchard.md" in [passage.source for passage in found]


OTHERS = {
    "zh": "仓库{0}号存放木材，由管理员每周清点。\n",
    "en": "Shed number {0} holds timber that its keeper counts each week.\n",
}
NAMING = {
    "en": "ZEPHYR_TIMEOUT is thirty seconds unless told otherwise.\n",
    "zh": "若无另行说明，ZEPHYR_TIMEOUT 为三十秒。\n",
}


@pytest.mark.parametrize(
    ("question", "many", "others", "k"),
    [
        ("ZEPHYR_TIMEOUT 的值是多少？", "zh", 12, 5),
        ("ZEPHYR_TIMEOUT 的值是多少？", "zh", 12, 10),
        ("What is the value of ZEPHYR_TIMEOUT?", "en", 4, 5),
    ],
)
async def test_a_name_is_found_in_the_other_language_among_many_of_ones_own(
    retriever: HybridRetriever, tmp_path: Path, question: str, many: str, others: int, k: int
) -> None:
    other = "en" if many == "zh" else "zh"
    docs = [tmp_path / f"{number}.md" for number in range(others)]
    for number, file in enumerate(docs):
        file.write_text(OTHERS[many].format(number), "utf-8")
    naming = tmp_path / "settings.md"
    naming.write_text(NAMING[other], "utf-8")
    await ingest([*docs, naming], retriever.index, retriever.segmenter)
    found = await retriever.retrieve(question, k)
    assert "ZEPHYR_TIMEOUT" in " ".join(passage.text for passage in found)
    assert len(found) == min(k, others + 1)


async def test_never_more_than_asked(filled: HybridRetriever) -> None:
    assert len(await filled.retrieve("pump", 1)) == 1
    assert len({passage.id for passage in await filled.retrieve("pump", 50)}) <= 6


@pytest.mark.parametrize(
    "query", ["", "?", "'; drop table --", '"( OR * :^~', "。", "🙂", "x" * 8000]
)
async def test_no_query_breaks_the_search(filled: HybridRetriever, query: str) -> None:
    assert len(await filled.retrieve(query, 5)) <= 5


async def test_an_empty_knowledge_base_says_so(filled: HybridRetriever) -> None:
    await filled.index.delete(
        [document.id for document in await filled.index.documents(Scope())], Scope()
    )
    assert await filled.index.documents(Scope()) == []
    data = re.escape(str(filled.index.folder.parent))
    with pytest.raises(RetrieverFailed, match=f"{data} is empty: run `selfcrag ingest PATH`"):
        await filled.retrieve("anything", 5)


async def test_what_has_no_known_word_is_stored_and_finding_nothing_is_no_failure(
    retriever: HybridRetriever, tmp_path: Path
) -> None:
    marks = tmp_path / "\u16a0.md"
    marks.write_text("\u16a0\u16a1\u16a2 \u16a3\u16a4\n", "utf-8")
    assert (await ingest([marks], retriever.index, retriever.segmenter)).chunks == 1
    assert await retriever.retrieve("fruit garden", 5) == []
    folder, embedder = retriever.index.folder, retriever.index.embedder
    assert await reindex(folder, embedder, retriever.segmenter) == 1
    assert (await retriever.retrieve("\u16a3\u16a4", 5))[
        0
    ].text == "\u16a0\u16a1\u16a2 \u16a3\u16a4"


async def test_a_lost_index_is_a_typed_error(filled: HybridRetriever) -> None:
    """For the search, and for what orders what it found before."""
    found = await filled.retrieve("pump", 3)
    reranker = LexicalReranker(filled.index, term_tables(filled.segmenter))
    for file in sorted(filled.index.folder.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    with pytest.raises(RetrieverFailed, match="is missing: run `selfcrag ingest PATH`"):
        await filled.retrieve("pump", 3)
    with pytest.raises(RetrieverFailed, match="is missing"):
        await reranker.rerank("pump", found, Scope())


def damage(folder: Path, part: str) -> None:
    for file in (folder / "chunks.lance" / part).rglob("*"):
        if file.is_file():
            file.write_bytes(b"damaged")


async def test_lost_search_structures_are_renewed(
    filled: HybridRetriever, embedder: StaticEmbedder
) -> None:
    folder = filled.index.folder
    damage(folder, "_indices")
    reopened = HybridRetriever(await open_index(folder, embedder), filled.segmenter)
    with pytest.raises(RetrieverFailed, match="`selfcrag ingest --reindex` renews it"):
        await reopened.retrieve("pump", 3)
    assert await reindex(folder, embedder, filled.segmenter) == 6
    renewed = HybridRetriever(await open_index(folder, embedder), filled.segmenter)
    assert (await renewed.retrieve("pump", 3))[0].source == "docs/en/pump.md"


async def test_a_file_cannot_be_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("words", "utf-8")
    (tmp_path / "index").write_text("words", "utf-8")
    with pytest.raises(IndexUnusable, match=r"index cannot be used .* it is a file"):
        await open_retriever(tmp_path)
    for data, reason in ((tmp_path / "file", "it is a file"), (tmp_path / "file" / "x", "Not a")):
        with pytest.raises(IndexUnusable, match=reason):
            await open_retriever(data)


async def test_an_index_of_the_format_before_is_renewed(
    filled: HybridRetriever, embedder: StaticEmbedder
) -> None:
    folder = filled.index.folder
    database = await lancedb.connect_async(folder)
    rows = (await (await database.open_table("chunks")).query().to_arrow()).drop_columns(["path"])
    rows = rows.replace_schema_metadata({"embedder": embedder.name, "format": "1"})
    await database.create_table("chunks", rows, mode="overwrite")
    with pytest.raises(IndexMismatch, match=r"another version of self-crag.*--reindex"):
        await open_index(folder, embedder)
    assert await reindex(folder, embedder, filled.segmenter) == 6
    index = await open_index(folder, embedder)
    assert {document.path for document in await index.documents(Scope())} == {""}
    report = await ingest([Path("docs")], index, filled.segmenter)
    assert len(report.updated) == 4
    working = filled.index.folder.parents[1]
    assert {document.path for document in await index.documents(Scope())} == {
        str(working / "docs" / name) for name in PAGES
    }


async def test_a_search_that_takes_too_long_is_a_typed_error(
    filled: HybridRetriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(filled.index, "search_words", never)
    hasty = HybridRetriever(filled.index, filled.segmenter, timeout_s=0.05)
    with pytest.raises(RetrieverFailed, match=r"within 0\.05 s"):
        await hasty.retrieve("pump", 3)


async def test_open_makes_everything_in_the_data_folder(tmp_path: Path) -> None:
    retriever = await open_retriever(tmp_path / "new")
    assert await retriever.ready()
    assert (tmp_path / "new" / "index").is_dir()
    assert retriever.embedder_name.startswith("static-")
