"""LlamaIndex's corrective workflow: passages judged by the model, a summary of the rest.

What is judged irrelevant is left out, and a new wording of the question asks the web.
"""

import asyncio

from llama_index.core import Document, Settings, SummaryIndex, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import LLM
from llama_index.core.schema import NodeWithScore
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step
from llama_index.llms.openai_like import OpenAILike
from openai import OpenAI

from benchmarks.peers.peer import TOP_K, Answering, Task, run

RELEVANT = (
    "Does this passage bear on the question? Answer yes or no, nothing else.\n\n"
    "Passage:\n{passage}\n\nQuestion: {question}\nAnswer:"
)
REWRITE = (
    "Reword this question so that a web search understands it best. Write the new question and "
    "nothing else.\n\nQuestion: {question}"
)


class ServedEmbedding(BaseEmbedding):
    """Vectors of the encoder that the compared service ships."""

    url: str

    def _vectors(self, texts: list[str]) -> list[list[float]]:
        client = OpenAI(base_url=self.url, api_key="none")
        reply = client.embeddings.create(model="e5", input=texts, encoding_format="float")
        return [each.embedding for each in reply.data]

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._vectors([query])[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._vectors([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return self._vectors(texts)


class Retrieved(Event):
    nodes: list[NodeWithScore]


class Judged(Event):
    texts: list[str]
    is_whole: bool


class Corrective(Workflow):
    def __init__(self, task: Task, llm: LLM, index: VectorStoreIndex) -> None:
        super().__init__(timeout=300)
        self._task, self._llm = task, llm
        self._retriever = index.as_retriever(similarity_top_k=TOP_K)

    @step
    async def retrieve(self, ctx: Context, begin: StartEvent) -> Retrieved:
        await ctx.store.set("question", begin.question)
        return Retrieved(nodes=await self._retriever.aretrieve(begin.question))

    @step
    async def judge(self, ctx: Context, found: Retrieved) -> Judged:
        question, texts = await ctx.store.get("question"), []
        for node in found.nodes:
            prompt = RELEVANT.format(passage=node.text, question=question)
            if "yes" in str(await self._llm.acomplete(prompt)).lower():
                texts.append(node.text)
        return Judged(texts=texts, is_whole=len(texts) == len(found.nodes))

    @step
    async def answer(self, ctx: Context, judged: Judged) -> StopEvent:
        question, texts = await ctx.store.get("question"), judged.texts
        if not judged.is_whole:
            query = str(await self._llm.acomplete(REWRITE.format(question=question)))
            texts = [*texts, *self._task.search(query.strip())]
        index = SummaryIndex.from_documents([Document(text=text) for text in texts])
        reply = await index.as_query_engine(llm=self._llm).aquery(question)
        return StopEvent(result=str(reply))


def build(task: Task) -> Answering:
    llm = OpenAILike(
        model=task.model, api_base=task.base_url, api_key="none", is_chat_model=True,
        context_window=8192, max_tokens=300, temperature=0, max_retries=0, timeout=120,
        reuse_client=False,
    )  # fmt: skip
    Settings.llm = llm
    Settings.embed_model = ServedEmbedding(url=task.base_url, embed_batch_size=64)
    documents = [Document(text=f"{title}\n{text}") for title, text in task.documents]
    index = VectorStoreIndex.from_documents(documents)

    async def ask(question: str) -> str:
        return str(await Corrective(task, llm, index).run(question=question))

    return lambda question: asyncio.run(ask(question))


if __name__ == "__main__":
    run(build)
