"""Options of a run: Studio shows them as a form, `POST /ask` takes them as `options`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator
from pydantic.config import JsonDict

from graphs.types import Bars, Language, RetrievalMode, Thresholds, Usage, WebUse

SearchMode = Literal["hybrid", "bm25", "dense"]
Fusion = Literal["weighted", "rrf"]
Expansion = Literal["rewrite", "decompose", "hyde"]
RerankBy = Literal["none", "lexical", "evaluator", "model"]
StripMode = Literal["sentences", "groups", "words", "passage"]
Repack = Literal["document", "forward", "reverse", "sides"]
CompressBy = Literal["none", "extractive", "abstractive", "longllmlingua", "selective_context"]
Preset = Literal["none", "best", "balanced", "fast"]

RERANK_CANDIDATES = 50
"""Passages retrieved for reranking (arXiv 2407.01219 reranks about as many)."""
MAX_RETRIEVALS = 2
"""Most looks at the index while no passage is relevant (self_rag)."""

SHARED = ""
"""The owner of documents that everyone sees."""
DEFAULT_COLLECTION = "default"

Text = Annotated[str, Field(min_length=1, max_length=500)]


class Filters(BaseModel):
    """Which chunks may be found; what is left empty restricts nothing, all that is given holds."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    language: Language | None = Field(None, description="Chunks in this language only.")
    sources: list[Text] = Field(
        [], max_length=50, description="Sources that start with, or match as a glob, one of these."
    )
    document_ids: list[Text] = Field([], max_length=200, description="These documents only.")
    keywords: list[Text] = Field(
        [], max_length=20, description="Chunks with at least one of these among their keywords."
    )


class CritiqueWeights(BaseModel):
    """Weights of a draft's critique score (Self-RAG 3.3)."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    relevance: float = Field(1.0, ge=0, le=10, description="w_rel.")
    support: float = Field(1.0, ge=0, le=10, description="w_sup.")
    utility: float = Field(0.5, ge=0, le=10, description="w_use.")


class Ablation(BaseModel):
    """Switches of the papers' ablations: what a workflow is worth without one of its parts."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    refinement: bool = Field(
        True, description="Cut passages into strips and drop the irrelevant ones (CRAG, table 3)."
    )
    rewriting: bool = Field(
        True, description="Search the web with keywords, not with the question (CRAG, table 3)."
    )
    selection: bool = Field(
        True, description="Grade web paragraphs and keep the relevant ones only (CRAG, table 3)."
    )
    without_action: Literal["none", "correct", "incorrect", "ambiguous"] = Field(
        "none",
        description="Leave one action out: Correct and Incorrect become Ambiguous; without "
        "Ambiguous the upper threshold alone decides (CRAG, table 2).",
    )
    only_action: Literal["any", "correct", "incorrect", "ambiguous"] = Field(
        "any", description="Take this action whatever the grades (CRAG, table 11)."
    )
    grade_titles: bool = Field(
        True,
        description="Grade the title together with the text; false: the text alone, as on PopQA.",
    )
    grade_parts: bool = Field(
        True,
        description="Grade also by each part of a question that asks for several things, up to "
        "six.",
    )
    fusion: Fusion = Field(
        "weighted",
        description="How hybrid search joins its two searches: by weighted scores or by reciprocal "
        "ranks (rrf).",
    )
    ambiguous_candidates: Literal["joined", "all"] = Field(
        "joined",
        description="self_crag under Ambiguous: draft from the joined knowledge, or also from "
        "documents and web apart (all).",
    )
    beam_width: int = Field(
        2, ge=1, le=5, description="self_rag: unfinished long answers kept after each segment."
    )
    sequence_score: bool = Field(
        False,
        description="Add a draft's mean token probability to its score, where the model reports "
        "it.",
    )


