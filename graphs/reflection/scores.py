"""Reflection tokens as numbers: from their probabilities to scores and acceptance.

All formulas are Self-RAG's (Asai et al., arXiv 2310.11511, 3.3 and appendix A.3). Probabilities are
a mapping from token to p; a token that is missing counts 0, and a group without any counts 0.
"""

from collections.abc import Mapping, Sequence

from evaluator.schema import LABELS, UTILITY_WEIGHTS
from graphs.options import Context
from graphs.types import Bars, Judgement

*RETRIEVE, CONTINUE = LABELS["retrieval"]
RELEVANT, SUPPORT, UTILITY = LABELS["relevance"], LABELS["support"], LABELS["utility"]

Probabilities = Mapping[str, float]


def retrieval_share(p: Probabilities) -> float:
    """p(Retrieval) normalised, 0…1."""
    return _weighed(p, RETRIEVE, (1, 0))


def needs_retrieval(share: float, threshold: float) -> bool:
    return share > threshold


def relevance(p: Probabilities) -> float:
    """0…1"""
    return _weighed(p, RELEVANT, (1, 0))


def support(p: Probabilities) -> float:
    """0…1: partial support counts half."""
    return _weighed(p, SUPPORT, (1, 0.5, 0))


def utility(p: Probabilities) -> float:
    """-1…1"""
    return _weighed(p, UTILITY, UTILITY_WEIGHTS)


def grade_of(use: float) -> float:
    """The expected utility grade, 1…5, of a utility of -1…1."""
    return 3 + 2 * use


def score_of(judgement: Judgement, context: Context) -> float:
    """The draft's critique score; what was not judged counts 0."""
    score = (
        context.weights.relevance * (judgement.relevance or 0)
        + context.weights.support * (judgement.support or 0)
        + context.weights.utility * (judgement.utility or 0)
    )
    return score + (judgement.likelihood or 0) if context.ablation.sequence_score else score


def accepted(judgement: Judgement, bars: Bars) -> bool:
    """Whether support and utility reach their bars and nothing is named that could be mended."""
    if judgement.support is None or judgement.utility is None:
        return False
    return (
        judgement.support >= bars.support
        and grade_of(judgement.utility) >= bars.utility
        and not judgement.weak
        and not judgement.uncovered
    )


def plain(answer: str) -> str:
    """What makes two answers the same: case, blanks and outer marks aside."""
    return " ".join(answer.casefold().split()).strip(" .。!！?？;；,，:：\"'“”‘’()（）[]")


def _weighed(p: Probabilities, group: Sequence[str], weights: Sequence[float]) -> float:
    mass = [p.get(token, 0.0) for token in group]
    total = sum(mass)
    if total <= 0:
        return 0.0
    return sum(weight * value for weight, value in zip(weights, mass, strict=True)) / total
