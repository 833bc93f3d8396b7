"""The verdict on an answer: whether its sentences are supported, and how likely it is right.

A sentence quoted word for word from a source that it cites is supported by construction; of others
the critic's judgement tells. That says nothing of whether the answer serves the question, so the
verdict is bounded by the confidence, where it is known.
"""

from collections.abc import Sequence

from graphs.generation.answer import EXTRACTIVE
from graphs.grading.relevance import mean_of
from graphs.reflection import confidence as bars
from graphs.reflection.confidence import confidence_of
from graphs.reflection.scores import SUPPORTED
from graphs.state import Answer
from graphs.text.citations import answer_sentences, cited_numbers, without_markers
from graphs.text.inert_markup import is_quoted
from graphs.types import AnswerSentence, AnswerVerdict, Citation, Judgement, SentenceLabel, Verdict

_ENDED_EARLY = ("budget", "deadline", "cancelled")


def verdict_of(state: Answer) -> AnswerVerdict:
    """The verdict on the answer of a finished run."""
    answer, citations = state["answer"], state.get("citations", [])
    judgement = state.get("judgement")
    stopped_by = state.get("stopped_by")
    if stopped_by == "no_evidence" or (stopped_by in _ENDED_EARLY and not citations):
        return AnswerVerdict("abstained", None, (AnswerSentence(0, len(answer)),))
    # A choice of a closed set bears no marker: that its word occurs in a source says nothing.
    may_quote = bool(cited_numbers(answer))
    sentences = tuple(
        _sentence(answer, start, end, citations, judgement, may_quote=may_quote)
        for start, end in answer_sentences(answer)
    )
    uncovered = judgement.uncovered if judgement else ()
    missing = tuple(dict.fromkeys([*state.get("missing", []), *uncovered]))
    strips = [*state.get("internal_strips", []), *state.get("web_strips", [])]
    checked = [it.support for it in sentences if it.label != "not_checked"]
    # A critic leaves out headings alone; without one, what is no quotation was not checked.
    is_whole = judgement is not None or len(checked) == len(sentences)
    support = mean_of(checked) if is_whole else None
    confidence = confidence_of(citations, state.get("documents", []), strips, support)
    is_unjudged = judgement is None and state.get("generator") != EXTRACTIVE
    if is_unjudged or (confidence is None and judgement is None):
        return AnswerVerdict("not_judged", None, sentences, missing)
    return AnswerVerdict(
        _bounded(_overall(sentences, missing), confidence), confidence, sentences, missing
    )


def _sentence(
    answer: str,
    start: int,
    end: int,
    citations: Sequence[Citation],
    judgement: Judgement | None,
    *,
    may_quote: bool,
) -> AnswerSentence:
    """One marker closes a list, a table or code: what is quoted rests on whatever holds it."""
    sources = [c for c in citations if any(first < end and start < last for first, last in c.spans)]
    bare = without_markers(answer[start:end]).strip()
    linked = [citation.source for citation in citations]
    held = [it for it in sources or citations if is_quoted(bare, it.text, linked)]
    if may_quote and held:
        return AnswerSentence(start, end, 1.0, "supported", _numbers(sources or held))
    support, label = _judged(bare, judgement)
    return AnswerSentence(start, end, support, label, _numbers(sources))


def _numbers(citations: Sequence[Citation]) -> tuple[int, ...]:
    return tuple(citation.n for citation in citations)


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


def _bounded(verdict: Verdict, confidence: float | None) -> Verdict:
    """No more than the confidence promises."""
    if confidence is None or verdict not in ("supported", "partly"):
        return verdict
    if confidence < bars.PARTLY:
        return "unsupported"
    return verdict if confidence >= bars.SUPPORTED else "partly"


def _overall(sentences: Sequence[AnswerSentence], missing: Sequence[str]) -> Verdict:
    labels = {sentence.label for sentence in sentences}
    if labels <= {"not_checked"}:
        return "not_judged"
    if labels == {"supported"} and not missing:
        return "supported"
    return "partly" if "supported" in labels else "unsupported"
