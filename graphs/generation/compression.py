"""Compression of the knowledge before it is answered from (arXiv 2407.01219, summarisation).

Extractive (RECOMP: the best sentences), abstractive (a summary a document by the language model),
or by a local language model of the worker (LongLLMLingua, selective context).
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.runnables.utils import gather_with_concurrency

from graphs.errors import CompressorFailed, PortError
from graphs.generation.prompts import one_line
from graphs.generation.replies import reply_to
from graphs.grading.relevance import relevance_of
from graphs.grading.strips import evaluator_text, repacked
from graphs.options import Context
from graphs.ports import Services
from graphs.state import State
from graphs.text.language import language_of
from graphs.text.prompt_injection import as_data, without_control_tokens
from graphs.text.sentences import sentence_spans, token_count, word_count
from graphs.types import Compression, Degraded, Strip, Usage
from prompts import prompt

MAX_SUMMARIES_AT_ONCE = 8
MIN_SUMMARY_WORDS = 20
"""A summary may always have as many: a single fact needs its sentence."""

_SAYS_NOTHING = re.compile(r"[\W_]*+(?:none|无|無)?[\W_]*+", re.IGNORECASE)
_LABEL = re.compile(r"^\s*(?:summary|摘要)\s*[:：]\s*", re.IGNORECASE)

Knowledge = Sequence[Sequence[Strip]]
"""What each candidate is drafted from, or the one knowledge of a workflow without candidates."""


@dataclass(frozen=True, slots=True)
class Compressed:
    """Shorter knowledge, and what it came to in tokens; None where nothing was compressed."""

    knowledge: Knowledge
    compression: Compression | None = None
    usage: Usage = field(default_factory=Usage)
    degraded: tuple[Degraded, ...] = ()

    @property
    def update(self) -> State:
        """What it changes in the state of a run."""
        update: State = {"usage": self.usage, "degraded": list(self.degraded)}
        return {**update, "compression": self.compression} if self.compression else update


@dataclass(frozen=True, slots=True)
class DocumentSummary:
    """`text` is empty where the document says nothing to the question, None where nobody knows."""

    text: str | None
    usage: Usage
    degraded: tuple[Degraded, ...] = ()


async def compress_knowledge(
    questions: Sequence[str],
    knowledge: Knowledge,
    context: Context,
    services: Services,
    spare_calls: int,
) -> Compressed:
    """The knowledge compressed by the run's method; unchanged and `degraded` where that fails.

    `questions` are the question and its sub-questions; of the language model's calls at most
    `spare_calls` are made, for each knowledge is still to be drafted from.
    """
    if context.compress == "none":
        return Compressed(knowledge)
    try:
        if context.compress == "extractive":
            result = await _extracted(questions, knowledge, context, services)
        elif context.compress == "abstractive":
            calls = max(0, spare_calls)
            result = await _summarised(questions[0], knowledge, context, services, calls)
        else:
            result = await _by_local_model(questions[0], knowledge, context, services)
    except PortError as error:
        result = Compressed(knowledge, usage=error.usage, degraded=(error.degraded,))
    after = [repacked(strips, context.repack) for strips in result.knowledge]
    sizes = Compression(_tokens(knowledge), _tokens(after))
    return replace(result, knowledge=after, compression=sizes)


async def _extracted(
    questions: Sequence[str], knowledge: Knowledge, context: Context, services: Services
) -> Compressed:
    """The best sentences, graded in one request. Raises EvaluatorFailed."""
    with_title = context.ablation.grade_titles
    texts = list(
        dict.fromkeys(
            text for strips in knowledge for s in strips for text in judged_sentences(s, with_title)
        )
    )
    graded = await relevance_of(questions, texts, services.evaluator)
    scores = dict(zip(texts, graded.best, strict=True))
    unscored = sum(score is None for score in scores.values())
    reason = f"{unscored} sentences of the knowledge could not be graded."
    return Compressed(
        [
            best_sentences(strips, scores, context.compress_ratio, with_title=with_title)
            for strips in knowledge
        ],
        usage=graded.usage,
        degraded=(Degraded("evaluator", reason),) if unscored else (),
    )


async def _summarised(
    question: str, knowledge: Knowledge, context: Context, services: Services, calls: int
) -> Compressed:
    """A summary for each document, or nothing; one that is not written leaves its strips whole.

    So do documents after the first `calls`. A document that several candidates hold is summarised
    once. Raises CompressorFailed.
    """
    if services.chat is None:
        raise CompressorFailed("There is no language model to summarise the knowledge.")
    apart = [by_document(strips) for strips in knowledge]
    documents = list(dict.fromkeys(merged(strips) for each in apart for strips in each))[:calls]
    summaries = await gather_with_concurrency(
        MAX_SUMMARIES_AT_ONCE,
        *(summary_of(question, each, context.compress_ratio, services) for each in documents),
    )
    texts = {each: summary.text for each, summary in zip(documents, summaries, strict=True)}

    def shorter(strips: list[Strip]) -> list[Strip]:
        text = texts.get(merged(strips))
        if text is None:
            return strips
        return [with_compressed_text(merged(strips), text)] if text else []

    return Compressed(
        [[strip for strips in each for strip in shorter(strips)] for each in apart],
        usage=sum((summary.usage for summary in summaries), Usage()),
        degraded=tuple(dict.fromkeys(entry for each in summaries for entry in each.degraded)),
    )


async def _by_local_model(
    question: str, knowledge: Knowledge, context: Context, services: Services
) -> Compressed:
    """By the worker's language model, one candidate after another. Raises CompressorFailed."""
    compressor = services.compressors.get(context.compress)
    if compressor is None:
        raise CompressorFailed(f"There is no model to compress by {context.compress}.")
    shorter: list[list[Strip]] = []
    for strips in knowledge:
        texts = [strip.text for strip in strips]
        shortened = (
            await compressor.compress(question, texts, context.compress_ratio) if texts else ()
        )
        pairs = zip(strips, shortened, strict=True)
        shorter.append([with_compressed_text(strip, text) for strip, text in pairs if text.strip()])
    return Compressed(shorter)


