"""Pure types of the evaluator: tasks, reflection tokens, thresholds, the worker's wire models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Task = Literal["relevance", "support", "utility", "retrieval", "rerank", "answer"]

LABELS: dict[Task, tuple[str, ...]] = {
    "relevance": ("[Relevant]", "[Irrelevant]"),
    "support": ("[Fully supported]", "[Partially supported]", "[No support / Contradictory]"),
    "utility": ("[Utility:1]", "[Utility:2]", "[Utility:3]", "[Utility:4]", "[Utility:5]"),
    "retrieval": ("[Retrieval]", "[No Retrieval]", "[Continue to Use Evidence]"),
}
"""Each task's reflection tokens, in the order the model's output holds them.

`rerank` has none; `answer` reads those of relevance and tells the answer's place besides.
"""

CompressMethod = Literal["longllmlingua", "selective_context"]

TASKS: tuple[Task, ...] = tuple(LABELS)
"""What an evaluator can be trained for."""

ANSWER_MARK = " [SEP] "
"""Stands between question and answer in support's first text (`POST /score`)."""

UTILITY_WEIGHTS = (-1.0, -0.5, 0.0, 0.5, 1.0)
"""Self-RAG's weight of each utility grade, worst first."""


def judged_as(task: Task) -> Task:
    """The task whose reflection tokens judge this one."""
    return "relevance" if task == "answer" else task


def score_of(task: Task, probabilities: Mapping[str, float]) -> float:
    """The task's score from its tokens' probabilities (`POST /score`).

    A group without any probability mass counts 0, never NaN.
    """
    p = [probabilities.get(label, 0.0) for label in LABELS[judged_as(task)]]
    if task == "answer":
        return p[0]
    if task == "relevance":
        return 2 * p[0] - 1
    if task == "support":
        return p[0] + 0.5 * p[1]
    if task == "utility":
        return sum(weight * value for weight, value in zip(UTILITY_WEIGHTS, p, strict=True))
    mass = p[0] + p[1]
    return p[0] / mass if mass > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Thresholds:
    """CRAG's two thresholds on the relevance score and the floor below which strips are dropped."""

    upper: float
    lower: float
    strip_floor: float


@dataclass(frozen=True, slots=True)
class PoolWeights:
    """How a passage's relevance is graded among all that were retrieved for its question.

    A score says little across questions, for one question is near to every text and another to
    none; how far a passage stands above the others says more (query performance prediction: WIG,
    Zhou and Croft 2007). The logit of "it answers" is scale x logit + standing x (similarity -
    median similarity of the pool) + shift; `calibrate` finds the three.
    """

    scale: float
    standing: float
    shift: float

    def grades(
        self, scores: Sequence[float | None], similarities: Sequence[float | None]
    ) -> list[float | None]:
        """Relevance from -1 to 1 of each passage of a pool; None where it has no score.

        Passages without a similarity, and pools with fewer than MIN_POOL, keep their scores.
        """
        known = [value for value in similarities if value is not None]
        middle = median(known) if len(known) >= MIN_POOL else None
        return [
            score if score is None or near is None or middle is None
            else self._grade(score, near - middle)
            for score, near in zip(scores, similarities, strict=True)
        ]  # fmt: skip

    def _grade(self, score: float, standing: float) -> float:
        chance = min(max((score + 1) / 2, _LEAST), 1 - _LEAST)
        logit = log(chance / (1 - chance))
        return 2 / (1 + exp(-(self.scale * logit + self.standing * standing + self.shift))) - 1


MIN_POOL = 3
"""Among fewer passages nothing stands out."""
_LEAST = 1e-9


@dataclass(frozen=True, slots=True)
class Row:
    """One pair as token ids, ready for a batch.

    The second text's own tokens stand from `begins` on; `offsets` are their [start, end) in it, for
    the task `answer` alone. `cosines` is what the pretrained encoder makes of the texts, for
    relevance where the checkpoint has one (evaluator/inference/fusion.py), and `need` its logit
    that a question needs retrieval.
    """

    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...] = ()
    begins: int = 0
    cosines: tuple[float, float] = (0.0, 0.0)
    need: float | None = None


class Span(BaseModel):
    """Where a passage answers: [start, end) in characters."""

    model_config = ConfigDict(frozen=True)

    start: int
    end: int
    probability: float = Field(description="Of this beginning and this end among all others.")


@dataclass(frozen=True, slots=True)
class RowScore:
    """One pair's judgement; `probabilities` is empty from a checkpoint that only regresses.

    `similarity` is the encoder's centred cosine of the two texts, for relevance where the
    checkpoint has an encoder.
    """

    score: float
    label: str
    probabilities: dict[str, float]
    span: Span | None = None
    similarity: float | None = None


def _without_lone_surrogates(text: object) -> object:
    # Half of a surrogate pair is legal JSON but no text: no tokenizer takes it.
    return text.encode("utf-8", "replace").decode() if isinstance(text, str) else text


Text = Annotated[str, BeforeValidator(_without_lone_surrogates)]
Pair = tuple[Text, Text]


