"""The evaluator as Self-RAG's critic: sentences judged for support, parts for coverage."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from unicodedata import normalize

from langchain_core.runnables.utils import gather_with_concurrency

from graphs.errors import CriticFailed, EvaluatorFailed
from graphs.generation.answer import EXTRACTIVE
from graphs.generation.prompts import LIST_MARK
from graphs.grading.relevance import best_of, mean_of
from graphs.grading.strips import evaluator_text
from graphs.ports import Evaluator, with_answer
from graphs.reflection.scores import SUPPORTED
from graphs.text.citations import answer_sentences, cited_numbers, without_markers
from graphs.text.inert_markup import is_quoted
from graphs.text.language import SMALL_WORDS, language_of, script_of
from graphs.text.questions import subquestions_of, unnamed_in
from graphs.text.sentences import WORD, plain, stands_in
from graphs.types import Bars, Draft, Judgement, Strip, Task, Usage
from prompts import prompt

COVERED = 0.0
"""Below it one of several parts is called uncovered: no sentence is of use for it (grade 3)."""

_HEADING = re.compile(r"#+ .*|\*\*[^*]*[^*.!?。！？]\*\*[:：]?")
_NUMBER = re.compile(r"(?<![A-Za-z0-9_.])\d+(?:[.,]\d+)*")
_CODE_OR_PATH = re.compile(r"`[^`\n]+`|(?<![\w./~-])(?:~|\.{1,2})?/\w[\w./-]*")


@dataclass(frozen=True, slots=True)
class JudgedSentence:
    """One sentence of a draft without its markers, and the numbers of the strips it cites.

    A heading states nothing that could be cited.
    """

    text: str
    cites: tuple[int, ...] = ()
    is_heading: bool = False


class EvaluatorCritic:
    """Judges without a language model.

    A draft's relevance is that of its best strip, its support the mean over its sentences, each by
    the best of the strips it cites; where none of them supports it, or none is cited, by the strip
    that does best, which is then its source. No strip supports values that it does not hold, and
    what stands in it word for word it does. A draft's utility is that of the whole answer; of a
    question of several parts the mean of it and of how well the best sentence serves each part.
    """

    def __init__(self, evaluator: Evaluator, bars: Bars | None = None) -> None:
        self._evaluator = evaluator
        self.name, self.bars = evaluator.name, bars or Bars()

    async def needs_retrieval(self, question: str) -> tuple[float, Usage]:
        pairs = _Pairs()
        place = pairs.add("retrieval", question, "")
        scores, usage = await self._scores(pairs)
        share = scores[place]
        if share is None:
            raise CriticFailed("The evaluator could not judge whether to retrieve.")
        return share, usage

    async def judge(
        self, question: str, drafts: Sequence[Draft]
    ) -> tuple[Sequence[Judgement], Usage]:
        pairs = _Pairs()
        bar = max(SUPPORTED, self.bars.support)
        examined = [_Examined(question, draft, pairs, bar) for draft in drafts]
        scores, usage = await self._scores(pairs)
        return [draft.judgement(scores) for draft in examined], usage

    async def sources(self, question: str, draft: Draft) -> tuple[Mapping[str, int], Usage]:
        """The strip, from 1, that supports a sentence best, by the text of those that cite none.

        None where no support reaches the bar. Raises CriticFailed.
        """
        pairs, bar = _Pairs(), max(SUPPORTED, self.bars.support)
        bare = [sentence for sentence in sentences_of(draft) if not sentence.cites]
        support = [_support_of(sentence, question, draft, pairs) for sentence in bare]
        scores, usage = await self._scores(pairs)
        traced = (
            (sentence.text, _best_support(sentence, _known(by_strip, scores), bar)[1])
            for sentence, by_strip in zip(bare, support, strict=True)
        )
        return {text: source for text, source in traced if source is not None}, usage

    async def criticise(
        self, question: str, _draft: Draft, judgement: Judgement, /
    ) -> tuple[str, Usage]:
        return criticism_of(question, judgement), Usage()

    async def _scores(self, pairs: "_Pairs") -> tuple[dict["_Place", float | None], Usage]:
        """Scores of all pairs, one request per task, each pair once."""
        tasks = [task for task, of_task in pairs.by_task.items() if of_task]
        try:
            answers = await gather_with_concurrency(
                None,  # one request a task: the worker bounds what is under way
                *(self._evaluator.score(task, list(pairs.by_task[task])) for task in tasks),
            )
        except EvaluatorFailed as error:
            raise CriticFailed(str(error), error.usage) from error
        scores = {
            (task, *pair): value
            for task, answer in zip(tasks, answers, strict=True)
            for pair, value in zip(pairs.by_task[task], answer.values, strict=True)
        }
        spent = sum((answer.usage for answer in answers), Usage(scored_pairs=len(scores)))
        return scores, spent


_Place = tuple[Task, str, str]


class _Pairs:
    """The pairs to be scored, by task, in the order they were added."""

    def __init__(self) -> None:
        self.by_task: dict[Task, dict[tuple[str, str], None]] = {}

    def add(self, task: Task, first: str, second: str) -> _Place:
        self.by_task.setdefault(task, {})[first, second] = None
        return task, first, second


class _Examined:
    """The pairs of one draft, and the judgement that their scores make."""

    def __init__(self, question: str, draft: Draft, pairs: _Pairs, bar: float) -> None:
        self._sentences, self._bar = sentences_of(draft), bar
        parts = subquestions_of(question)
        self._strips = [
            pairs.add("relevance", each, evaluator_text(strip, with_title=True))
            for each in dict.fromkeys([question, *parts])
            for strip in draft.knowledge
        ]
        self._support = [_support_of(it, question, draft, pairs) for it in self._sentences]
        self._utility = pairs.add("utility", question, without_markers(draft.answer_body))
        self._parts = {
            part: [pairs.add("utility", part, sentence.text) for sentence in self._sentences]
            for part in (parts if len(parts) > 1 else ())
        }

    def judgement(self, scores: dict[_Place, float | None]) -> Judgement:
        def best(places: Sequence[_Place]) -> float | None:
            return best_of(scores[place] for place in places)

        relevance = best(self._strips)
        judged = [
            (it.text, *_best_support(it, _known(by_strip, scores), self._bar))
            for it, by_strip in zip(self._sentences, self._support, strict=True)
        ]
        supports = tuple((text, support) for text, support, _ in judged if support is not None)
        coverage = {part: best(places) for part, places in self._parts.items()}
        uncovered = tuple(
            part for part, value in coverage.items() if value is not None and value < COVERED
        )
        return Judgement(
            relevance=None if relevance is None else (relevance + 1) / 2,
            support=mean_of(support for _, support in supports),
            utility=mean_of([scores[self._utility], mean_of(coverage.values())]),
            supports=supports,
            weak=tuple(text for text, support in supports if support < SUPPORTED),
            sources=tuple((text, source) for text, _, source in judged if source is not None),
            uncovered=uncovered,
        )


def sentences_of(draft: Draft) -> list[JudgedSentence]:
    """The draft's sentences; what is alone is no heading."""
    judged, spans = [], answer_sentences(draft.answer_body)
    for start, end in spans:
        line = draft.answer_body[start:end]
        cites = tuple(n for n in cited_numbers(line) or draft.cites if n <= len(draft.knowledge))
        if text := without_markers(line).strip():
            is_heading = not cites and len(spans) > 1 and _HEADING.fullmatch(text) is not None
            judged.append(JudgedSentence(text, cites, is_heading))
    return judged


