"""The words of the papers as frozen values: what the nodes pass to each other."""

from dataclasses import dataclass
from typing import Literal

from typing_extensions import TypedDict

Action = Literal["correct", "incorrect", "ambiguous"]
Origin = Literal["internal", "web"]
Language = Literal["en", "zh"]
Task = Literal["relevance", "support", "utility", "retrieval", "rerank"]
Component = Literal["web_search", "fetch", "evaluator", "generator", "retriever", "critic"]
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


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document, as the retriever found it or as the evaluator graded it.

    `score` is the retriever's until `rerank` or `grade` replaces it by theirs. `page` is the page
    of the document, from 1, where it has pages.
    """

    id: str
    text: str
    title: str
    source: str
    score: float = 0.0
    origin: Origin = "internal"
    page: int | None = None


@dataclass(frozen=True, slots=True)
class WebPage:
    """A search result and, where its page could be fetched, the page's paragraphs.

    `fetched_at` is the UTC time in ISO 8601, or None where `paragraphs` is the result's own text.
    """

    url: str
    title: str
    score: float
    paragraphs: tuple[str, ...]
    fetched_at: str | None = None


@dataclass(frozen=True, slots=True)
class Strip:
    """A knowledge strip (CRAG 4.4): a few sentences of one passage, graded on their own.

    `position` orders strips as they stand in their documents: (document rank, place within it).
    `whole` is what `text` was before it was compressed, empty where it was not.
    """

    id: str
    document_id: str
    text: str
    title: str
    source: str
    origin: Origin
    position: tuple[int, int]
    score: float = 0.0
    kept: bool = False
    fetched_at: str | None = None
    whole: str = ""


@dataclass(frozen=True, slots=True)
class Compression:
    """Tokens of the knowledge before and after it was compressed, all candidates together."""

    before_tokens: int
    after_tokens: int


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Bounds on the evaluator's relevance score; they belong to one evaluator."""

    upper: float
    lower: float
    strip_floor: float


@dataclass(frozen=True, slots=True)
class Scores:
    """One judgement a pair, in the order asked; None where a pair could not be judged."""

    values: tuple[float | None, ...]
    labels: tuple[str | None, ...] = ()
    probabilities: tuple[dict[str, float] | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Whether the question was found to need retrieval; `probability` is p(Retrieval) normalised.

    1 or 0 where the run's mode decided.
    """

    decision: bool
    probability: float


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a critic says of one draft (Self-RAG 3.3); None where it was not judged.

    `relevance` and `support` lie in 0…1, `utility` in -1…1; `likelihood` is the exponential of the
    mean log-probability of the draft's tokens. `weak` are its sentences without support,
    `uncovered` the parts of the question it leaves open, `criticism` what the critic said of it
    at once, if anything.
    """

    relevance: float | None = None
    support: float | None = None
    utility: float | None = None
    likelihood: float | None = None
    weak: tuple[str, ...] = ()
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
class Draft:
    """An answer that nobody has accepted yet, and the knowledge it was written from.

    `[n]` in `answer` is the n-th strip of `knowledge`. `n` numbers the candidates of a run from 1.
    `for_want_of_calls`: its sentences were quoted because no model might be asked any more.
    """

    answer: str
    knowledge: tuple[Strip, ...] = ()
    n: int = 1
    generator: str = ""
    judgement: Judgement | None = None
    score: float = 0.0
    chosen: bool = False
    for_want_of_calls: bool = False

    @property
    def stopped_by(self) -> StoppedBy:
        """Why a run ends with it where nobody judges it."""
        return "budget" if self.for_want_of_calls else "answered"

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
class Citation:
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
class Degraded:
    """A component that failed while the run went on without it; `reason` is told to the user."""

    component: Component
    reason: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What a run has spent so far; usages of parallel branches add up.

    `discarded_searches` are those of `web_searches` that began before the action was known and
    then were not needed.
    """

    llm_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    scored_pairs: int = 0
    web_searches: int = 0
    discarded_searches: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.llm_calls + other.llm_calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.scored_pairs + other.scored_pairs,
            self.web_searches + other.web_searches,
            self.discarded_searches + other.discarded_searches,
        )


class Message(TypedDict):
    """One turn of the dialogue before the question."""

    role: Literal["user", "assistant"]
    content: str
