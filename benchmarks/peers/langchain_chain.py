"""LangChain's first chain: four passages and the question, one call, whatever was found."""

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from benchmarks.peers.peer import TOP_K, Answering, Task, run

MAX_TOKENS = 300
PROMPT = ChatPromptTemplate.from_template(
    "Answer the question from the context below, in three sentences at most. If the context does "
    "not hold the answer, say that you don't know.\n\nContext:\n{context}\n\n"
    "Question: {question}\nAnswer:"
)


def chat_model(task: Task) -> ChatOpenAI:
    return ChatOpenAI(
        base_url=task.base_url, api_key="none", model=task.model, temperature=0,
        max_completion_tokens=MAX_TOKENS, max_retries=0,
    )  # fmt: skip


def retriever_of(task: Task) -> BaseRetriever:
    """Over vectors of the encoder that the compared service ships."""
    embeddings = OpenAIEmbeddings(
        openai_api_base=task.base_url, openai_api_key="none", model="e5",
        check_embedding_ctx_length=False, chunk_size=64,
    )  # fmt: skip
    store = InMemoryVectorStore(embeddings)
    store.add_texts([f"{title}\n{text}" for title, text in task.documents])
    return store.as_retriever(search_kwargs={"k": TOP_K})


def build(task: Task) -> Answering:
    retriever, write = retriever_of(task), PROMPT | chat_model(task) | StrOutputParser()

    def answer(question: str) -> str:
        context = "\n\n".join(each.page_content for each in retriever.invoke(question))
        return write.invoke({"context": context, "question": question})

    return answer


if __name__ == "__main__":
    run(build)
