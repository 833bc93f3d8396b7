"""What flows through a graph (State), what may be tuned per run (Context), what goes in and out."""

import operator
from collections.abc import Sequence
from typing import Annotated, Literal, cast

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from graphs.beam import Extension, Path
from graphs.text import StripMode
from graphs.types import (
    Action,
    Bars,
    Citation,
    Critique,
    Degraded,
    Draft,
    Message,
    Passage,
    Retrieval,
    StoppedBy,
    Strip,
    Thresholds,
    Usage,
    WebPage,
)

WebUse = Literal["auto", "never", "always"]


class Context(BaseModel):
    """Tunables of one run; Studio shows them as a form, `POST /ask` takes them as `options`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    retrieve_k: int = Field(10, ge=1, le=100, description="Passages to retrieve and grade.")
    upper: float | None = Field(
        None,
        ge=-20,
        le=20,
        description="A passage scored at or above this makes the action Correct; "
        "left out: the evaluator's own threshold.",
    )
    lower: float | None = Field(
        None,
        ge=-20,
        le=20,
        description="All passages scored below this make the action Incorrect; "
        "left out: the evaluator's own threshold.",
    )
    strip_floor: float | None = Field(
        None,
        ge=-20,
        le=20,
        description="Strips scored below this are dropped; left out: the evaluator's own floor.",
    )
    top_strips: int = Field(5, ge=1, le=50, description="Most strips kept, of each origin.")
    strip_mode: StripMode = Field(
        "sentences",
        description="How passages are cut into strips: a few sentences by length, groups of three "
        "sentences, fixed windows of 50 words, or the whole passage.",
    )
    evidence_tokens: int = Field(
        2000, ge=50, le=100_000, description="Most tokens of knowledge given to the generator."
    )
    web: WebUse = Field(
        "auto",
        description="auto searches the web when the action is Incorrect or Ambiguous; "
        "always searches whatever the action.",
    )
    max_web_searches: int = Field(1, ge=0, le=10, description="Most web searches of one run.")
    speculative_search: bool = Field(
        False,
        description="Search the web with the question itself while passages are graded; under "
        "Correct the search is stopped and thrown away.",
    )
    web_pages: int = Field(5, ge=1, le=20, description="Most result pages read per search.")
    max_critic: int = Field(
        3, ge=0, le=10, description="Most revisions by the critic; 0 judges once and never revises."
    )
    min_support: float | None = Field(
        None,
        ge=0,
        le=1,
        description="A draft is accepted from this support on; left out: the critic's own bar.",
    )
    min_utility: float | None = Field(
        None,
        ge=1,
        le=5,
        description="A draft is accepted from this expected utility grade on; left out: the "
        "critic's own bar.",
    )
    reflect: bool = Field(
        False, description="crag: judge the answer and revise it, as the self_ workflows do."
    )
    retrieval: Literal["adaptive", "always", "never"] = Field(
        "adaptive", description="Whether to retrieve: as the critic finds, always, or never."
    )
    retrieval_threshold: float = Field(
        0.2, ge=0, le=1, description="adaptive retrieves above this share of p(Retrieval)."
    )
    max_retrievals: int = Field(
        2, ge=1, le=10, description="self_rag: most looks at the index while nothing is relevant."
    )
    max_drafts: int = Field(
        5, ge=1, le=20, description="self_rag: most passages drafted from, one draft each."
    )
    beam_depth: int = Field(
        0,
        ge=0,
        le=20,
        description="self_rag: most segments of a long answer, each from a passage of its own; 0 "
        "drafts whole answers.",
    )
    beam_width: int = Field(
        2, ge=1, le=5, description="self_rag: unfinished long answers kept after each segment."
    )
    ambiguous_candidates: Literal["joined", "all"] = Field(
        "joined",
        description="self_crag under Ambiguous: draft from the joined knowledge alone, or from "
        "internal and external knowledge apart as well.",
    )
    choices: list[Annotated[str, Field(min_length=1, max_length=500)]] = Field(
        [],
        max_length=20,
        description="A closed set of answers: one is chosen, by summed votes of all drafts.",
    )
    relevance_weight: float = Field(1.0, ge=0, le=10, description="w_rel of a draft's score.")
    support_weight: float = Field(1.0, ge=0, le=10, description="w_sup of a draft's score.")
    utility_weight: float = Field(0.5, ge=0, le=10, description="w_use of a draft's score.")
    sequence_score: bool = Field(
        False, description="Add a draft's mean token probability, where its model tells it."
    )
    max_llm_calls: int = Field(
        40, ge=1, le=1000, description="No draft is revised beyond this many calls of a model."
    )
    max_tokens: int = Field(
        200_000, ge=1, le=10_000_000, description="No draft is revised beyond this many tokens."
    )
    deadline_ms: int = Field(
        60_000, ge=100, le=600_000, description="The run ends by then with what it has, in ms."
    )
    grade_titles: bool = Field(
        True, description="Grade `title // text`; switched off, the text alone, as on PopQA."
    )
    refinement: bool = Field(
        True, description="Cut passages into strips and drop the irrelevant ones (table 3)."
    )
    rewriting: bool = Field(
        True, description="Search the web with keywords instead of the question (table 3)."
    )
    selection: bool = Field(
        True, description="Grade web paragraphs and keep the relevant ones only (table 3)."
    )
    without_action: Literal["none", "correct", "incorrect", "ambiguous"] = Field(
        "none",
        description="Leave one action out: Correct and Incorrect merge into Ambiguous; without "
        "Ambiguous the upper threshold alone decides (table 2).",
    )
    only_action: Literal["any", "correct", "incorrect", "ambiguous"] = Field(
        "any", description="Take this action whatever the grades (table 11)."
    )

    def thresholds(self, calibrated: Thresholds) -> Thresholds:
        """The run's thresholds: the evaluator's own where this run sets none."""
        return Thresholds(
            upper=calibrated.upper if self.upper is None else self.upper,
            lower=calibrated.lower if self.lower is None else self.lower,
            strip_floor=calibrated.strip_floor if self.strip_floor is None else self.strip_floor,
        )

    def bars(self, own: Bars) -> Bars:
        """What a draft must reach: the critic's own bars where this run sets none."""
        return Bars(
            support=own.support if self.min_support is None else self.min_support,
            utility=own.utility if self.min_utility is None else self.min_utility,
        )


class Question(TypedDict, total=False):
    """The input of every workflow; `history` is the dialogue before the question, oldest first."""

    question: str
    history: list[Message]


class Answer(TypedDict, total=False):
    """The output of every workflow."""

    answer: str
    citations: Sequence[Citation]
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

    `search_ahead` is the ticket of the web search that began beside it and was kept.
    """

    is_graded: bool
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


def begun(state: State, degraded: list[Degraded], usage: Usage | None = None) -> Reflecting:
    """What the first node of a run says: what an earlier run left on the same thread is void."""
    usage = usage or Usage()
    if not {"documents", "retrieval", "answer"} & state.keys():
        return {"degraded": degraded, "usage": usage}
    return {
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
        # Past their reducers, which would add this run to the earlier one.
        "degraded": cast("list[Degraded]", Overwrite(degraded)),
        "usage": cast("Usage", Overwrite(usage)),
        "drafts": cast("list[Draft]", Overwrite([])),
    }


def tunables(runtime: Runtime[Context]) -> Context:
    """The run's context; langgraph leaves it None where the caller gave none."""
    return runtime.context or Context()
