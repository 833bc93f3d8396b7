"""A plain LangChain pipeline, to stand beside ours: recursive splitter, BM25 and FAISS, ensemble.

The parts as their documentation puts them together: RecursiveCharacterTextSplitter (1,000
characters, 200 overlap), BM25Retriever, FAISS, EnsembleRetriever with equal weights. BM25Retriever
splits at blanks, which leaves a Chinese sentence whole: with `segment` it gets jieba's words, as
its users are told to give it.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jieba
from langchain_classic.retrievers import EnsembleRetriever
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_text_splitters import RecursiveCharacterTextSplitter

from benchmarks.retrieval.sets import DEPTH, Material, documents

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from langchain_community.retrievers.bm25 import BM25Retriever
    from langchain_community.vectorstores.faiss import FAISS

CHARACTERS, OVERLAP = 1000, 200
# Chunks of one passage count once, so more are asked for than are counted.
CHUNKS = 2 * DEPTH
Split = Callable[[str], list[str]]


@dataclass(frozen=True)
class Plain:
    """The three retrievers over one collection; `built_s` are the seconds it took."""

    retrievers: dict[str, BaseRetriever]
    built_s: float


def built(material: Material, embeddings: Embeddings, split: Split) -> Plain:
    started = time.perf_counter()
    splitter = RecursiveCharacterTextSplitter(chunk_size=CHARACTERS, chunk_overlap=OVERLAP)
    whole = [
        Document(f"{title}\n{text}", metadata={"key": key})
        for key, title, text in material.passages
    ]
    chunks = splitter.split_documents(whole)
    words = BM25Retriever.from_documents(chunks, k=CHUNKS, preprocess_func=split)
    dense = FAISS.from_documents(chunks, embeddings).as_retriever(search_kwargs={"k": CHUNKS})
    joined = EnsembleRetriever(retrievers=[words, dense], weights=[0.5, 0.5])
    found = {"BM25": words, "FAISS": dense, "ensemble": joined}
    return Plain(found, time.perf_counter() - started)


def asked(
    retriever: BaseRetriever, questions: Sequence[str]
) -> tuple[list[list[str]], list[float]]:
    """The passages' keys for each question, and milliseconds a question."""
    orders, took_ms = [], []
    for question in questions:
        started = time.perf_counter()
        found = retriever.invoke(question)
        took_ms.append(1000 * (time.perf_counter() - started))
        orders.append(documents(document.metadata["key"] for document in found))
    return orders, took_ms


def blanks(text: str) -> list[str]:
    """What BM25Retriever does when told nothing."""
    return text.split()


def words(text: str) -> list[str]:
    return [word for word in jieba.lcut(text) if word.strip()]