async def summary_of(
    question: str, document: Strip, ratio: float, services: Services
) -> DocumentSummary:
    """What the document says to the question, in about `ratio` of its words."""
    language = language_of(question)
    body = prompt("compress", language).render(
        question=without_control_tokens(one_line(question)),
        title=as_data(one_line(document.title)),
        text=as_data(document.text),
        words=str(max(MIN_SUMMARY_WORDS, round(word_count(document.text) * ratio))),
    )
    system = SystemMessage(prompt("compress_system", language).render())
    reply = await reply_to([system, HumanMessage(body)], services)
    text = as_summary(reply.text) if reply.text else None
    return DocumentSummary(text, reply.usage, reply.degraded)


def as_summary(reply: str) -> str:
    """The reply without a label; empty where it says that there is nothing to say."""
    text = _LABEL.sub("", reply).strip()
    return "" if _SAYS_NOTHING.fullmatch(text) else text


def judged_sentences(strip: Strip, with_title: bool) -> list[str]:
    """The sentences of a strip as they are graded, in order."""
    return [
        evaluator_text(replace(strip, text=strip.text[start:end]), with_title)
        for start, end in sentence_spans(strip.text)
    ]


def best_sentences(
    knowledge: Sequence[Strip],
    scores: Mapping[str, float | None],
    ratio: float,
    *,
    with_title: bool,
) -> list[Strip]:
    """The strips with the best ceil(ratio * n) of their n sentences, in their order; at least one.

    `scores` are by the text of `judged_sentences`. The share is of all sentences together:
    a strip may lose none, or all, and then it is left out. What has no score is worth least.
    """
    ranked = [
        (-math.inf if (score := scores.get(text)) is None else score, n, place)
        for n, strip in enumerate(knowledge)
        for place, text in enumerate(judged_sentences(strip, with_title))
    ]
    count = math.ceil(round(ratio * len(ranked), 9))  # 0.1 * 30 is a little more than 3
    best = {(n, place) for _, n, place in sorted(ranked, key=lambda item: -item[0])[:count]}
    shortened = [
        with_compressed_text(strip, _sentences_at(strip.text, [p for m, p in best if m == n]))
        for n, strip in enumerate(knowledge)
    ]
    return [strip for strip in shortened if strip.text]


def with_compressed_text(strip: Strip, text: str) -> Strip:
    """The strip with a shorter text, its own kept for citations; as it was if not shorter."""
    if text == strip.text or token_count(text) > token_count(strip.text):
        return strip
    return replace(strip, text=text, whole=strip.whole or strip.text)


def by_document(knowledge: Sequence[Strip]) -> list[list[Strip]]:
    """The strips of each document, documents in the order of their first strips."""
    documents: dict[str, list[Strip]] = {}
    for strip in knowledge:
        documents.setdefault(strip.document_id, []).append(strip)
    return list(documents.values())


def merged(strips: Sequence[Strip]) -> Strip:
    """The first of one document's strips with the text of them all and the best one's score."""
    best = max(strips, key=lambda strip: strip.score)
    return replace(
        strips[0],
        text="\n".join(strip.text for strip in strips),
        retrieval_score=best.retrieval_score,
        relevance=best.relevance,
    )


def _tokens(knowledge: Knowledge) -> int:
    return sum(token_count(strip.text) for strips in knowledge for strip in strips)


def _sentences_at(text: str, places: Sequence[int]) -> str:
    """These sentences with the blanks that followed them; the whole text where all are named."""
    spans = sentence_spans(text)
    if len(places) == len(spans):
        return text
    ends = [start for start, _ in spans[1:]] + [len(text)]
    return "".join(text[spans[place][0] : ends[place]] for place in sorted(places)).rstrip()
