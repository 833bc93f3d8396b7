"""Temperature: make the relevance of the best passage the probability that it answers.

Of a question's passages the best one is what an action follows from, so the map is fitted on best
passages alone: p = sigmoid(a * margin + b), Platt's way (Guo et al., arXiv 1706.04599, for
networks). It is monotone, so no ranking changes, and lies in the head's own weights.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from sklearn.linear_model import LogisticRegression

from evaluator.data.calibration_questions import LabelledQuestion
from evaluator.inference.scorer import cut, padded
from evaluator.model.t5 import EvaluatorModel, autocast
from evaluator.model.tokenization import REFLECTION_TOKENS, PairTokenizer
from evaluator.schema import LABELS, Row

Floats = npt.NDArray[np.float64]
BATCH_TOKENS = 4096
LEAST = 40
"""Questions below which nothing is fitted."""


def temper(
    network: EvaluatorModel, rows: PairTokenizer, questions: Sequence[LabelledQuestion]
) -> dict[str, float]:
    """Rescale the relevance logits in place; the scale and shift, {} where nothing was fitted.

    Each language weighs the same, and so do answered and unanswered questions within it.
    """
    pairs = [(each.question, passage) for each in questions for passage in each.passages]
    values = iter(margins(network, rows, pairs).tolist())
    best, right, groups = list[float](), list[bool](), list[tuple[str, bool]]()
    for each in questions:
        scored = [next(values) for _ in each.passages]
        place = int(np.argmax(scored))
        best.append(scored[place])
        right.append(each.labels[place])
        groups.append((each.language, each.answered))
    if len(questions) < LEAST or len(set(right)) < 2:
        return {}
    weights = [1 / groups.count(group) for group in groups]
    fitted = LogisticRegression(C=1e6).fit(np.array(best)[:, None], right, sample_weight=weights)
    scale, shift = float(fitted.coef_[0, 0]), float(fitted.intercept_[0])
    if scale <= 0:
        return {}
    relevant, irrelevant = map(REFLECTION_TOKENS.index, LABELS["relevance"])
    with torch.no_grad():
        network.head.weight[[relevant, irrelevant]] *= scale
        network.head.bias[[relevant, irrelevant]] *= scale
        network.head.bias[relevant] += shift
    return {"scale": round(scale, 4), "shift": round(shift, 4), "questions": len(questions)}


@torch.inference_mode()
def margins(
    network: EvaluatorModel, rows: PairTokenizer, pairs: Sequence[tuple[str, str]]
) -> Floats:
    """Each pair's logit of [Relevant] over [Irrelevant]; a pair that cannot be read is -20."""
    network.eval()
    encoded = rows.encode("relevance", pairs)
    differences = np.full(len(pairs), -20.0)
    relevant, irrelevant = map(REFLECTION_TOKENS.index, LABELS["relevance"])
    device = network.head.weight.device
    numbered = {i: row for i, row in enumerate(encoded) if isinstance(row, Row)}
    order = sorted(numbered, key=lambda i: len(numbered[i].ids))
    at = 0
    for batch in cut([numbered[i] for i in order], BATCH_TOKENS):
        ids, mask = (torch.from_numpy(part).to(device) for part in padded(batch))
        with autocast(device):
            logits, _ = network(ids, mask)
        difference = (logits[:, relevant] - logits[:, irrelevant]).float().cpu().numpy()
        differences[order[at : at + len(batch)]] = difference
        at += len(batch)
    return differences