@dataclass(frozen=True, slots=True)
class Scope:
    """Tenancy: documents of `owner` and shared ones, in these collections or, if none, in all."""

    owner: str = SHARED
    collections: tuple[str, ...] = (DEFAULT_COLLECTION,)

    @property
    def owners(self) -> list[str]:
        return list(dict.fromkeys((SHARED, self.owner)))

    @property
    def collection(self) -> str:
        """The one that is written to, and that a question is asked of."""
        return (*self.collections, DEFAULT_COLLECTION)[0]


@dataclass(frozen=True, slots=True)
class Search:
    """One search: `alpha` weighs BM25 against a dense weight of 1, None is the embedder's own.

    `depth` is how many candidates each of the two searches brings at least.
    """

    mode: SearchMode = "hybrid"
    alpha: float | None = None
    fusion: Fusion = "weighted"
    filters: Filters = field(default_factory=Filters)
    scope: Scope = Scope()
    depth: int = 50


class RetrievalOptions(BaseModel):
    """Whether and how passages are retrieved."""

    retrieve_k: int = Field(10, ge=1, le=100, description="Passages to retrieve and grade.")
    search: SearchMode = Field(
        "hybrid",
        description="By words and meaning joined (hybrid), by words (bm25), or by meaning (dense).",
    )
    alpha: float | None = Field(
        None,
        ge=0,
        le=100,
        description="Weight of BM25 beside a weight of 1 of the dense score, both brought to "
        "0...1; left out: as measured for the embedder and the question's language.",
    )
    filters: Filters = Field(
        Filters(),
        description="Which chunks may be found, by their metadata; all that is given must hold.",
    )
    follow_ups: bool = Field(
        True, description="Make a follow-up question stand alone, from the dialogue before it."
    )
    expand: list[Expansion] = Field(
        [],
        max_length=3,
        description="Further queries: a clearer wording (rewrite; language model), the "
        "sub-questions (decompose), the question joined with an invented answer (hyde; language "
        "model).",
    )
    rerank: RerankBy = Field(
        "none",
        description="Reorder about 50 passages before grading: by term weights kept since ingest "
        "(lexical), by the evaluator, or by the worker's reranking model.",
    )
    retrieval: RetrievalMode | None = Field(
        None,
        description="Whether to retrieve: as the critic decides (adaptive), always, or never; left "
        "out: adaptive in self_rag and self_crag, always in crag.",
    )
    retrieval_threshold: float | None = Field(
        None,
        ge=0,
        le=1,
        description="adaptive retrieves above this probability of [Retrieval]; left out: the "
        "critic's own threshold.",
    )


class GradingOptions(BaseModel):
    """Thresholds on the evaluator's relevance score (CRAG 4.3)."""

    upper: float | None = Field(
        None,
        ge=-20,
        le=20,
        description="A passage scored at or above this makes the action Correct; left out: the "
        "evaluator's own upper threshold.",
    )
    lower: float | None = Field(
        None,
        ge=-20,
        le=20,
        description="All passages scored below this make the action Incorrect; left out: the "
        "evaluator's own lower threshold.",
    )
    strip_floor: float | None = Field(
        None,
        ge=-20,
        le=20,
        description="Strips scored below this are dropped; left out: the evaluator's own floor.",
    )


class KnowledgeOptions(BaseModel):
    """What of the knowledge the generator is given (CRAG 4.4)."""

    top_strips: int = Field(
        5, ge=1, le=50, description="Most strips kept, of documents and web each."
    )
    strip_mode: StripMode = Field(
        "sentences",
        description="How passages are cut into strips: a few sentences by length, groups of three "
        "sentences, windows of 50 words, or the whole passage.",
    )
    evidence_tokens: int = Field(
        2000, ge=50, le=100_000, description="Most tokens of knowledge given to the generator."
    )
    repack: Repack = Field(
        "document",
        description="Order of the knowledge for the generator: as in the documents, best first "
        "(forward), best last (reverse), or best at both ends (sides).",
    )
    compress: CompressBy = Field(
        "none",
        description="Shorten the knowledge for the generator: its best sentences, summaries by the "
        "language model, or the tokens that a local model finds informative.",
    )
    compress_ratio: float = Field(
        0.4, ge=0.01, le=1, description="Share of the knowledge that compression keeps."
    )


