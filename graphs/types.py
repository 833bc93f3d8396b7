"""Immutable value types that the nodes pass to each other, named as in the papers."""

import math
from dataclasses import astuple, dataclass, field
from operator import add
from typing import Literal

from typing_extensions import TypedDict

from evaluator.schema import PoolWeights as PoolWeights
from evaluator.schema import Task as Task
from evaluator.schema import Thresholds as Thresholds

Action = Literal["correct", "incorrect", "ambiguous"]
Origin = Literal["internal", "web"]
ImageOrigin = Literal["stored", "generated"]
Language = Literal["en", "zh"]
WebUse = Literal["auto", "never", "always"]
RetrievalMode = Literal["adaptive", "always", "never"]
Component = Literal["web_search", "fetch", "evaluator", "generator", "retriever", "critic"]
Verdict = Literal["supported", "partly", "unsupported", "abstained", "not_judged"]
AnswerLinks = Literal["cited", "all"]
SentenceLabel = Literal["supported", "contradicted", "unsupported", "not_checked"]
StoppedBy = Literal[
    "answered",
    "accepted",
    "max_critic",
    "unchanged",
    "no_evidence",
    "budget",
    "deadline",
    "cancelled",
]


class _Value:
    """A value whose tuples, which a checkpoint gives back as lists, are tuples again."""

    __slots__: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if isinstance(items := getattr(self, name), list):
                object.__setattr__(self, name, tuple(items))


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document, as the retriever found it or as the evaluator graded it.

    `retrieval_score` is the retriever's, or the reranker's after it; `relevance` the evaluator's,
    None where nothing graded it; `similarity` its encoder's, where it has one. `page` is the page
    of the document, from 1, where it has pages.
    """

    id: str
    text: str
    title: str
    source: str
    retrieval_score: float = 0.0
    relevance: float | None = None
    origin: Origin = "internal"
    page: int | None = None
    similarity: float | None = None

    @property
    def score(self) -> float:
        """What it is ranked by: its relevance, else its retrieval score."""
        return self.retrieval_score if self.relevance is None else self.relevance


@dataclass(frozen=True, slots=True)
class Image:
    """An image of the knowledge base, or one that a model made.

    `url` is `/images/{id}` of the service, or a data URL of what was made, which has no id and no
    source. `score` is its similarity to what was asked, None where nothing was compared.
    """

    id: str
    url: str
    caption: str
    title: str
    source: str
    origin: ImageOrigin
    width: int
    height: int
    score: float | None = None


@dataclass(frozen=True, slots=True)
class ImageThresholds:
    """From which similarity on a stored image is returned, for a text and for an image."""

    text: float
    image: float


@dataclass(frozen=True, slots=True)
class WebPage(_Value):
    """A search result with its page's paragraphs; its own text where the page was not fetched."""

    url: str
    title: str
    score: float
    paragraphs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Strip(_Value):
    """A knowledge strip (CRAG 4.4): a few sentences of one passage, graded on their own.

    `position` orders strips as they stand in their documents: (document rank, place within it).
    `retrieval_score` is its passage's; `relevance` is None where nothing graded it, `similarity`
    where no encoder did. `whole` is what `text` was before it was compressed, empty where it was
    not. `lead` is what introduces it in its passage, such as a table's head, where that is not part
    of it.
    """

    id: str
    document_id: str
    text: str
    title: str
    source: str
    origin: Origin
    position: tuple[int, int]
    retrieval_score: float = 0.0
    relevance: float | None = None
    kept: bool = False
    whole: str = ""
    lead: str = ""
    similarity: float | None = None

    @property
    def full_text(self) -> str:
        """The text with what introduces it."""
        return f"{self.lead}\n{self.text}" if self.lead else self.text

    @property
    def score(self) -> float:
        """What it is ranked by: its relevance, else its passage's retrieval score."""
        return self.retrieval_score if self.relevance is None else self.relevance


