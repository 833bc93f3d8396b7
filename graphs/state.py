"""What flows through a graph (State), what goes in (Question) and what comes out (Answer).

Lists and values of ours are channels that take JSON as well (`typed`): a state edited in Studio
comes as such. Annotations name concrete types, from which LangGraph tells its checkpoint
serializer which classes may be loaded.
"""

from collections.abc import Callable
from typing import Annotated, Any, cast

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from graphs import types
from graphs.options import Context as Context


def typed(kind: Any) -> Callable[[object, object], object]:
    """A reducer that keeps the latest value, as `kind`; raises ValueError where it is none."""
    adapter = TypeAdapter[object](kind)

    def latest(_: object, value: object) -> object:
        return adapter.validate_python(value)

    return latest


def summed(kind: Any) -> Callable[[Any, Any], Any]:
    """A reducer that adds up values of `kind`; raises ValueError where one is none."""
    adapter = TypeAdapter[Any](kind)

    def total(before: Any, value: Any) -> Any:
        return before + adapter.validate_python(value)

    return total


# Once for all schemas: channels of one name must have one reducer.
Citations = Annotated[list[types.Citation], typed(list[types.Citation])]
Passages = Annotated[list[types.Passage], typed(list[types.Passage])]
WebPages = Annotated[list[types.WebPage], typed(list[types.WebPage])]
Strips = Annotated[list[types.Strip], typed(list[types.Strip])]
Drafts = Annotated[list[types.Draft], typed(list[types.Draft])]
Images = Annotated[list[types.Image], typed(list[types.Image])]
Critiques = Annotated[list[types.Critique], typed(list[types.Critique])]
Paths = Annotated[list[types.Path], typed(list[types.Path])]
Extensions = Annotated[list[types.Extension], typed(list[types.Extension])]
MaybePlan = Annotated[types.Plan | None, typed(types.Plan | None)]
MaybeRetrieval = Annotated[types.Retrieval | None, typed(types.Retrieval | None)]
MaybeJudgement = Annotated[types.Judgement | None, typed(types.Judgement | None)]
MaybeCompression = Annotated[types.Compression | None, typed(types.Compression | None)]
LatestDraft = Annotated[types.Draft, typed(types.Draft)]
LatestUsage = Annotated[types.Usage, typed(types.Usage)]
DegradedSum = Annotated[list[types.Degraded], summed(list[types.Degraded])]
DraftSum = Annotated[list[types.Draft], summed(list[types.Draft])]
UsageSum = Annotated[types.Usage, summed(types.Usage)]


class Question(TypedDict, total=False):
    """The input of every workflow; `history` is the dialogue before the question, oldest first.

    `passages` are knowledge of the caller's own, best first, in place of the knowledge base.
    `image` is a data URL, for `illustrate`.
    """

    question: str
    image: str
    history: list[types.Message]
    passages: Passages


class Answer(TypedDict, total=False):
    """The output of every workflow; `judgement` is the answer's, where a critic judged it.

    `standalone_question` is a follow-up made to stand alone; `queries` are what the knowledge base
    was asked where that was not the question itself. `grades` are rows of the documents' scores: by
    the question, then by each of its parts. `images` are those that were asked for;
    `image_threshold` is what their similarity was held against.
    """

    answer: str
    citations: Citations
    standalone_question: str | None
    queries: list[str]
    plan: MaybePlan
    retrieval: MaybeRetrieval
    action: types.Action | None
    documents: Passages
    grades: list[list[float | None]]
    rewritten_query: str | None
    web_pages: WebPages
    internal_strips: Strips
    kept_below_floor: bool
    web_strips: Strips
    candidates: Drafts
    critique: Critiques
    judgement: MaybeJudgement
    missing: list[str]
    compression: MaybeCompression
    images: Images
    image_threshold: float | None
    generator: str
    stopped_by: types.StoppedBy
    degraded: DegradedSum
    usage: UsageSum


