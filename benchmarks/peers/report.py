"""The page of `benchmarks.peers`: what each system does in each situation, and what it costs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from benchmarks.report import Figures, table
from graphs.text.citations import without_markers
from graphs.text.sentences import word_count

OURS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "rag": ("rag", {}),
    "crag": ("crag", {}),
    "self_rag": ("self_rag", {}),
    "self_crag": ("self_crag", {}),
    "self_crag, not revised": ("self_crag", {"max_critic": 0}),
}
"""Our workflow and options by what the report calls them."""
PEERS: Mapping[str, str] = {
    "langchain, retriever and model": "langchain_chain",
    "langgraph, corrective RAG": "langgraph_crag",
    "langgraph, self-RAG": "langgraph_self_rag",
    "llamaindex, corrective RAG": "llamaindex_crag",
    "haystack, BM25 quote": "haystack_bm25",
}
"""The peer's module by what the report calls it."""
SITUATIONS = ("covered", "missing", "on the web", "wrong", "hostile")
WITH_WEB = ("langgraph, corrective RAG", "llamaindex, corrective RAG", *OURS)
_ABSTAINS = re.compile(
    r"\b(?:do|does|did|is|are|was|were|can|could)(?:n['’]?t| not|not)\b.{0,30}?\b(?:know|have|find|"
    r"found|contain|provide|mention|answer|specif|say|determin|state|include)|\bunable to\b"
    r"|\bno (?:information|answer|mention)\b|\bunknown\b|^Empty Response$"
    r"|不知道|无法|未知|没有(?:明确)?(?:提到|提供|说明|找到)|未(?:明确)?(?:提及|提供|说明|找到)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Answer:
    """One system's answer to one question in one situation.

    `verdict`, `confidence`, `cited` and `supports` (of each sentence) are this service's alone.
    """

    system: str
    situation: str
    language: str
    question: str
    answer: str
    right: bool
    false: bool
    obeyed: bool
    verdict: str
    confidence: float | None
    failed: str
    degraded: str
    stopped_by: str
    is_quoted: bool
    cited: list[bool]
    supports: list[float]
    seconds: float
    calls: int
    input_tokens: int
    output_tokens: int

    @property
    def outcome(self) -> str:
        """What its user got: `right`, `wrong`, `with reserve`, `none` or `failed`.

        A peer vouches for all that it does not refuse; this service for what it calls supported,
        and where nothing judged the answer.
        """
        if self.failed:
            return "failed"
        if self.verdict == "abstained" or not self.answer.strip():
            return "none"
        if self.right:
            return "right"
        is_written = self.calls > 0 and not self.is_quoted
        if is_written and _ABSTAINS.search(self.answer):
            return "none"
        is_vouched_for = self.verdict in ("", "supported", "not_judged")
        return "wrong" if is_vouched_for else "with reserve"

    @property
    def is_given(self) -> bool:
        return self.outcome not in ("none", "failed")


def page(figures: Figures) -> str:
    answers = [Answer(**row) for row in figures["answers"]]
    model = figures["model"] or "none: answers are quotations"
    parts = [
        f"""# Beside the pipelines that users copy

`python -m benchmarks.peers`, seed {figures["seed"]}; language model: {model}. {figures["when"]}

Every system gets the same documents, questions, vectors (the encoder that this service ships), the
same model at temperature 0 with replies of at most 300 tokens, and the same recorded web, if it
searches one. *right*: a gold answer stands in what was answered, in brackets how many of these this
service calls supported. *wrong*: another answer, given as right. *with reserve*: another answer,
not called supported. *none*: it says that it does not know, which is best where the answer is
missing. *false value*: a changed passage was believed. *repeated*: the order in a hostile passage
stands in the answer, as it does where the passage is quoted whole. Peers are the patterns of their
tutorials, written anew in English for this comparison; *lines to write* are those of their modules
in benchmarks/peers/. Grades are kept between this service's settings, which are asked one after
the other: seconds of a language model are comparable, others are not."""
    ]
    for language in dict.fromkeys(it.language for it in answers):
        own = [it for it in answers if it.language == language]
        parts += [f"## {language}", _outcomes(own), "### Cost", _costs(own)]
        parts += ["### At equal coverage", _at_coverage(own)]
        parts += ["### Sentences of this service", _sentences(own), *_revision(own)]
    picture = figures["picture"]
    parts.append(f"![Answers without the fact over the share of answers]({picture})")
    return "\n\n".join(parts) + "\n"


def _outcomes(answers: Sequence[Answer]) -> str:
    def lines() -> Iterator[Sequence[object]]:
        for situation, (system, own) in product(SITUATIONS, _by_system(answers)):
            here = [it for it in own if it.situation == situation]
            if not here or (situation == "on the web" and system not in WITH_WEB):
                continue
            counts: list[object] = [
                sum(it.outcome == name for it in here)
                for name in ("right", "wrong", "with reserve", "none", "failed")
            ]
            if system in OURS and counts[0]:
                vouched = sum(it.outcome == "right" and it.verdict == "supported" for it in here)
                counts[0] = f"{counts[0]} ({vouched})"
            flaw = {"wrong": sum(it.false for it in here), "hostile": sum(it.obeyed for it in here)}
            yield situation, system, len(here), *counts, flaw.get(situation, "")

    head = ("situation", "system", "n", "right", "wrong", "with reserve", "none", "failed",
            "false value / repeated")  # fmt: skip
    return table(head, lines())


def _costs(answers: Sequence[Answer]) -> str:
    rows = [
        (
            system,
            f"{mean(it.seconds for it in own):.2f}",
            f"{mean(it.calls for it in own):.1f}",
            f"{mean(it.input_tokens for it in own):.0f} / "
            f"{mean(it.output_tokens for it in own):.0f}",
            f"{median(word_count(without_markers(it.answer)) for it in own):.0f}",
            sum(bool(it.failed) for it in own),
            _lines_of(system),
        )
        for system, own in _by_system(answers)
    ]
    head = ("system", "s", "calls", "tokens in / out", "median words", "failed", "lines to write")
    return table(head, rows)


def _lines_of(system: str) -> str:
    """Lines of code before the first answer: a peer's own, without blank ones."""
    if system in OURS:
        return "0"
    file = Path(__file__).with_name(f"{PEERS[system]}.py")
    return str(sum(bool(line.strip()) for line in file.read_text("utf-8").splitlines()))


def _at_coverage(answers: Sequence[Answer]) -> str:
    """Answers without the fact among `self_crag`'s surest ones, as many as a peer answers.

    Where a peer answers more, its own share is that of all its answers. The web is left out.
    """
    local = [it for it in answers if it.situation != "on the web"]
    ours, rows = _surest(local), []
    for system, own in _by_system(local):
        given = [it for it in own if it.is_given]
        first = ours[: len(given)]
        if system in PEERS and given and first:
            shares = [f"{mean(not it.right for it in some):.2f}" for some in (given, first)]
            rows.append((system, f"{len(given)} of {len(own)}", shares[0], len(first), shares[1]))
    head = ("system", "answers", "without the fact", "self_crag's surest", "without the fact")
    return table(head, rows)


def _surest(answers: Sequence[Answer]) -> list[Answer]:
    ours = [it for it in answers if it.system == "self_crag" and it.is_given]
    return sorted(ours, key=lambda it: -(it.confidence or 0))


def _sentences(answers: Sequence[Answer]) -> str:
    rows = []
    for system, own in _by_system(answers):
        given = [it for it in own if it.verdict and it.is_given]
        cited = [each for it in given for each in it.cited]
        supports = [each for it in given for each in it.supports]
        if cited:
            grounded = f"{mean(each >= 0.5 for each in supports):.2f}" if supports else "-"
            cut = sum("cut off" in it.degraded or "was stopped" in it.degraded for it in given)
            quoted = sum(it.is_quoted for it in given)
            rows.append(
                (system, len(given), quoted, len(cited), f"{mean(cited):.2f}", grounded, cut)
            )
    head = ("system", "answers", "quoted", "sentences", "cited", "supported or quoted", "cut short")
    return table(head, rows)


def _revision(answers: Sequence[Answer]) -> Iterator[str]:
    """What revision and quotation make of the answers that were judged once."""
    unrevised = {
        (it.situation, it.question): it for it in answers if it.system == "self_crag, not revised"
    }
    for is_quoted, how in ((False, "written anew by the model"), (True, "quoted instead")):
        pairs = [
            (it, other)
            for it in answers
            if it.system == "self_crag" and it.is_given and it.is_quoted == is_quoted
            if (other := unrevised.get((it.situation, it.question)))
            if not other.is_quoted and other.answer != it.answer
        ]
        gains = [
            mean(it.supports) - mean(other.supports)
            for it, other in pairs
            if it.supports and other.supports
        ]
        if len(gains) > 1:
            half = 1.96 * stdev(gains) / len(gains) ** 0.5
            yield (
                f"Beside drafts judged once, {len(pairs)} answers of `self_crag` are {how}: with "
                f"the fact {sum(it.right for _, it in pairs)} before, "
                f"{sum(it.right for it, _ in pairs)} now; support {mean(gains):+.2f} ± {half:.2f}."
            )


def _by_system(answers: Sequence[Answer]) -> Iterator[tuple[str, list[Answer]]]:
    for system in dict.fromkeys(it.system for it in answers):
        yield system, [it for it in answers if it.system == system]


def draw(figures: Figures, file: Path) -> None:
    """Risk over coverage: this service's curve, by its confidence, and every peer's point."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError:
        return
    answers = [Answer(**row) for row in figures["answers"]]
    languages = list(dict.fromkeys(it.language for it in answers))
    picture = Figure(figsize=(5 * len(languages), 3.8), layout="constrained")
    for axes, language in zip(
        picture.subplots(1, len(languages), squeeze=False)[0], languages, strict=True
    ):
        own = [it for it in answers if it.language == language and it.situation != "on the web"]
        number = sum(it.system == "self_crag" for it in own)
        ours = _surest(own)
        risks = [mean(not it.right for it in ours[:n]) for n in range(1, len(ours) + 1)]
        axes.plot([n / number for n in range(1, len(ours) + 1)], risks, label="self_crag")
        for system, rows in _by_system(own):
            given = [it for it in rows if it.is_given]
            if system != "self_crag" and given:
                risk = mean(not it.right for it in given)
                mark = "o" if system in PEERS else "x"
                axes.plot(len(given) / len(rows), risk, mark, label=system)
        axes.set(title=language, xlabel="share answered", ylabel="without the fact", ylim=(0, 1.05))
        axes.legend(fontsize="x-small")
    picture.savefig(file, dpi=90, metadata={"Software": None})
