"""Scores of drafts from the probabilities of reflection tokens, and selection by them.

All formulas are Self-RAG's (Asai et al., arXiv 2310.11511, 3.3 and appendix A.3). Probabilities are
a mapping from token to p; a token that is missing counts 0, and a group without any counts 0.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from evaluator.schema import LABELS, UTILITY_WEIGHTS
from graphs.generation.answer import EXTRACTIVE, abstention
from graphs.generation.extractive import candidate_sentences, compose, first_sentences
from graphs.grading.strips import internal_knowledge, join
from graphs.options import Context
from graphs.state import Answer, Question, State
from graphs.text.citations import citations_in, with_sources, without_markers
from graphs.text.inert_markup import markup_of
from graphs.text.language import answer_language
from graphs.text.sentences import plain
from graphs.types import AnswerLinks, Bars, Draft, Judgement

*RETRIEVE, CONTINUE = LABELS["retrieval"]
RELEVANT, SUPPORT, UTILITY = LABELS["relevance"], LABELS["support"], LABELS["utility"]

Probabilities = Mapping[str, float]

SUPPORTED = 0.5
"""Below it a sentence is called weak: more than partial support is what keeps it."""


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


def _weighed(p: Probabilities, group: Sequence[str], weights: Sequence[float]) -> float:
    mass = [p.get(token, 0.0) for token in group]
    total = sum(mass)
    if total <= 0:
        return 0.0
    return sum(weight * value for weight, value in zip(weights, mass, strict=True)) / total


def selected(drafts: Sequence[Draft], context: Context) -> State:
    """What the chosen draft makes of the run; there must be one."""
    chosen = replace(choose(drafts, closed=bool(context.choices)), chosen=True)
    return {
        **answered(chosen, context),
        "candidates": [chosen if draft.n == chosen.n else draft for draft in drafts],
        "draft": chosen,
        "stopped_by": chosen.stopped_by,
    }


def answered(draft: Draft, context: Context) -> State:
    """The draft as the run's answer, its sentences cited by the judgement (attribution).

    Quotations are cited by their strips. A choice of a closed set is the caller's own text, which
    no marker stands in.
    """
    answer, cites = draft.answer, draft.cites
    if draft.judgement and draft.judgement.sources and draft.generator != EXTRACTIVE:
        sources = dict(draft.judgement.sources)
        if context.choices:
            cites = tuple(sources.values())
        else:
            answer = with_sources(answer, sources)
    return {
        "answer": answer,
        "citations": citations_in(answer, draft.knowledge, cites),
        "judgement": draft.judgement,
        "missing": list(draft.missing),
        "generator": draft.generator,
    }


def choose(drafts: Sequence[Draft], closed: bool) -> Draft:
    """The draft of highest score; of a closed answer set the best of the answer with most votes.

    There the scores of equal answers are summed. The order of the drafts decides nothing. Drafts
    that no critic judged stand back where others were judged: their score of 0 says nothing.
    """
    drafts = [draft for draft in drafts if draft.judgement is not None] or drafts
    if not closed:
        return max(drafts, key=_standing)
    votes: dict[str, float] = defaultdict(float)
    for draft in sorted(drafts, key=_standing):
        votes[_vote(draft)] += draft.critique_score
    winner = max(votes, key=lambda answer: (votes[answer], answer))
    return max((draft for draft in drafts if _vote(draft) == winner), key=_standing)


def _vote(draft: Draft) -> str:
    """The answer without its markers: drafts from different passages vote for the same one."""
    return plain(without_markers(draft.answer))


def _standing(draft: Draft) -> tuple[float, int, str, tuple[str, ...]]:
    """Of equal scores, as where the critic failed, the draft of the better knowledge."""
    return draft.critique_score, -draft.n, draft.answer, draft.document_ids


def early_answer(
    state: Answer,
    question: Question,
    drafts: Sequence[Draft],
    context: Context,
    why: Literal["deadline", "cancelled"],
    *,
    is_writing: bool,
    links: AnswerLinks = "cited",
) -> Answer:
    """What a run answers that is stopped: the best draft, else the openings of the kept strips.

    No part is asked any more. Passages that nothing grades count once an answer `is_writing`.
    """
    if state.get("answer"):
        return {"stopped_by": why}
    if drafts:
        update = selected(drafts, context)
        update["stopped_by"] = why
        return update
    internal = list(state.get("internal_strips", []))
    if is_writing and not internal:
        internal = internal_knowledge(state, context.top_strips)
    knowledge = join(internal, state.get("web_strips", []), context.evidence_tokens)
    markup = markup_of(knowledge, links)
    answer = markup.whole("".join(compose(first_sentences(candidate_sentences(knowledge)))))
    if not answer:
        language = answer_language(question["question"], question.get("history", []))
        return {
            "answer": abstention(question["question"], language, why),
            "citations": [],
            "stopped_by": why,
        }
    return {
        "answer": answer,
        "internal_strips": internal,
        "citations": citations_in(answer, knowledge),
        "generator": EXTRACTIVE,
        "stopped_by": why,
        "degraded": list(markup.degraded),
    }
