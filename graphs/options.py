"""What may be tuned per run."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from graphs.generation.repack import Repack
from graphs.presets import OPTIONS, Preset
from graphs.search import Filters, Fusion, Search, SearchMode
from graphs.text.sentences import StripMode
from graphs.types import Bars, Thresholds

WebUse = Literal["auto", "never", "always"]
RerankBy = Literal["none", "lexical", "evaluator", "model"]
CompressBy = Literal["none", "extractive", "abstractive", "longllmlingua", "selective_context"]


class Context(BaseModel):
    """Tunables of one run; Studio shows them as a form, `POST /ask` takes them as `options`."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    preset: Preset = Field(
        "none",
        description="Options that go well together, for what this run leaves unset: best answers, "
        "balanced, or fast.",
    )
    retrieve_k: int = Field(10, ge=1, le=100, description="Passages to retrieve and grade.")
    search: SearchMode = Field(
        "hybrid", description="Search by words and meaning joined, by words, or by meaning."
    )
    alpha: float | None = Field(
        None,
        ge=0,
        le=100,
        description="S = alpha * BM25 + dense, both brought to 0...1; left out: as measured for "
        "the embedder and the question's language.",
    )
    fusion: Fusion = Field(
        "weighted", description="How hybrid joins: by weighted scores, or by reciprocal ranks."
    )
    filters: Filters = Field(Filters(), description="Which chunks may be found, by their metadata.")
    follow_ups: bool = Field(
        True, description="Make a follow-up question stand alone, from the dialogue before it."
    )
    rewrite_question: bool = Field(
        False, description="Retrieve by a clearer wording of the question, too (language model)."
    )
    decompose: bool = Field(
        False, description="Retrieve for each sub-question apart, side by side."
    )
    hyde: bool = Field(
        False,
        description="Retrieve by the question joined with an invented answer to it (HyDE; language "
        "model).",
    )
    rerank: RerankBy = Field(
        "none",
        description="Order what was retrieved anew: by term weights kept since ingest, by the "
        "evaluator, or by the worker's reranking model.",
    )
    rerank_candidates: int = Field(
        50, ge=1, le=200, description="Passages to retrieve for reranking."
    )
    repack: Repack = Field(
        "document",
        description="Order of the knowledge given to the generator: as in the documents, best "
        "first (forward), best last (reverse), or best at both ends (sides).",
    )
    compress: CompressBy = Field(
        "none",
        description="Shorten the knowledge given to the generator: its best sentences, a summary "
        "by the language model, or the tokens a local model finds telling.",
    )
    compress_ratio: float = Field(
        0.4, ge=0.01, le=1, description="Share of the knowledge that compression keeps."
    )
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
    retrieval: Literal["adaptive", "always", "never"] | None = Field(
        None,
        description="Whether to retrieve: as the critic finds, always, or never; left out: "
        "adaptive in self_rag and self_crag, always in crag.",
    )
    retrieval_threshold: float | None = Field(
        None,
        ge=0,
        le=1,
        description="adaptive retrieves above this share of p(Retrieval); left out: the critic's "
        "own threshold.",
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
        40,
        ge=1,
        le=1000,
        description="No model is asked to write beyond this many calls; what is there is used.",
    )
    max_tokens: int = Field(
        200_000,
        ge=1,
        le=10_000_000,
        description="No model is asked to write beyond this many tokens; what is there is used.",
    )
    deadline_ms: int = Field(
        60_000, ge=100, le=600_000, description="The run ends by then with what it has, in ms."
    )
    grade_titles: bool = Field(
        True, description="Grade `title // text`; switched off, the text alone, as on PopQA."
    )
    grade_parts: bool = Field(
        True,
        description="Grade by each part of a question that asks for several things, too.",
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

    def searching(self) -> Search:
        """How the knowledge base is searched in this run."""
        return Search(
            mode=self.search,
            alpha=self.alpha,
            fusion=self.fusion,
            filters=self.filters,
        )

    @model_validator(mode="after")
    def _preset_fills(self) -> Self:
        """`model_fields_set` stays what was given."""
        for name, value in OPTIONS[self.preset].items():
            if name not in self.model_fields_set:
                object.__setattr__(self, name, value)  # frozen to others
        return self

    def with_default_preset(self, preset: Preset) -> "Context":
        """The same run with this preset where it names none."""
        if preset == "none" or "preset" in self.model_fields_set:
            return self
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return Context(preset=preset, **given)

    def wants(self, name: str, value: object = True) -> bool:
        """Whether the run itself, not its preset, gives the option this value."""
        return name in self.model_fields_set and getattr(self, name) == value

    @property
    def expands(self) -> bool:
        """Whether the knowledge base is asked more than the question itself."""
        return self.rewrite_question or self.decompose or self.hyde

    def thresholds(self, calibrated: Thresholds) -> Thresholds:
        """The run's thresholds: the evaluator's own where this run sets none."""
        return Thresholds(
            upper=calibrated.upper if self.upper is None else self.upper,
            lower=calibrated.lower if self.lower is None else self.lower,
            strip_floor=calibrated.strip_floor if self.strip_floor is None else self.strip_floor,
        )

    def bars(self, own: Bars) -> Bars:
        """What judgements are held against: the critic's own bars where this run sets none."""
        wanted = self.retrieval_threshold
        return Bars(
            support=own.support if self.min_support is None else self.min_support,
            utility=own.utility if self.min_utility is None else self.min_utility,
            retrieval=own.retrieval if wanted is None else wanted,
        )