class State(Question, Answer, total=False):
    """Everything a node may read. `question` is never overwritten by a rewritten one.

    `retrievals` counts searches of the index, and `index_exhausted` says that a further one is
    pointless. `speculative_search` is the ticket of the web search that began beside grading.
    `drafts` come from parallel branches, in any order; `paths` are the long answers of the beam,
    `extensions` their possible next segments. `draft` is the one at hand, `best` the one that would
    be the answer now; `spent` is what the run had used before the subgraph at hand, `seen` the
    plain text of every draft judged, and `has_ended` says that no round follows. `last_question`
    and `last_history` are those of the run at hand, for the next one on its thread.
    """

    last_question: str
    last_history: list[types.Message]
    retrievals: int
    index_exhausted: bool
    speculative_search: str | None
    drafts: DraftSum
    paths: Paths
    extensions: Extensions
    draft: LatestDraft
    best: LatestDraft
    spent: LatestUsage
    seen: list[str]
    has_ended: bool


class SubgraphInput(Question, total=False):
    """What the subgraphs are given: all they read but sums, so that what they tell is their own."""

    plan: MaybePlan
    standalone_question: str | None
    queries: list[str]
    retrievals: int
    action: types.Action | None
    documents: Passages
    internal_strips: Strips
    web_strips: Strips
    candidates: Drafts
    citations: Citations
    draft: LatestDraft
    spent: LatestUsage


class RetrieveOutput(TypedDict, total=False):
    """What `retrieve` tells."""

    plan: MaybePlan
    standalone_question: str | None
    queries: list[str]
    documents: Passages
    retrievals: int
    index_exhausted: bool
    degraded: DegradedSum
    usage: UsageSum


class LongAnswerOutput(TypedDict, total=False):
    """What `draft_segments` tells: the long answers as judged candidates."""

    plan: MaybePlan
    documents: Passages
    internal_strips: Strips
    candidates: Drafts
    degraded: DegradedSum
    usage: UsageSum


class ReflectOutput(TypedDict, total=False):
    """What `reflect` tells: the best draft as the answer, how it was judged, why it ended."""

    plan: MaybePlan
    answer: str
    citations: Citations
    documents: Passages
    internal_strips: Strips
    web_strips: Strips
    critique: Critiques
    judgement: MaybeJudgement
    missing: list[str]
    generator: str
    stopped_by: types.StoppedBy
    degraded: DegradedSum
    usage: UsageSum


def effective_question(state: State) -> str:
    """What is to be answered: the question, or the follow-up made to stand alone."""
    return state.get("standalone_question") or state["question"]


def options_of(runtime: Runtime[Context]) -> Context:
    """The run's options; langgraph leaves the context None where the caller gave none."""
    return runtime.context or Context()


def total_usage(state: State) -> types.Usage:
    """Within a subgraph: what the run has used in all, before it and in it."""
    return state.get("spent", types.Usage()) + state.get("usage", types.Usage())


def reset_run_state(state: State) -> State:
    """What an earlier run left on the thread, made void; nothing on a fresh thread."""
    if "last_question" not in state:
        return {}
    return {
        "standalone_question": None,
        "queries": [],
        "retrieval": None,
        "action": None,
        "documents": [],
        "grades": [],
        "rewritten_query": None,
        "web_pages": [],
        "internal_strips": [],
        "kept_below_floor": False,
        "web_strips": [],
        "candidates": [],
        "critique": [],
        "judgement": None,
        "missing": [],
        "compression": None,
        "images": [],
        "image_threshold": None,
        "retrievals": 0,
        "index_exhausted": False,
        "speculative_search": None,
        "answer": "",
        "spent": types.Usage(),
        # Past their reducers, which would add this run to the earlier one.
        "degraded": cast("list[types.Degraded]", Overwrite([])),
        "usage": cast("types.Usage", Overwrite(types.Usage())),
        "drafts": cast("list[types.Draft]", Overwrite([])),
    }
