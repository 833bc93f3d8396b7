"""What flows through a graph (State), what goes in (Question) and out (Answer)."""

import operator
from collections.abc import Sequence
from typing import Annotated, cast

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from typing_extensions import TypedDict

from graphs.options import Context as Context
from graphs.reflection.beam import Extension, Path
from graphs.types import (
    Action,
    Citation,
    Compression,
    Critique,
    Degraded,
    Draft,
    Message,
    Passage,
    Retrieval,
    StoppedBy,
    Strip,
    Usage,
    WebPage,
)


class Question(TypedDict, total=False):
    """The input of every workflow; `history` is the dialogue before the question, oldest first."""

    question: str
    history: list[Message]


class Answer(TypedDict, total=False):
    """The output of every workflow.

    `standalone_question` is a follow-up made to stand alone; `queries` are what the knowledge base
    was asked where that was not the question itself.
    """

    answer: str
    citations: Sequence[Citation]
    standalone_question: str | None
    queries: Sequence[str]
    retrieval: Retrieval | None
    action: Action | None
    documents: Sequence[Passage]
    rewritten_query: str | None
    web_pages: Sequence[WebPage]
    internal_strips: Sequence[Strip]
    kept_below_floor: bool
    web_strips: Sequence[Strip]
    candidates: Sequence[Draft]
    critique: Sequence[Critique]
    generator: str
    stopped_by: StoppedBy
    degraded: Annotated[list[Degraded], operator.add]
    usage: Annotated[Usage, operator.add]


class Graded(Answer, total=False):
    """What grading says: `is_graded` where the documents' scores are the evaluator's.

    `search_ahead` is the ticket of the web search that began beside it and was kept. `knowledge`
    is what `compress` made of the knowledge, None where the run does not compress.
    """

    is_graded: bool
    knowledge: Sequence[Strip] | None
    compression: Compression | None
    search_ahead: str | None


class Reflecting(Graded, total=False):
    """What reflection works on.

    `drafts` come from parallel branches, in any order; `paths` are the long answers of the beam and
    `extensions` their possible next segments; `draft` is the one at hand, `best` the one
    that would be the answer now. `looks` counts searches of the index, `spent` is what the run had
    used before it reflected, `seen` holds the plain text of every draft judged, and `has_ended`
    says that no round follows.
    """

    looks: int
    drafts: Annotated[list[Draft], operator.add]
    paths: list[Path]
    extensions: list[Extension]
    draft: Draft
    best: Draft
    spent: Usage
    seen: list[str]
    has_ended: bool


class Reflected(TypedDict, total=False):
    """What `reflect` is given: a draft to judge, and the strips that a revision may add."""

    question: str
    history: list[Message]
    standalone_question: str | None
    action: Action | None
    documents: Sequence[Passage]
    is_graded: bool
    internal_strips: Sequence[Strip]
    web_strips: Sequence[Strip]
    draft: Draft
    spent: Usage


class Reflection(TypedDict, total=False):
    """What `reflect` tells: the best draft as the answer, how it was judged, why it ended.

    `degraded` and `usage` are its own alone: not being among its input, they start empty.
    """

    answer: str
    citations: Sequence[Citation]
    documents: Sequence[Passage]
    internal_strips: Sequence[Strip]
    web_strips: Sequence[Strip]
    critique: Sequence[Critique]
    generator: str
    stopped_by: StoppedBy
    degraded: Annotated[list[Degraded], operator.add]
    usage: Annotated[Usage, operator.add]


class State(Question, Reflecting, total=False):
    """Everything a node may read. `question` is never overwritten by a rewritten one."""


def opening(state: State) -> State:
    """What the first node of a run may read: what an earlier run left on the same thread is not."""
    return {"question": state["question"], "history": state.get("history", [])}


def begun(state: State, changed: Reflecting) -> Reflecting:
    """What the first node says; what an earlier run left on the same thread is void."""
    if not {"documents", "retrieval", "answer", "standalone_question", "queries"} & state.keys():
        return changed
    return {
        "standalone_question": None,
        "queries": [],
        "retrieval": None,
        "action": None,
        "documents": [],
        "rewritten_query": None,
        "web_pages": [],
        "internal_strips": [],
        "kept_below_floor": False,
        "web_strips": [],
        "candidates": [],
        "critique": [],
        "paths": [],
        "looks": 0,
        "is_graded": False,
        "knowledge": None,
        "compression": None,
        **changed,
        # Past their reducers, which would add this run to the earlier one.
        "degraded": cast("list[Degraded]", Overwrite(changed.get("degraded", []))),
        "usage": cast("Usage", Overwrite(changed.get("usage", Usage()))),
        "drafts": cast("list[Draft]", Overwrite([])),
    }


def asked(state: State) -> str:
    """What is to be answered: the question, or the follow-up made to stand alone."""
    return state.get("standalone_question") or state["question"]


def tunables(runtime: Runtime[Context]) -> Context:
    """The run's context; langgraph leaves it None where the caller gave none."""
    return runtime.context or Context()
