"""What experiments ask about: a set's questions, what retrieval brings for each, a recorded web.

Where a file brings no contexts, its positive passages and the corpora of its language make a
knowledge base, which is searched as the service does by default. The web is a recording: the
passages that BM25 finds there for the question and for its keywords, as result pages.
"""

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from app.extensions.evaluation.matching import holds
from app.ingest.loaders.document import LoadedDocument
from app.ingest.loaders.markup import text_blocks
from app.ingest.rows import document_rows
from app.retrieval.embedder import StaticEmbedder
from app.retrieval.index import open_index
from app.retrieval.retriever import HybridRetriever
from app.retrieval.terms import RareWords, term_tables
from app.retrieval.tokenizer import Segmenter
from app.websearch.engines import RECORDING, FixtureSearch, RecordedResult
from benchmarks.reproduce.formats import (
    BenchmarkExample,
    Evidence,
    UnknownFormat,
    read_corpus,
    read_examples,
)
from benchmarks.retrieval.base import indexed
from graphs.nodes.web import MAX_KEYWORDS
from graphs.options import Search
from graphs.types import Degraded, Language, Passage, WebPage

RETRIEVED = 10
WEB_PAGES = 5
WEB_MISSES = 0.25
"""Share of the right pages that the recorded search engine does not find."""
RECORDED_AT = "https://recorded.invalid/"


@dataclass(frozen=True, slots=True)
class BenchmarkCase:
    """An example and the passages that retrieval brought, best first."""

    example: BenchmarkExample
    retrieved: tuple[Passage, ...]

    def is_right(self, passage: Passage) -> bool:
        """Whether it holds a gold answer."""
        return holds(f"{passage.title}\n{passage.text}", self.example.golds)


@dataclass(frozen=True, slots=True)
class BenchmarkSet:
    """A file's questions, all or drawn by the seed, with the passages around them."""

    name: str
    path: Path
    examples: tuple[BenchmarkExample, ...]
    passages: tuple[Evidence, ...]
    has_contexts: bool

    @property
    def language(self) -> Language:
        return self.examples[0].language

    @property
    def digest(self) -> str:
        """Of all that a knowledge base is made of."""
        told = [self.has_contexts, *((each.title, each.text) for each in self.passages)]
        return sha256(json.dumps(told).encode()).hexdigest()[:12]


def read_set(path: Path, corpora: Sequence[Path], limit: int, seed: int) -> BenchmarkSet:
    """Raises UnknownFormat."""
    examples = read_examples(path)
    language = examples[0].language
    own = [each for example in examples for each in example.evidence]
    others = [each for corpus in corpora for each in read_corpus(corpus)]
    alike = [each for each in others if _language(each) == language]
    if not own and not alike:
        raise UnknownFormat(f"{path} brings no passages: name a corpus of its language")
    contexts = any(each.role == "context" for each in own)
    drawn = random.Random(seed).sample(examples, len(examples))[: limit or None]
    return BenchmarkSet(
        path.name.partition(".")[0], path, tuple(drawn),
        tuple(dict.fromkeys([*own, *alike])), contexts,
    )  # fmt: skip


def _language(evidence: Evidence) -> Language:
    return BenchmarkExample("", evidence.text[:500]).language


async def knowledge_base(found: BenchmarkSet, folder: Path) -> HybridRetriever:
    """The index of the set's passages in `folder`, made where it is not whole yet."""
    segmenter = Segmenter(folder / "cache")
    embedder = StaticEmbedder(segmenter)
    mark = folder / "whole"
    if mark.exists():
        index = await open_index(folder / "index", embedder)
    else:
        rows = []
        for n, each in enumerate(found.passages):
            document = LoadedDocument(each.title, text_blocks(each.text), f"{n}", len(each.text))
            rows += document_rows(f"{n}", f"{n}", document)
        index = await indexed(folder, rows, embedder, segmenter)
        mark.touch()
    return HybridRetriever(index, segmenter)


async def cases_of(found: BenchmarkSet, base: HybridRetriever) -> list[BenchmarkCase]:
    """What the file has of contexts; else what the knowledge base has."""
    cases = []
    for example in found.examples:
        if found.has_contexts:
            contexts = [each for each in example.evidence if each.role == "context"]
            passages = [as_passage(each, n) for n, each in enumerate(contexts[:RETRIEVED], 1)]
        else:
            passages = list(await base.retrieve(example.question, RETRIEVED))
        cases.append(BenchmarkCase(example, tuple(passages)))
    return cases


def as_passage(evidence: Evidence, n: int) -> Passage:
    return Passage(f"given-{n}", evidence.text, evidence.title, "", 1 / n)


async def record_web(
    found: BenchmarkSet, base: HybridRetriever, file: Path, seed: int
) -> "RecordedWeb":
    """Result pages for each question and its keywords, in the format of the search `fixture`.

    A page that holds a gold answer is missed with the probability WEB_MISSES.
    """
    recorded: dict[str, list[RecordedResult]] = {}
    extractor = RareWords(term_tables(base.segmenter))
    for example in found.examples:
        asked = BenchmarkCase(example, ())
        keywords = ", ".join(await extractor.keywords(example.question, MAX_KEYWORDS))
        for query in filter(None, (example.question, keywords)):
            hits = await base.retrieve(query, WEB_PAGES, Search(mode="bm25"))
            recorded[query] = [
                RecordedResult(url=f"{RECORDED_AT}{hit.id}", title=hit.title, text=hit.text)
                for hit in hits
                if not asked.is_right(hit) or draw(seed, "web", example.id, hit.id) >= WEB_MISSES
            ]
    await asyncio.to_thread(file.write_bytes, RECORDING.dump_json(recorded, indent=1))
    return RecordedWeb(file, f"{found.digest} {seed} {WEB_MISSES}")


def draw(seed: int, *parts: object) -> float:
    """0…1, by what it is drawn for alone: more dropped is a superset of less."""
    digest = sha256("\0".join(map(str, (seed, *parts))).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


class RecordedWeb:
    """`ports.WebSearch` over a recording: the recorded text of a page is its paragraphs."""

    def __init__(self, file: Path, name: str) -> None:
        self._engine, self.name = FixtureSearch(file), name

    async def search(
        self, query: str, max_pages: int
    ) -> tuple[Sequence[WebPage], Sequence[Degraded]]:
        hits = await self._engine.search(query, max_pages)
        return [
            WebPage(hit.url, hit.title, hit.score, tuple(filter(None, hit.text.splitlines())))
            for hit in hits
        ], ()
