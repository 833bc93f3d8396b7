"""Self-RAG as LangGraph's tutorial draws it: the model grades passages, then its own answer twice.

An answer that the passages do not bear is written again; one that does not answer, or no relevant
passage, rewords the question and retrieves again. The limit of steps is the tutorial's.
"""

from typing import Literal

from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph

from benchmarks.peers.langchain_chain import PROMPT, chat_model, retriever_of
from benchmarks.peers.langgraph_crag import GRADE, REWRITE, Grade, State
from benchmarks.peers.peer import Answering, Task, run

MAX_STEPS = 25
GROUNDED = ChatPromptTemplate.from_template(
    "Is this answer borne out by the facts? Give the score yes or no.\n\nFacts:\n{context}\n\n"
    "Answer: {answer}"
)
ANSWERS = ChatPromptTemplate.from_template(
    "Does this answer settle the question? Give the score yes or no.\n\nQuestion: {question}\n\n"
    "Answer: {answer}"
)


def build(task: Task) -> Answering:
    model, retriever = chat_model(task), retriever_of(task)
    score = model.with_structured_output(Grade, method="json_schema")
    rewriter, writer = (prompt | model | StrOutputParser() for prompt in (REWRITE, PROMPT))

    def says_yes(prompt: ChatPromptTemplate, **fields: str) -> bool:
        return bool((prompt | score).invoke(fields).score == "yes")  # type: ignore[union-attr]

    def retrieve(state: State) -> State:
        return {"passages": [it.page_content for it in retriever.invoke(state["question"])]}

    def grade(state: State) -> State:
        question = state["question"]
        found = [it for it in state["passages"] if says_yes(GRADE, passage=it, question=question)]
        return {"passages": found}

    def generate(state: State) -> State:
        context = "\n\n".join(state["passages"])
        return {"answer": writer.invoke({"context": context, "question": state["question"]})}

    def transform(state: State) -> State:
        return {"question": rewriter.invoke({"question": state["question"]})}

    def judged(state: State) -> Literal["generate", "transform", "useful"]:
        context, answer = "\n\n".join(state["passages"]), state["answer"]
        if not says_yes(GROUNDED, context=context, answer=answer):
            return "generate"
        is_useful = says_yes(ANSWERS, question=state["question"], answer=answer)
        return "useful" if is_useful else "transform"

    graph = StateGraph(State)
    for node in (retrieve, grade, generate, transform):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "retrieve")
    graph.add_edge("retrieve", "grade")
    graph.add_conditional_edges("grade", lambda it: "generate" if it["passages"] else "transform")
    graph.add_edge("transform", "retrieve")
    ways = {"generate": "generate", "transform": "transform", "useful": END}
    graph.add_conditional_edges("generate", judged, ways)  # type: ignore[arg-type]
    compiled = graph.compile()
    limit: RunnableConfig = {"recursion_limit": MAX_STEPS}
    return lambda question: str(compiled.invoke({"question": question}, limit)["answer"])


if __name__ == "__main__":
    run(build)
