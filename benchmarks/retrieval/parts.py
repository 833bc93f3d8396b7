"""The sections of the retrieval benchmark beside the searches: reranking, embedders, LangChain."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import numpy as np
from langchain_core.embeddings import Embeddings
from sentence_transformers import SentenceTransformer

from app.retrieval.e5_embedder import E5Embedder
from app.retrieval.embedder import ENCODER_WEIGHTS, StaticEmbedder, Vectors, unit
from app.retrieval.retriever import HybridRetriever
from app.retrieval.terms import LexicalReranker, TermTables
from app.retrieval.tokenizer import Segmenter
from benchmarks.report import Figures
from benchmarks.reproduce.costs import evaluator_here
from benchmarks.retrieval import plain
from benchmarks.retrieval.base import by_search, knowledge_base, summary, told
from benchmarks.retrieval.sets import Material
from benchmarks.retrieval.table import encoder_folder
from evaluator.inference.scorer import e5_embedder
from evaluator.serving.batching import Limits
from graphs.grading.relevance import relevance_of
from graphs.grading.strips import evaluator_text
from graphs.options import Scope, Search
from graphs.text.questions import subquestions_of
from graphs.types import Passage

CANDIDATES = 50
E5_ALPHAS = (0.3, 0.5, 1.0, 2.0)
TITLES = True
Scoring = Callable[[str, Sequence[Passage]], Awaitable[Sequence[float]]]


async def reranked(
    found: Material, most: int, embedder: StaticEmbedder, segmenter: Segmenter
) -> Figures:
    """The hybrid's 50 candidates as they come, and in the order of each reranker."""
    asked = found.some(most)
    async with (
        knowledge_base(found, embedder, segmenter) as (retriever, _),
        evaluator_here(Limits().cached_pairs) as grader,
    ):
        rows = {"hybrid": await told(by_search(retriever, Search(), CANDIDATES), asked)}
        lexical = LexicalReranker(retriever.index, TermTables(segmenter))
        rows["+ lexical"] = await told(
            _reordered(retriever, partial(lexical.rerank, scope=Scope())), asked
        )

        async def grades(question: str, passages: Sequence[Passage]) -> Sequence[float]:
            texts = [evaluator_text(passage, TITLES) for passage in passages]
            graded = await relevance_of(_parts(question), texts, grader)
            return [score if score is not None else -np.inf for score in graded.best]

        rows["+ evaluator"] = await told(_reordered(retriever, grades), asked)
    return {"rows": rows, "base": "hybrid", "candidates": CANDIDATES}


def _parts(question: str) -> list[str]:
    """The question and, where it has several parts, these."""
    parts = subquestions_of(question)
    return [question, *(parts if len(parts) > 1 else [])]


def _reordered(
    retriever: HybridRetriever, scoring: Scoring
) -> Callable[[str], Awaitable[Sequence[Passage]]]:
    async def ask(question: str) -> Sequence[Passage]:
        passages = await retriever.retrieve(question, CANDIDATES)
        scores = await scoring(question, passages)
        order = sorted(range(len(passages)), key=lambda at: -scores[at])
        return [passages[at] for at in order]

    return ask


class SentenceEmbeddings(Embeddings):
    """all-MiniLM-L6-v2 on this machine, as LangChain's users take it."""

    def __init__(self) -> None:
        self._model = SentenceTransformer(str(encoder_folder()), device="cpu")

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self._model.encode(
            texts, batch_size=32, show_progress_bar=False
        ).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


class SentenceEmbedder:
    """The same as an embedder of ours."""

    name, dimensions = "all-MiniLM-L6-v2", 384
    crosses_languages, weights = True, ENCODER_WEIGHTS

    def __init__(self) -> None:
        self._embeddings = SentenceEmbeddings()

    def embed(self, texts: Sequence[str]) -> Vectors:
        return unit(np.asarray(self._embeddings.embed_documents(list(texts)), np.float32))

    async def aclose(self) -> None:
        """There is nothing to release."""

    async def embed_query(self, text: str) -> Vectors:
        question: Vectors = self.embed([text])[0]
        return question


