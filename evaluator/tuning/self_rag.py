"""Self-RAG rows (arXiv 2310.11511, 3.2.2): reflection tokens woven into an answer by a critic.

    [Retrieval]<paragraph>title
    text</paragraph>[Relevant]sentence[Fully supported][Continue to Use Evidence]sentence[Utility:5]
    [No Retrieval]answer[Utility:4]

An irrelevant passage has no support token behind its sentence, as in the published rows. `woven`
and `unwoven` are each other's inverse.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evaluator.data.text import language_of, sentences
from evaluator.errors import DataError
from evaluator.schema import ANSWER_MARK, LABELS, RowScore, Task
from evaluator.tuning.rows import TuningPassage, TuningRow

PARAGRAPH = ("<paragraph>", "</paragraph>")
RETRIEVAL, NO_RETRIEVAL, CONTINUE = LABELS["retrieval"]
RELEVANT, IRRELEVANT = LABELS["relevance"]
SUPPORT, UTILITY = LABELS["support"], LABELS["utility"]
TOKENS = (
    *LABELS["retrieval"], *LABELS["relevance"], *SUPPORT, *UTILITY, *PARAGRAPH,
)  # fmt: skip
"""All that a Self-RAG generator's vocabulary has beyond its base's."""

CriticScores = Callable[[Task, Sequence[tuple[str, str]]], Sequence[RowScore | str]]
"""Judgements of pairs, as `in_batches` gives them."""


def _one_of(tokens: Sequence[str]) -> str:
    return "|".join(map(re.escape, tokens))


TOKEN = re.compile(_one_of(TOKENS))
_SEGMENT = re.compile(
    rf"(?P<retrieval>{_one_of(LABELS['retrieval'])})"
    rf"(?:<paragraph>(?P<title>[^\n]*)\n(?P<passage>.*?)</paragraph>"
    rf"(?P<relevance>{_one_of(LABELS['relevance'])}))?"
    rf"(?P<text>.+?)(?P<support>{_one_of(SUPPORT)})?"
    rf"(?={_one_of((*LABELS['retrieval'], *UTILITY))})",
    re.DOTALL,
)
_END = re.compile(_one_of(UTILITY))


@dataclass(frozen=True, slots=True)
class ReflectedSegment:
    """A sentence with its tokens; a passage and its relevance exactly after `[Retrieval]`."""

    retrieval: str
    text: str
    passage: TuningPassage | None = None
    relevance: str | None = None
    support: str | None = None


@dataclass(frozen=True, slots=True)
class ReflectedAnswer:
    segments: tuple[ReflectedSegment, ...]
    utility: str


def woven(answer: ReflectedAnswer) -> str:
    """The output a generator learns; DataError where the parts could not be told apart again."""
    output = "".join(map(_woven, answer.segments)) + answer.utility
    if not answer.segments or unwoven(output) != answer:
        raise DataError("These parts do not make an answer with reflection tokens.")
    return output


def unwoven(output: str) -> ReflectedAnswer:
    """The parts of an output; DataError where it has another form."""
    segments, at = list[ReflectedSegment](), 0
    while match := _SEGMENT.match(output, at):
        passage = match["relevance"] and TuningPassage(match["title"], match["passage"])
        segment = ReflectedSegment(
            match["retrieval"], match["text"], passage or None, match["relevance"], match["support"]
        )
        _check(segment)
        segments.append(segment)
        at = match.end()
    ending = output[at:]
    if not segments or not _END.fullmatch(ending):
        raise DataError(f"No answer with reflection tokens: {output[at : at + 40]!r} is not known.")
    return ReflectedAnswer(tuple(segments), ending)


def reflected_row(
    row: TuningRow, critic: CriticScores, rng: random.Random, irrelevant_share: float
) -> dict[str, Any] | None:
    """The Self-RAG row of one question, None where the critic cannot make one of it.

    Each sentence rests on the passage that supports it best; in `irrelevant_share` of the rows
    on one the critic calls irrelevant, if there is one, so that the model learns to say so.
    """
    utility = _label(critic, "utility", row.question, row.answer)
    retrieval = _label(critic, "retrieval", row.question, "")
    if not utility or not retrieval or TOKEN.search(row.answer + row.question):
        return None
    if retrieval == NO_RETRIEVAL:
        segments: tuple[ReflectedSegment, ...] | None = (
            ReflectedSegment(NO_RETRIEVAL, row.answer),
        )
    else:
        segments = _grounded(row, critic, irrelevant=rng.random() < irrelevant_share)
    if not segments:
        return None
    return {
        "instruction": row.question,
        "input": "",
        "output": woven(ReflectedAnswer(segments, utility)),
        "answers": list(row.answers or (row.answer,)),
        "group": row.group or row.question,
    }


def _grounded(
    row: TuningRow, critic: CriticScores, *, irrelevant: bool
) -> tuple[ReflectedSegment, ...] | None:
    graded = [
        (passage, judged.label)
        for passage, judged in zip(
            row.passages,
            critic("relevance", [(row.question, _evidence(passage)) for passage in row.passages]),
            strict=True,
        )
        if isinstance(judged, RowScore) and not TOKEN.search(passage.title + passage.text)
    ]
    unfit = [passage for passage, label in graded if label == IRRELEVANT]
    segments, at_hand = list[ReflectedSegment](), ""
    for sentence in sentences(row.answer):
        retrieval = RETRIEVAL
        if at_hand:
            retrieval = _label(critic, "retrieval", row.question, at_hand) or RETRIEVAL
        if retrieval != RETRIEVAL:
            segments.append(ReflectedSegment(retrieval, sentence))
            continue
        best = None if irrelevant and unfit else _best(row, sentence, graded, critic)
        if best:
            passage, support = best
            segments.append(ReflectedSegment(RETRIEVAL, sentence, passage, RELEVANT, support))
        elif unfit:
            passage = unfit[0]
            segments.append(ReflectedSegment(RETRIEVAL, sentence, passage, IRRELEVANT))
        else:
            return None
        at_hand = _evidence(passage)
    return tuple(segments)


def _best(
    row: TuningRow, sentence: str, graded: Sequence[tuple[TuningPassage, str]], critic: CriticScores
) -> tuple[TuningPassage, str] | None:
    """The relevant passage that supports the sentence most, with the critic's token."""
    fit = [passage for passage, label in graded if label == RELEVANT]
    pairs = [(f"{row.question}{ANSWER_MARK}{sentence}", _evidence(passage)) for passage in fit]
    judged = [
        (SUPPORT.index(score.label), -score.score, n)
        for n, score in enumerate(critic("support", pairs) if pairs else ())
        if isinstance(score, RowScore)
    ]
    if not judged:
        return None
    support, _, n = min(judged)
    return fit[n], SUPPORT[support]