class WebOptions(BaseModel):
    """When and how much of the web is searched (CRAG 4.5)."""

    web: WebUse = Field(
        "auto",
        description="auto: search when the action is Incorrect or Ambiguous; always: search in "
        "every workflow and join the results.",
    )
    max_web_searches: int = Field(
        1,
        ge=0,
        le=10,
        description="Most web searches of a run; crag needs one, or two with speculative_search.",
    )
    web_pages: int = Field(5, ge=1, le=20, description="Most result pages read per search.")
    speculative_search: bool = Field(
        False,
        description="Search the web with the question itself while passages are graded; under "
        "Correct the search is stopped and discarded.",
    )


class DraftingOptions(BaseModel):
    """How many answers are drafted, and of what form (Self-RAG 3.3)."""

    max_drafts: int = Field(
        5, ge=1, le=20, description="self_rag: most passages drafted from, one draft each."
    )
    beam_depth: int = Field(
        0,
        ge=0,
        le=20,
        description="self_rag: most segments of a long answer, each from a passage of its own; 0: "
        "drafts are whole answers.",
    )
    choices: list[Text] = Field(
        [],
        max_length=20,
        description="Closed set of answers: every draft votes for one with its score, and the "
        "largest sum wins.",
    )


class ReflectionOptions(BaseModel):
    """How drafts are judged and revised."""

    reflect: bool = Field(
        False, description="crag: judge and revise the answer, as self_rag and self_crag always do."
    )
    max_critic: int = Field(
        3, ge=0, le=10, description="Most revisions of the draft; 0: judge once and never revise."
    )
    min_support: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Support from which a draft is accepted; left out: the critic's own.",
    )
    min_utility: float | None = Field(
        None,
        ge=1,
        le=5,
        description="Expected utility grade from which a draft is accepted; left out: the critic's "
        "own.",
    )
    weights: CritiqueWeights = Field(
        CritiqueWeights(),
        description="Weights of relevance, support and utility in a draft's score.",
    )


class ImageOptions(BaseModel):
    """What `illustrate` returns, and when it asks a model (arXiv 2407.01219, section 5.2)."""

    image_threshold: float | None = Field(
        None,
        ge=-1,
        le=1,
        description="illustrate: similarity from which a stored image or its caption is returned; "
        "left out: the image index's own.",
    )
    generate_image: bool = Field(
        True,
        description="illustrate: where no stored image is similar enough, call the model that "
        "makes or describes images.",
    )


class LimitsOptions(BaseModel):
    """What a run may spend."""

    max_llm_calls: int = Field(
        40,
        ge=1,
        le=1000,
        description="Most calls of the language model; then the run ends with the best draft or "
        "quotes sentences, and stopped_by is budget.",
    )
    max_tokens: int = Field(
        200_000,
        ge=1,
        le=10_000_000,
        description="Most tokens of the language model; then the run ends as with max_llm_calls.",
    )
    deadline_ms: int = Field(
        60_000,
        ge=100,
        le=600_000,
        description="Milliseconds after which the run ends with what it has.",
    )


def _grouped(schema: JsonDict) -> None:
    """Tells each option's group, in the title too: Studio's form has no groups of its own."""
    properties = schema["properties"]
    assert isinstance(properties, dict)
    groups = {
        name: kind.__name__.removesuffix("Options").lower()
        for kind in reversed(Context.__bases__)
        if issubclass(kind, BaseModel)
        for name in kind.model_fields
    }
    for name, option in properties.items():
        assert isinstance(option, dict)
        group = groups.get(name, name)
        option.update(group=group, title=name if group == name else f"{group}: {name}")
    schema["properties"] = {"preset": properties.pop("preset"), **properties}