class StaticEmbeddings(Embeddings):
    """Our table behind LangChain's interface."""

    def __init__(self, embedder: StaticEmbedder) -> None:
        self._embedder = embedder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self._embedder.embed(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


async def _by_table(
    found: Material, most: int, embedder: StaticEmbedder, segmenter: Segmenter
) -> dict[str, Figures]:
    searches = {
        "BM25": Search(mode="bm25"),
        "table, dense": Search(mode="dense"),
        "table, hybrid": Search(),
    }
    async with knowledge_base(found, embedder, segmenter) as (retriever, _):
        return {
            name: await told(by_search(retriever, search), found.some(most))
            for name, search in searches.items()
        }


async def with_e5(
    found: Material, most: int, embedder: StaticEmbedder, segmenter: Segmenter
) -> Figures:
    """The shipped table beside e5, of the folder that SELFCRAG_EVALUATOR_EMBEDDER names."""
    rows = await _by_table(found, most, embedder, segmenter)
    encoder = e5_embedder()
    searches = {"dense": Search(mode="dense")}
    searches |= {f"hybrid, alpha {alpha:g}": Search(alpha=alpha) for alpha in E5_ALPHAS}
    searches["hybrid, reciprocal ranks"] = Search(fusion="rrf")
    e5 = E5Embedder(encoder, encoder.name)
    async with knowledge_base(found, e5, segmenter) as (retriever, built_s):
        for name, search in searches.items():
            rows[f"e5, {name}"] = await told(by_search(retriever, search), found.some(most))
    built = {encoder.name: built_s}
    return {"rows": rows, "base": "table, hybrid", "built": built, "passages": len(found.passages)}


async def other_embedder(
    found: Material, most: int, embedder: StaticEmbedder, segmenter: Segmenter
) -> Figures:
    """The shipped table beside MiniLM, which knows no Chinese."""
    asked = found.some(most)
    rows = await _by_table(found, most, embedder, segmenter)
    sentences = SentenceEmbedder()
    async with knowledge_base(found, sentences, segmenter) as (retriever, built_s):
        rows["MiniLM, dense"] = await told(by_search(retriever, Search(mode="dense")), asked)
        rows["MiniLM, hybrid"] = await told(by_search(retriever, Search()), asked)
        for alpha in (1.0, 2.0):  # 2 is what the table is given in English
            search = Search(alpha=alpha)
            rows[f"MiniLM, hybrid, alpha {alpha:g}"] = await told(
                by_search(retriever, search), asked
            )
    return {"rows": rows, "base": "table, hybrid", "built_s": built_s}


async def beside_plain(
    found: Material, most: int, embedder: StaticEmbedder, segmenter: Segmenter
) -> Figures:
    """Ours and LangChain's over the same passages, the same questions, in one run."""
    asked = found.some(most)
    questions, gold = [question for question, _ in asked], [key for _, key in asked]
    rows: dict[str, Figures] = {}
    built: dict[str, float] = {}
    async with knowledge_base(found, embedder, segmenter) as (retriever, took_s):
        built["ours"] = took_s
        rows["ours, hybrid"] = await told(by_search(retriever, Search()), asked)
        lexical = LexicalReranker(retriever.index, TermTables(segmenter))
        rows["ours, hybrid + lexical"] = await told(
            _reordered(retriever, partial(lexical.rerank, scope=Scope())), asked
        )
    embeddings: dict[str, Embeddings] = {"our table": StaticEmbeddings(embedder)}
    if found.task.language == "en":
        embeddings["MiniLM"] = SentenceEmbeddings()
    split = plain.blanks if found.task.language == "en" else plain.words
    for name, chosen in embeddings.items():
        pipeline = plain.built(found, chosen, split)
        built[f"LangChain, {name}"] = pipeline.built_s
        for part, retriever_of in pipeline.retrievers.items():
            orders, took_ms = plain.asked(retriever_of, questions)
            row = f"LangChain, {part}" + ("" if part == "BM25" else f", {name}")
            rows.setdefault(row, summary(orders, took_ms, gold))
    return {"rows": rows, "base": "ours, hybrid", "built": built}
