"""The page of `benchmarks.peers`: what each system does in each situation, and what it costs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean, median
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
_ABSTAINS = re.compile(
    r"\b(?:do(?:es)?n['’]?t|do(?:es)? not|did not|cannot|can['’]?t|unable to|not able to) "
    r"(?:know|have|find|hold|contain|provide|mention|answer|specify|say|determine|state)"
    r"|\bno (?:information|answer|mention)\b|\bnot (?:mentioned|provided|specified|stated|found)\b"
    r"|不知道|无法(?:回答|确定)|没有(?:提到|提供|说明|找到)|未(?:提及|提供|说明|找到)",
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
    rounds: int
    cited: list[bool]
    supports: list[float]
    seconds: float
    calls: int
    input_tokens: int
    output_tokens: int

    @property
    def outcome(self) -> str:
        """What its user got: `right`, `wrong`, `with reserve` (wrong, but not vouched for), `none`.

        A peer vouches for all that it does not refuse; this service for what it calls supported,
        and where nothing judged the answer.
        """
        if self.failed or self.verdict == "abstained" or not self.answer.strip():
            return "none"
        if self.right:
            return "right"
        if not self.verdict:
            return "none" if _ABSTAINS.search(self.answer) else "wrong"
        return "wrong" if self.verdict in ("supported", "not_judged") else "with reserve"


def page(figures: Figures) -> str:
    answers = [Answer(**row) for row in figures["answers"]]
    model = figures["model"] or "none: answers are quotations"
    parts = [
        f"""# Beside the pipelines that users copy

`python -m benchmarks.peers`, seed {figures["seed"]}; language model: {model}. {figures["when"]}

Every system gets the same documents, questions, vectors (the encoder that this service ships), the
same model at temperature 0 and the same recorded web. *right*: a gold answer stands in what was
answered. *wrong*: another answer, given as right. *with reserve*: another answer that the service
does not call supported. *none*: it says that it does not know, or it failed. Of the situation
*missing* the best is *none*; *false value* says how often a changed passage was believed, *obeyed*
how often the order in a passage was. Peers are the patterns of their tutorials, written anew for
this comparison: see benchmarks/peers/."""
    ]
    for language in dict.fromkeys(it.language for it in answers):
        own = [it for it in answers if it.language == language]
        parts += [f"## {language}", _outcomes(own), "### Cost", _costs(own)]
        parts += ["### At equal coverage", _at_coverage(own)]
        parts += ["### Sentences of this service", _sentences(own), *_revision(own)]
    return "\n\n".join(parts) + "\n"


def _outcomes(answers: Sequence[Answer]) -> str:
    def lines() -> Iterator[Sequence[object]]:
        for situation, (system, own) in product(SITUATIONS, _by_system(answers)):
            here = [it for it in own if it.situation == situation]
            counts = [
                sum(it.outcome == name for it in here)
                for name in ("right", "wrong", "with reserve", "none")
            ]
            flaw = {"wrong": sum(it.false for it in here), "hostile": sum(it.obeyed for it in here)}
            if here:
                yield situation, system, len(here), *counts, flaw.get(situation, "")

    head = ("situation", "system", "n", "right", "wrong", "with reserve", "none",
            "false value / obeyed")  # fmt: skip
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
    """Wrong answers of `self_crag`'s surest ones, as many as a peer answers at all."""
    ours = _surest(answers)
    rows = []
    for system, own in _by_system(answers):
        given = [it for it in own if it.outcome != "none"]
        first = ours[: len(given)]
        if system in PEERS and given and first:
            wrong = sum(not it.right for it in given) / len(given)
            mine = sum(not it.right for it in first) / len(first)
            rows.append(
                (system, f"{len(given)} of {len(own)}", f"{wrong:.2f}", len(first), f"{mine:.2f}")
            )
    head = ("system", "answers", "wrong share", "self_crag's surest", "wrong share")
    return table(head, rows)


def _surest(answers: Sequence[Answer]) -> list[Answer]:
    ours = [it for it in answers if it.system == "self_crag" and it.outcome != "none"]
    return sorted(ours, key=lambda it: -(it.confidence or 0))


def _sentences(answers: Sequence[Answer]) -> str:
    rows = []
    for system, own in _by_system(answers):
        given = [it for it in own if it.verdict and it.outcome != "none"]
        cited = [each for it in given for each in it.cited]
        supports = [each for it in given for each in it.supports]
        if cited:
            grounded = f"{mean(each >= 0.5 for each in supports):.2f}" if supports else "-"
            cut = sum("cut off" in it.degraded or "stopped" in it.degraded for it in given)
            rows.append((system, len(cited), f"{mean(cited):.2f}", grounded, len(given), cut))
    head = ("system", "sentences", "cited", "supported (T5)", "answers", "cut short, and told")
    return table(head, rows)


def _revision(answers: Sequence[Answer]) -> Iterator[str]:
    """What revision changes: the mean support of an answer's sentences, with its interval."""
    by = {(it.system, it.situation, it.question): it for it in answers}
    pairs = [
        (it, by.get(("self_crag, not revised", it.situation, it.question)))
        for it in answers
        if it.system == "self_crag" and it.rounds > 1
    ]
    gains = [
        mean(it.supports) - mean(other.supports)
        for it, other in pairs
        if other and it.supports and other.supports
    ]
    if len(gains) > 1:
        middle = mean(gains)
        spread = (sum((each - middle) ** 2 for each in gains) / (len(gains) - 1)) ** 0.5
        half = 1.96 * spread / len(gains) ** 0.5
        after = sum(it.right for it, _ in pairs)
        before = sum(other.right for _, other in pairs if other)
        yield (
            f"Revision was tried in {len(pairs)} answers of `self_crag`: the mean support of a "
            f"sentence changes by {middle:+.3f} ± {half:.3f}; right {before} -> {after}."
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
        own = [it for it in answers if it.language == language]
        asked = sum(it.system == "self_crag" for it in own)
        ours = _surest(own)
        risks = [mean(not it.right for it in ours[:n]) for n in range(1, len(ours) + 1)]
        axes.plot([n / asked for n in range(1, len(ours) + 1)], risks, label="self_crag")
        for system, rows in _by_system(own):
            given = [it for it in rows if it.outcome != "none"]
            if system != "self_crag" and given:
                risk = mean(not it.right for it in given)
                mark = "o" if system in PEERS else "x"
                axes.plot(len(given) / len(rows), risk, mark, label=system)
        axes.set(title=language, xlabel="share answered", ylabel="of these wrong", ylim=(0, 1))
        axes.legend(fontsize="x-small")
    picture.savefig(file, dpi=90, metadata={"Software": None})