@dataclass(frozen=True, slots=True)
class Compression:
    """Tokens of the knowledge before and after it was compressed, all candidates together."""

    before_tokens: int
    after_tokens: int


@dataclass(frozen=True, slots=True)
class Scores:
    """One judgement a pair, in the order asked; None where a pair could not be judged.

    `usage` is what a language model that grades has cost beyond the pairs. `similarities` are the
    centred cosines of the pairs' texts, for relevance by an evaluator that has an encoder; else
    None or empty. `pool` grades a question's passages among each other by both.
    """

    values: tuple[float | None, ...]
    usage: "Usage" = field(default_factory=lambda: Usage())
    similarities: tuple[float | None, ...] = ()
    pool: PoolWeights | None = None


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Whether the question was found to need retrieval; `probability` is p(Retrieval) normalised.

    1 or 0 where the run's mode decided.
    """

    decision: bool
    probability: float


@dataclass(frozen=True, slots=True)
class Judgement(_Value):
    """What a critic says of one draft (Self-RAG 3.3); None where it was not judged.

    `relevance` and `support` lie in 0…1, `utility` in -1…1; `likelihood` is the exponential of the
    mean log-probability of the draft's tokens. `supports` are its sentences with the support of
    each, where they were judged one by one; `weak` are those without support, `sources` those that
    cite no strip which supports them, with the number of the one that does best; `uncovered` the
    parts of the question it leaves open, `criticism` what the critic said of it at once, if
    anything.
    """

    relevance: float | None = None
    support: float | None = None
    utility: float | None = None
    likelihood: float | None = None
    supports: tuple[tuple[str, float], ...] = ()
    weak: tuple[str, ...] = ()
    sources: tuple[tuple[str, int], ...] = ()
    uncovered: tuple[str, ...] = ()
    criticism: str = ""


@dataclass(frozen=True, slots=True)
class Bars:
    """What a critic's judgements are held against; they belong to one critic.

    A draft is accepted from `support`, 0…1, and `utility`, an expected grade of 1…5, on. A question
    is looked up above `retrieval`, the share of p(Retrieval) (Self-RAG 3.3).
    """

    support: float = 0.7
    utility: float = 4.0
    retrieval: float = 0.2


@dataclass(frozen=True, slots=True)
class Draft(_Value):
    """An answer that nobody has accepted yet, and the knowledge it was written from.

    `[n]` in `answer` is the n-th strip of `knowledge`. `n` numbers the candidates of a run from 1.
    `budget_exhausted`: its sentences were quoted because no model might be asked any more. `cites`
    are the strips behind an answer of a closed set, which holds no markers. `missing` are parts of
    the question that nothing was found for; the last paragraph of `answer` names them.
    """

    answer: str
    knowledge: tuple[Strip, ...] = ()
    n: int = 1
    generator: str = ""
    judgement: Judgement | None = None
    critique_score: float = 0.0
    chosen: bool = False
    budget_exhausted: bool = False
    cites: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def answer_body(self) -> str:
        """The answer without its last paragraph, which names the missing parts."""
        return self.answer.rpartition("\n\n")[0] if self.missing else self.answer

    @property
    def stopped_by(self) -> StoppedBy:
        """Why a run ends with it where nobody judges it."""
        return "budget" if self.budget_exhausted else "answered"

    @property
    def origin(self) -> Origin:
        """The web's only where nothing else is in it."""
        return (
            "web"
            if self.knowledge and all(s.origin == "web" for s in self.knowledge)
            else "internal"
        )

    @property
    def document_ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(strip.document_id for strip in self.knowledge))


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a long answer, a sentence or a few, drafted from one passage.

    `retrieval` is p(Retrieval) after it, where its model tells that; `continues`: its model would
    rather go on with the passage at hand.
    """

    text: str
    strip: Strip
    judgement: Judgement | None = None
    retrieval: float | None = None
    continues: bool = False
    critique_score: float = 0.0
    generator: str = ""
    budget_exhausted: bool = False


@dataclass(frozen=True, slots=True)
class Path(_Value):
    """A long answer of the beam so far, and the passages that its next segment may come from."""

    passages: tuple[Strip, ...]
    segments: tuple[Segment, ...] = ()
    is_finished: bool = False

    @property
    def text(self) -> str:
        """The path's text, without markers."""
        return " ".join(segment.text for segment in self.segments)

    @property
    def score(self) -> float:
        """Geometric mean of the segments' scores, 0 where one of them scores nothing."""
        scores = (max(segment.critique_score, 0.0) for segment in self.segments)
        return math.prod(scores) ** (1 / max(1, len(self.segments)))

    def wants_retrieval(self, threshold: float) -> bool:
        """Whether its last segment asks for another retrieval."""
        last = self.segments[-1] if self.segments else None
        wants = last is not None and not last.continues and (last.retrieval or 0.0) > threshold
        return wants and not self.is_finished


