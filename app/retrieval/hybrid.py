"""Score fusion: full-text and dense scores joined into one order (arXiv 2407.01219)."""

from collections.abc import Mapping
from dataclasses import dataclass

from graphs.options import SearchMode
from graphs.types import Language

# Ranks beyond the first few differ little (reciprocal-rank fusion).
RANKS_FROM = 60


@dataclass(frozen=True, slots=True)
class Weights:
    """S = lexical · BM25 + dense · cosine, both brought to 0…1 first."""

    lexical: float
    dense: float


# As measured with the shipped table on training questions (benchmarks/hybrid_weights.md): a static
# table deserves less trust than BM25. In Chinese every weight of the dense scores made the order
# worse: there it only breaks ties and fills up where too few words match.
TABLE_WEIGHTS: Mapping[Language, Weights] = {"en": Weights(1.0, 0.5), "zh": Weights(1.0, 0.0)}
# The paper's, found with a large encoder; ahead of the table's with a small one, too
# (benchmarks/retrieval.md, embedders).
ENCODER_WEIGHTS: Mapping[Language, Weights] = dict.fromkeys(("en", "zh"), Weights(0.3, 1.0))


def normalised(scores: Mapping[str, float]) -> dict[str, float]:
    """Min-max to 0…1; where all are equal every one of them is 1, so a lone hit still counts."""
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high <= low:
        return dict.fromkeys(scores, 1.0)
    return {key: (score - low) / (high - low) for key, score in scores.items()}


def weights_of(own: Weights, mode: SearchMode, alpha: float | None) -> Weights:
    """The embedder's `own`, or `alpha` for BM25 against 1; a mode leaves one of the two scores."""
    weights = own if alpha is None else Weights(alpha, 1.0)
    match mode:
        case "bm25":
            return Weights(1.0, 0.0)
        case "dense":
            return Weights(0.0, 1.0)
    return weights


def fuse(
    lexical: Mapping[str, float], dense: Mapping[str, float], weights: Weights
) -> list[tuple[str, float]]:
    """(id, S) over the union of both, best first; a score that is absent counts 0.

    Equal S is ordered by the dense score, then by id, so that candidates a weight of 0 leaves
    without any score still come in a telling and repeatable order.
    """
    words, meaning = normalised(lexical), normalised(dense)
    joined = {
        key: weights.lexical * words.get(key, 0.0) + weights.dense * meaning.get(key, 0.0)
        for key in {**words, **meaning}
    }
    return sorted(joined.items(), key=lambda item: (-item[1], -meaning.get(item[0], 0.0), item[0]))


def by_ranks(lexical: Mapping[str, float], dense: Mapping[str, float]) -> list[tuple[str, float]]:
    """(id, score) by reciprocal ranks, best first: the sum of 1 / (60 + rank) over both orders."""
    joined: dict[str, float] = {}
    for scores in (lexical, dense):
        order = sorted(scores, key=lambda key: (-scores[key], key))
        for rank, key in enumerate(order, start=1):
            joined[key] = joined.get(key, 0.0) + 1 / (RANKS_FROM + rank)
    return sorted(joined.items(), key=lambda item: (-item[1], item[0]))