def _support_of(
    sentence: JudgedSentence, question: str, draft: Draft, pairs: _Pairs
) -> dict[int, float | _Place]:
    """By the number of each strip that may carry it: its support, or the pair that will tell it.

    A quotation rests on what it cites. The values of a sentence that cites several strips may be
    spread over them.
    """
    text, strips = sentence.text, dict(enumerate(draft.knowledge, start=1))
    linked = [strip.source for strip in draft.knowledge]
    cited = {n: strips[n] for n in sentence.cites}
    if cited and draft.generator == EXTRACTIVE:
        strips = cited
    quoted = [n for n, strip in strips.items() if is_quoted(text, strip.full_text, linked)]
    support: dict[int, float | _Place] = dict.fromkeys(quoted, 1.0)
    if support.keys() & (cited or strips).keys():
        return support
    for n, strip in strips.items():
        if n in support:
            continue
        support[n] = 0.0
        if _may_support(text, cited.values() if n in cited else [strip]):
            support[n] = pairs.add("support", with_answer(question, text), strip.text)
    return support


def _known(
    by_strip: Mapping[int, float | _Place], scores: Mapping[_Place, float | None]
) -> dict[int, float]:
    """The support by each strip, in their order, as far as it is known."""
    values = ((n, it if isinstance(it, float) else scores[it]) for n, it in by_strip.items())
    return {n: value for n, value in sorted(values) if value is not None}


def _best_support(
    sentence: JudgedSentence, known: Mapping[int, float], bar: float
) -> tuple[float | None, int | None]:
    """The sentence's support, and its source where it cites none that supports it.

    What it cites counts where nothing is known of that, and where no strip reaches the bar.
    """
    own = best_of(known.get(n) for n in sentence.cites)
    best = max(known, key=lambda n: known[n], default=None)
    if best is None or (sentence.cites and (own is None or own >= SUPPORTED)):
        return own, None
    if sentence.cites and known[best] < bar:
        return own, None
    return known[best], best if known[best] >= bar and not sentence.is_heading else None


def _may_support(sentence: str, strips: Iterable[Strip]) -> bool:
    """Whether the sentence's numbers, code, paths, options and hosts all stand in the strips.

    And, in one language, any word of it that is none of grammar: a courtesy has none in common.
    """
    texts = (f"{strip.title}\n{strip.source}\n{strip.full_text}" for strip in strips)
    evidence = normalize("NFKC", "\n".join(texts))
    claim = normalize("NFKC", LIST_MARK.sub("", sentence)).replace("[.]", ".")  # inert hosts
    literals = filter(plain, _CODE_OR_PATH.findall(claim))
    return (
        (script_of(claim) != script_of(evidence) or bool(_terms_in(claim) & _terms_in(evidence)))
        and _numbers_in(claim) <= _numbers_in(evidence)
        and not unnamed_in(evidence, claim)
        and all(stands_in(literal, evidence) for literal in literals)
    )


def _terms_in(text: str) -> set[str]:
    return set(WORD.findall(text.casefold())) - SMALL_WORDS


def _numbers_in(text: str) -> set[str]:
    return {number.replace(",", "") for number in _NUMBER.findall(text)}


def criticism_of(question: str, judgement: Judgement) -> str:
    """What is held against a draft, a line each: weak sentences, then uncovered parts."""
    language = language_of(question)
    lines = [prompt("weak", language).render(sentence=text) for text in judgement.weak]
    lines += [prompt("uncovered", language).render(part=part) for part in judgement.uncovered]
    if not lines:
        is_supported = judgement.support is None or judgement.support >= SUPPORTED
        lines = [prompt("unhelpful" if is_supported else "unsupported", language).render()]
    return "\n".join(lines)