@dataclass(frozen=True, slots=True)
class Extension:
    """A segment that the `n`-th path of the beam may go on with."""

    n: int
    segment: Segment


@dataclass(frozen=True, slots=True)
class Critique:
    """One round of reflection: how the draft was judged, and what was held against it."""

    round: int
    relevance: float | None
    support: float | None
    utility: float | None
    score: float
    criticism: str
    accepted: bool


@dataclass(frozen=True, slots=True)
class Citation(_Value):
    """Sentence `[n]` of the answer rests on this strip; `spans` are [start, end) in the answer."""

    n: int
    strip_id: str
    origin: Origin
    title: str
    source: str
    text: str
    score: float
    spans: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerSentence:
    """A sentence of the answer at [start, end) of it, and whether what it cites supports it.

    `support` is 0…1, None where nobody checked it.
    """

    start: int
    end: int
    support: float | None = None
    label: SentenceLabel = "not_checked"
    citations: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerVerdict:
    """Whether the answer rests on its sources; `missing` are parts of the question not found.

    `confidence` is the calibrated probability that it is right, None where nothing judged it.
    """

    verdict: Verdict
    confidence: float | None = None
    sentences: tuple[AnswerSentence, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Degraded:
    """A component that failed while the run went on without it; `reason` is told to the user."""

    component: Component
    reason: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run has spent so far; usages of parallel branches add up.

    `discarded_searches` are those of `web_searches` that began before the action was known and
    then were not needed. `grading_calls` and `grading_tokens` are those of a language model as
    grader, among the others: what there is to grade bounds them, not the run's budget.
    """

    llm_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    scored_pairs: int = 0
    web_searches: int = 0
    discarded_searches: int = 0
    grading_calls: int = 0
    grading_tokens: int = 0

    @property
    def budgeted_calls(self) -> int:
        """Calls that count against the run's budget."""
        return self.llm_calls - self.grading_calls

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def budgeted_tokens(self) -> int:
        """Tokens that count against the run's budget."""
        return self.tokens - self.grading_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*map(add, astuple(self), astuple(other)))


@dataclass(frozen=True, slots=True)
class Plan(_Value):
    """What is settled when a run starts: its nodes use it, its routers read it.

    `web` is "never" where there is no search engine; `subquestions` are empty where the question
    has no parts. Each flag says whether the run goes through an optional step. `image_threshold` is
    the similarity from which `illustrate` returns what is stored; with `generates_image` a model is
    asked below it. `grader_failed` and `critic_failed`: the evaluator judges the rest of the run in
    place of a language model, by thresholds and bars of its own.
    """

    thresholds: Thresholds
    bars: Bars
    language: Language
    subquestions: tuple[str, ...] = ()
    web: WebUse = "never"
    contextualises: bool = False
    expands: bool = False
    reranks: bool = False
    drafts_segments: bool = False
    reflects: bool = False
    image_threshold: float = 1.0
    generates_image: bool = False
    grader_failed: bool = False
    critic_failed: bool = False


class Message(TypedDict):
    """One turn of the dialogue before the question."""

    role: Literal["user", "assistant"]
    content: str