class Context(
    LimitsOptions,
    ImageOptions,
    ReflectionOptions,
    DraftingOptions,
    WebOptions,
    KnowledgeOptions,
    GradingOptions,
    RetrievalOptions,
):
    """Options of one run; their groups are the classes that they are declared in."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, json_schema_extra=_grouped
    )

    preset: Preset = Field(
        "none",
        description="Options that go well together, for what this run leaves unset.",
    )
    ablation: Ablation = Field(
        Ablation(), description="Switches of the papers' ablations, for experiments."
    )

    _scope = PrivateAttr(Scope(collections=()))  # a graph on its own, as in Studio, sees all

    @property
    def scope(self) -> Scope:
        """What the run may see; no field, so that no client sets it."""
        return self._scope

    def within(self, scope: Scope) -> Self:
        """The same options for a run that sees this much."""
        context = self.model_copy()
        context._scope = scope
        return context

    def searching(self) -> Search:
        """How the knowledge base is searched in this run."""
        return Search(self.search, self.alpha, self.ablation.fusion, self.filters, self._scope)

    def is_spent(self, usage: Usage) -> bool:
        """Whether the run's calls or tokens are used up: no model that writes is asked again."""
        return (
            usage.budgeted_calls >= self.max_llm_calls or usage.budgeted_tokens >= self.max_tokens
        )

    def calls_left(self, usage: Usage) -> int:
        """At least 1: an answer must be written."""
        return max(1, self.max_llm_calls - usage.budgeted_calls)

    @model_validator(mode="after")
    def _preset_fills(self) -> Self:
        """`model_fields_set` stays what was given."""
        for name, value in PRESETS[self.preset].items():
            if name not in self.model_fields_set:
                object.__setattr__(self, name, value)  # frozen to others
        return self

    def with_default_preset(self, preset: Preset) -> "Context":
        """The same run with this preset where it names none."""
        if preset == "none" or "preset" in self.model_fields_set:
            return self
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return Context(preset=preset, **given)

    def wants(self, name: str, value: object) -> bool:
        """Whether the run itself, not its preset, gives the option this value."""
        return name in self.model_fields_set and getattr(self, name) == value

    def thresholds(self, calibrated: Thresholds) -> Thresholds:
        """The run's thresholds: the evaluator's own where this run sets none."""
        return Thresholds(
            upper=calibrated.upper if self.upper is None else self.upper,
            lower=calibrated.lower if self.lower is None else self.lower,
            strip_floor=calibrated.strip_floor if self.strip_floor is None else self.strip_floor,
        )

    def bars(self, own: Bars) -> Bars:
        """What judgements are held against: the critic's own bars where this run sets none."""
        retrieval = self.retrieval_threshold
        return Bars(
            support=own.support if self.min_support is None else self.min_support,
            utility=own.utility if self.min_utility is None else self.min_utility,
            retrieval=own.retrieval if retrieval is None else retrieval,
        )


_BALANCED: Mapping[str, Any] = {
    # Deciding whether to look up at all took a third off the time there, and scored better.
    "retrieval": "adaptive",
    "search": "hybrid",
    # Term weights kept since ingest reorder 50 candidates in milliseconds (its TILDEv2).
    "rerank": "lexical",
    # The best knowledge last, next to the question: won over first and over both ends.
    "repack": "reverse",
    # On manuals, leaving sentences out lost facts that the study's questions did not need.
    "compress": "none",
}
PRESETS: Mapping[Preset, Mapping[str, Any]] = MappingProxyType(
    {
        "none": {},
        # An invented answer beside the question found most; a model's reranking ordered best.
        "best": {**_BALANCED, "expand": ["hyde"], "rerank": "model"},
        "balanced": _BALANCED,
        # Neither a call before the search nor one after it.
        "fast": {"retrieval": "always", "search": "hybrid", "rerank": "none", "compress": "none"},
    }
)
"""What a preset sets of the options that a run leaves unset (arXiv 2407.01219)."""
