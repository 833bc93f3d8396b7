"""Haystack without a model: the passage that BM25 puts first is the answer."""

from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.document_stores.in_memory import InMemoryDocumentStore

from benchmarks.peers.peer import Answering, Task, run


def build(task: Task) -> Answering:
    store = InMemoryDocumentStore()
    store.write_documents([Document(content=f"{title}\n{text}") for title, text in task.documents])
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store, top_k=1))

    def answer(question: str) -> str:
        found = pipeline.run({"retriever": {"query": question}})["retriever"]["documents"]
        return str(found[0].content) if found else ""

    return answer


if __name__ == "__main__":
    run(build)