def _label(critic: CriticScores, task: Task, first: str, second: str) -> str:
    """The critic's token, "" where it has none."""
    (judged,) = critic(task, [(first, second)])
    return judged.label if isinstance(judged, RowScore) else ""


def _evidence(passage: TuningPassage) -> str:
    if not passage.title:
        return passage.text
    joint = "。" if language_of(passage.text) == "zh" else ". "
    return f"{passage.title}{joint}{passage.text}"


def _woven(segment: ReflectedSegment) -> str:
    quoted = ""
    if segment.passage is not None:
        quoted = f"{PARAGRAPH[0]}{segment.passage.title}\n{segment.passage.text}{PARAGRAPH[1]}"
    return (
        f"{segment.retrieval}{quoted}{segment.relevance or ''}{segment.text}{segment.support or ''}"
    )


def _check(segment: ReflectedSegment) -> None:
    """DataError for tokens that contradict each other, or stand in a text."""
    passage = segment.passage
    texts = (segment.text, *((passage.title, passage.text) if passage else ()))
    if any(TOKEN.search(text) for text in texts):
        raise DataError(f"A text holds a reflection token: {segment.text[:40]!r}")
    if (passage is not None) != (segment.retrieval == RETRIEVAL):
        raise DataError(f"A passage stands after {RETRIEVAL} and nowhere else.")
    if (segment.support is not None) != (segment.relevance == RELEVANT):
        raise DataError(f"A support token follows a sentence on a {RELEVANT} passage alone.")