class ScoreRequest(BaseModel):
    """Pairs to score: [question, passage] for relevance; see the contract for the other tasks."""

    model_config = ConfigDict(extra="forbid")

    task: Task = Field(description="Which judgement is asked for.")
    pairs: list[Pair] = Field(description="Pairs of texts, scored independently of each other.")


class RowError(BaseModel):
    """Why one row has no score."""

    index: int = Field(description="The row's place in `pairs`.")
    reason: str = Field(description="What is wrong with it, in words.")


class ScoreResponse(BaseModel):
    """One entry a pair, in the order asked; a row that could not be scored is null throughout."""

    model_config = ConfigDict(allow_inf_nan=False)

    scores: list[float | None]
    labels: list[str | None] = Field(description='The likeliest token; "" where there is none.')
    probabilities: list[dict[str, float] | None] = Field(
        description="Per row: token to probability; {} from a model that only regresses."
    )
    spans: list[Span | None] = Field(
        default_factory=list,
        description="Of the task answer: the likeliest answer's place in the passage, null where "
        "none is likelier. Empty for other tasks.",
    )
    similarities: list[float | None] = Field(
        default_factory=list,
        description="Of relevance, where the checkpoint has an encoder: the cosine of question and "
        "passage less the question's mean cosine to fixed passages. Else null.",
    )
    model: str = Field(description="Name of the checkpoint.")
    tokens: int = Field(description="Tokens read, padding left out.")
    queue_ms: float = Field(description="Longest time a row waited for its turn.")
    inference_ms: float = Field(description="Time in the model, all batches of this request.")
    errors: list[RowError] = Field(default_factory=list)


class CompressRequest(BaseModel):
    """Texts to shorten to about `ratio` of their tokens, for a question."""

    model_config = ConfigDict(extra="forbid")

    method: CompressMethod = Field(description="longllmlingua heeds the question.")
    question: Text = Field(description="What the texts are to answer.")
    texts: list[Text] = Field(description="Each is shortened to a text of its own.")
    ratio: float = Field(gt=0, le=1, description="Share of the tokens to keep.")


class CompressResponse(BaseModel):
    """One text for each, in the order asked; empty where nothing of it was kept."""

    texts: list[str]
    model: str = Field(description="Name of the language model.")
    before_tokens: int = Field(description="The model's tokens of all texts.")
    after_tokens: int = Field(description="Those that were kept.")


class ImageEmbeddingRequest(BaseModel):
    """Texts and images to compare."""

    model_config = ConfigDict(extra="forbid")

    texts: list[Text] = Field(default=[], max_length=64)
    images: list[str] = Field(
        default=[], max_length=16, description="WebP, PNG or JPEG in base64, of 4 million pixels."
    )


class ImageEmbeddingResponse(BaseModel):
    """A unit vector for each, in the order asked."""

    texts: list[list[float]]
    images: list[list[float]]
    model: str = Field(description="Name of the image embedder.")


class Ready(BaseModel):
    """What a warm worker can do."""

    status: str = "ready"
    model: str = Field(description="Name of the evaluator's checkpoint.")
    tasks: list[str] = Field(default=[], description="What `/score` may be asked.")
    compressor: str | None = Field(default=None, description="Name of its language model, if any.")
    image_embedder: str | None = Field(default=None, description="Name of its CLIP model, if any.")


class CalibratedThresholds(BaseModel):
    """`thresholds.json`: what `calibrate` found for one checkpoint, with its figures."""

    model_config = ConfigDict(extra="ignore")

    upper: float = Field(description="A document score at or above it makes the action Correct.")
    lower: float = Field(description="All document scores below it make the action Incorrect.")
    strip_floor: float = Field(description="Strips scored below it are dropped.")
    support: float = Field(default=0.7, description="An answer is accepted from this support on.")
    utility: float = Field(default=4.0, description="And from this expected utility grade on.")
    retrieval: float = Field(
        default=0.2, ge=0, le=1, description="A question is looked up above this share."
    )
    pool: PoolWeights | None = Field(
        default=None, description="How passages are graded among all retrieved; null: each alone."
    )
    evaluator: str = Field(description="Digest of the weights these belong to (sha256:...).")
    questions: int = Field(default=0, description="Questions they were found on.")
    source: Literal["", "data", "questions"] = Field(
        default="", description="What gave the questions: --data, --questions, or not known."
    )
    figures: dict[str, float] = Field(
        default_factory=dict, description="What calibrate measured at these thresholds."
    )

    @model_validator(mode="after")
    def _band_is_not_inverted(self) -> Self:
        if self.lower > self.upper:
            raise ValueError("lower lies above upper")
        return self

    @property
    def thresholds(self) -> Thresholds:
        return Thresholds(self.upper, self.lower, self.strip_floor)


class WorkerProblem(BaseModel):
    """RFC 9457 problem details."""

    type: str = "about:blank"
    title: str
    status: int
    detail: Text
    errors: list[dict[str, Text]] | None = None
