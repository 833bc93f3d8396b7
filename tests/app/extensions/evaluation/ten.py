"""Ten questions and what came of them, small enough to be reckoned by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.extensions.evaluation.measures import Judged, Outcome, OutcomePassage, measured
from app.extensions.evaluation.questions import EvaluationQuestion
from app.extensions.evaluation.runner import Answered, EvaluationRequest, Variant
from app.schemas.ask import GradedStrip
from graphs.types import Action, AnswerSentence, Citation, Usage, Verdict


@dataclass(frozen=True)
class Told:
    """One question in short: passages are (source, text, grade, whether it was kept)."""

    question: str
    gold: Sequence[str]
    passages: Sequence[tuple[str, str, float, bool]]
    answer: str = ""
    action: Action | None = "correct"
    verdict: Verdict = "supported"
    sources: Sequence[str] = ()
    answerable: bool | None = None
    judged: Judged = field(default_factory=Judged)

    def asked(self, n: int) -> EvaluationQuestion:
        return EvaluationQuestion(
            id=f"q{n}",
            question=self.question,
            answers=list(self.gold),
            sources=list(self.sources),
            answerable=self.answerable,
        )

    def outcome(self) -> Outcome:
        return Outcome(
            answer=self.answer or "Nothing was found.",
            verdict=self.verdict if self.answer else "abstained",
            action=self.action,
            stopped_by="answered" if self.answer else "no_evidence",
            documents=[
                OutcomePassage(
                    id=str(n), source=source, title="", origin="internal", score=score, text=text
                )
                for n, (source, text, score, _) in enumerate(self.passages)
            ],
            strips=[
                GradedStrip(id=f"{n}.0", document_id=str(n), text=text, score=score, kept=kept)
                for n, (_, text, score, kept) in enumerate(self.passages)
            ],
            citations=[
                Citation(1, f"{n}.0", "internal", "", source, text, score)
                for n, (source, text, score, kept) in enumerate(self.passages)
                if kept and self.answer
            ][:1],
            sentences=[AnswerSentence(0, len(self.answer), None)] if self.answer else [],
            missing=[],
            usage=Usage(scored_pairs=10),
        )


LAMP = "The lamp burns whale oil."
PUMP = "水泵由林德女士在三月检修。"
OTHER = "The bell hangs in the tower."
SUPPORTED = Judged(
    context_relevancy=0.5, answer_relevancy=0.75, correctness=0.9, supports=[(1.0, {1: 1.0})]
)
UNSUPPORTED = SUPPORTED.model_copy(update={"supports": [(0.2, {1: 0.2})], "correctness": 0.1})

TEN = [
    # right, from the first passage
    Told("What does the lamp burn?", ["whale oil"],
         [("a.md", LAMP, 0.9, True), ("b.md", OTHER, -0.5, False)], "The lamp burns whale oil [1].",
         sources=["a.md"], judged=SUPPORTED),
    Told("水泵由谁检修？", ["林德女士"], [("泵.md", PUMP, 0.8, True)], "水泵由林德女士检修[1]。",
         sources=["泵.md"], judged=SUPPORTED),
    # right, but only the second passage holds it
    Told("What burns in the lamp?", ["whale oil"],
         [("b.md", OTHER, 0.7, True), ("a.md", LAMP, 0.6, True)], "Whale oil [1].",
         sources=["a.md"], judged=SUPPORTED),
    # the reader took the wrong passage
    Told("Which oil is in the lamp?", ["whale oil"],
         [("b.md", OTHER, 0.7, True), ("a.md", LAMP, 0.6, True)], "The bell hangs there [1].",
         sources=["a.md"], judged=UNSUPPORTED),
    # the judge dropped the strip that held it
    Told("What is burnt?", ["whale oil"],
         [("b.md", OTHER, 0.7, True), ("a.md", LAMP, -0.6, False)], "The bell hangs there [1].",
         sources=["a.md"], judged=UNSUPPORTED),
    # retrieval found nothing, and the action says so
    Told("Who mends the pump?", ["Ms Lind"], [("b.md", OTHER, -0.9, False)], action="incorrect",
         sources=["泵.md"]),
    # kept, yet refused: a needless search, too
    Told("Is it whale oil?", ["whale oil"], [("a.md", LAMP, 0.1, True)], action="ambiguous",
         sources=["a.md"]),
    # not in the documents: rightly refused, wrongly answered
    Told("Who wrote the opera?", [], [("b.md", OTHER, -0.9, False)], action="incorrect",
         answerable=False),
    Told("Who sang it?", [], [("b.md", OTHER, 0.9, True)], "The bell hangs there [1].",
         answerable=False, judged=UNSUPPORTED),
    # no gold at all
    Told("Why?", [], [("b.md", OTHER, 0.9, True)], "The bell hangs there [1].", judged=SUPPORTED),
]  # fmt: skip


def request(told: Sequence[Told] = TEN, names: Sequence[str] = ("crag",)) -> EvaluationRequest:
    return EvaluationRequest(
        questions=[each.asked(n) for n, each in enumerate(told)],
        variants=[Variant(name=name, workflow="crag") for name in names],
    )


def answers(told: Sequence[Told] = TEN, variant: str = "crag") -> list[Answered]:
    found = []
    for n, each in enumerate(told):
        question, outcome = each.asked(n), each.outcome()
        values = measured(question, outcome, each.judged)
        answered = Answered(question=question.id, variant=variant, outcome=outcome)
        found.append(answered.model_copy(update={"judged": each.judged, "measures": values}))
    return found


def changed(n: int, **fields: Any) -> list[Told]:
    """The ten with one of them told otherwise."""
    return [replace(each, **fields) if place == n else each for place, each in enumerate(TEN)]
