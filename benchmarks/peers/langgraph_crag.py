"""Corrective RAG as LangGraph's tutorial draws it: the model grades each passage, yes or no.

One passage that is not relevant sends a better wording of the question to the web.
"""

from typing import Literal, TypedDict

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, Field

from benchmarks.peers.langchain_chain import PROMPT, chat_model, retriever_of
from benchmarks.peers.peer import Answering, Task, run


class Grade(BaseModel):
    """Whether a passage is relevant to the question."""

    score: Literal["yes", "no"] = Field(description="yes or no")


GRADE = ChatPromptTemplate.from_template(
    "Does this passage bear on the question, by its words or its meaning? Give the score yes or "
    "no.\n\nPassage:\n{passage}\n\nQuestion: {question}"
)
REWRITE = ChatPromptTemplate.from_template(
    "Reword this question so that a web search understands it best. Write the new question and "
    "nothing else.\n\nQuestion: {question}"
)


class State(TypedDict, total=False):
    question: str
    query: str
    passages: list[str]
    is_whole: bool
    answer: str


def build(task: Task) -> Answering:
    model, retriever = chat_model(task), retriever_of(task)
    grader = GRADE | model.with_structured_output(Grade, method="json_schema")
    rewriter, writer = (prompt | model | StrOutputParser() for prompt in (REWRITE, PROMPT))

    def retrieve(state: State) -> State:
        return {"passages": [it.page_content for it in retriever.invoke(state["question"])]}

    def grade(state: State) -> State:
        question = state["question"]
        good = [
            passage
            for passage in state["passages"]
            if grader.invoke({"passage": passage, "question": question}).score == "yes"  # type: ignore[union-attr]
        ]
        return {"passages": good, "is_whole": len(good) == len(state["passages"])}

    def rewrite(state: State) -> State:
        return {"query": rewriter.invoke({"question": state["question"]})}

    def search(state: State) -> State:
        return {"passages": [*state["passages"], *task.search(state["query"])]}

    def generate(state: State) -> State:
        context = "\n\n".join(state["passages"])
        return {"answer": writer.invoke({"context": context, "question": state["question"]})}

    graph = StateGraph(State)
    for node in (retrieve, grade, rewrite, search, generate):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "grade")
    graph.add_conditional_edges("grade", lambda it: "generate" if it["is_whole"] else "rewrite")
    graph.add_edge("rewrite", "search")
    graph.add_edge("search", "generate")
    graph.add_edge("generate", END)
    compiled = graph.compile()
    return lambda question: str(compiled.invoke({"question": question})["answer"])


if __name__ == "__main__":
    run(build)
