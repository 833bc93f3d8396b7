"""The verdict on an answer: which of its sentences their sources support.

A sentence quoted word for word from a source that it cites is supported by construction; of others
the critic's judgement tells, and where nobody judged them, that is what is said.
"""

from collections.abc import Sequence

from graphs.critics.evaluator import SUPPORTED
from graphs.state import Answer
from graphs.text.citations import answer_sentences, cited_numbers, without_markers
from graphs.text.sentences import plain
from graphs.types import AnswerSentence, AnswerVerdict, Citation, Judgement, SentenceLabel, Verdict

_ENDED_EARLY = ("budget", "deadline", "cancelled")


def verdict_of(state: Answer) -> AnswerVerdict:
    """What is said of the answer of a run that has ended."""
    answer, citations = state["answer"], state.get("citations", [])
    judgement = state.get("judgement")
    stopped_by = state.get("stopped_by")
    if stopped_by == "no_evidence" or (stopped_by in _ENDED_EARLY and not citations):
        return AnswerVerdict("abstained", (AnswerSentence(0, len(answer)),))
    found = tuple(
        _sentence(answer[start:end], start, end, citations, judgement)
        for start, end in answer_sentences(answer)
    )
    uncovered = judgement.uncovered if judgement else ()
    missing = tuple(dict.fromkeys([*state.get("missing", []), *uncovered]))
    return AnswerVerdict(_overall(found, missing), found, missing)


def _sentence(
    text: str, start: int, end: int, citations: Sequence[Citation], judgement: Judgement | None
) -> AnswerSentence:
    sources = [c for c in citations if any(first < end and start < last for first, last in c.spans)]
    numbers, bare = tuple(citation.n for citation in sources), without_markers(text).strip()
    # A choice of a closed set bears no marker: that its word occurs in a source says nothing.
    is_quoted = cited_numbers(text) and any(plain(bare) in plain(c.text) for c in sources)
    if is_quoted:
        return AnswerSentence(start, end, 1.0, "supported", numbers)
    support, label = _judged(bare, judgement)
    return AnswerSentence(start, end, support, label, numbers)


def _judged(text: str, judgement: Judgement | None) -> tuple[float | None, SentenceLabel]:
    """A critic may judge each sentence, or the answer and name the weak ones."""
    if judgement is None or judgement.support is None:
        return None, "not_checked"
    support = dict(judgement.supports).get(text)
    if support is None and not judgement.supports:
        support = judgement.support
    if text in judgement.weak:
        return support, "unsupported"
    if support is None:
        return None, "not_checked"
    return support, "supported" if support >= SUPPORTED else "unsupported"


def _overall(found: Sequence[AnswerSentence], missing: Sequence[str]) -> Verdict:
    labels = {sentence.label for sentence in found}
    if labels <= {"not_checked"}:
        return "not_judged"
    if labels == {"supported"} and not missing:
        return "supported"
    return "partly" if "supported" in labels else "unsupported"
