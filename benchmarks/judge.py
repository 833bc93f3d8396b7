"""How far the judge of `selfcrag evaluate` agrees with labelled rows, in both languages.

    python -m benchmarks.judge DATA [--rows 200] [--judge evaluator|model]

English: rows of en_ares with labels for context relevance, faithfulness and answer relevance, of
passages that no training has seen. Chinese: rows made of zh_cmrc2018_dev, which is never trained
on: a passage beside its nearest other one, its answer beside one of another passage (neither
faithful nor relevant) and one of another question (quoted from the passage, but not relevant). The
judge reads what it reads in an evaluation: a whole outcome. Figures go to benchmarks/judge.json,
the page to benchmarks/judge.md.
"""

import argparse
import asyncio
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sklearn.metrics import accuracy_score, cohen_kappa_score, roc_auc_score

from app.composition.services import open_services
from app.extensions.evaluation.judge import Judge
from app.extensions.evaluation.measures import RIGHT, Judged, Outcome, OutcomePassage
from app.extensions.evaluation.questions import EvaluationQuestion
from app.extensions.evaluation.runner import judge_of
from app.extensions.evaluation.statistics import rounded
from app.schemas.ask import GradedStrip
from app.settings import Settings
from benchmarks.report import FOLDER, filled, rows_of, write
from evaluator.data.hard_negatives import WordNeighbours
from evaluator.data.records import held_back
from graphs.types import AnswerSentence, Usage

HELD_BACK_PERCENT, SEED = 6, 1
LABELS = ("context_relevant", "answer_faithful", "answer_relevant")
VERDICTS = {"SUPPORTS", "REFUTES", "yes", "no", "True", "False"}
page = partial(filled, "judge.md.j2")


@dataclass(frozen=True)
class Labelled:
    """An answer from one passage, and what its labels say; None where they say nothing."""

    question: str
    passage: str
    answer: str
    labels: dict[str, bool | None]


def english(data: Path) -> Iterator[Labelled]:
    """ARES: verdicts on claims and cloze texts are no questions and are left out."""
    for row in rows_of(data / "en_ares.jsonl.gz"):
        is_question = "@placeholder" not in row["question"] and row["question"].endswith("?")
        if held_back(row["passage"], HELD_BACK_PERCENT) and is_question:
            answer = row["answer"] if row["answer"] not in VERDICTS else ""
            yield Labelled(row["question"], row["passage"], answer, {k: row[k] for k in LABELS})


def chinese(data: Path) -> Iterator[Labelled]:
    """CMRC 2018: the gold passage and answer, another passage, an answer of another question."""
    rows = [row for row in rows_of(data / "zh_cmrc2018_dev.jsonl.gz") if row["answers"]]
    random.Random(SEED).shuffle(rows)
    nearest = WordNeighbours([row["passage"] for row in rows])
    found = nearest.nearest([row["question"] for row in rows[:2000]], 12)
    for row, numbers in zip(rows, found, strict=False):
        question, answer = row["question"], row["answers"][0]
        others = [rows[n] for n in numbers if rows[n]["passage"] != row["passage"]]
        others = [it for it in others if answer not in it["passage"]]
        beside = [
            it for it in rows if it["passage"] == row["passage"] and answer != it["answers"][0]
        ]
        if others:
            yield Labelled(question, row["passage"], answer, dict.fromkeys(LABELS, True))
            yield Labelled(question, others[0]["passage"], "", {"context_relevant": False})
        if others and beside:
            known = random.Random(question)
            strange = known.choice(others)["answers"][0]
            if strange not in row["passage"]:
                labels: dict[str, bool | None] = {
                    "answer_faithful": False,
                    "answer_relevant": False,
                }
                yield Labelled(question, row["passage"], strange, labels)
            wrong = known.choice(beside)["answers"][0]
            yield Labelled(question, row["passage"], wrong, {"answer_relevant": False})


async def judged(judge: Judge, rows: Sequence[Labelled]) -> list[Judged]:
    """Each as an evaluation would see it: one kept strip, one sentence."""
    found = []
    for row in rows:
        question = EvaluationQuestion(id="0", question=row.question)
        answer = row.answer or "-"
        outcome = Outcome(
            answer=answer,
            verdict="not_judged",
            action=None,
            stopped_by="answered",
            documents=[
                OutcomePassage(
                    id="1", source="", title="", origin="internal", score=0, text=row.passage
                )
            ],
            strips=[GradedStrip(id="1", document_id="1", text=row.passage, score=0, kept=True)],
            citations=[],
            sentences=[AnswerSentence(0, len(answer), None)],
            missing=[],
            usage=Usage(),
        )
        found.append((await judge.judge(question, outcome))[0])
    return found


def figures(rows: Sequence[Labelled], said: Sequence[Judged]) -> dict[str, Any]:
    """AUC of the measure, and kappa of its verdict, over the rows that have a label."""
    told = {
        "context_relevant": [(it.context_relevancy or 0.0, 0.0) for it in said],
        "answer_faithful": [(it.supports[0][0] if it.supports else 0.0, RIGHT) for it in said],
        "answer_relevant": [(it.answer_relevancy or 0.0, RIGHT) for it in said],
    }
    found = {}
    for label in LABELS:
        pairs = [
            (value, bar, bool(row.labels[label]))
            for row, (value, bar) in zip(rows, told[label], strict=True)
            if row.labels.get(label) is not None and (row.answer or label == "context_relevant")
        ]
        truth = [it for _, _, it in pairs]
        verdicts = [value > bar if bar == 0 else value >= bar for value, bar, _ in pairs]
        found[label] = {
            "n": len(pairs),
            "positive": sum(truth),
            "auc": rounded(roc_auc_score(truth, [value for value, _, _ in pairs])),
            "kappa": rounded(cohen_kappa_score(verdicts, truth)),
            "agree": rounded(accuracy_score(truth, verdicts)),
        }
    return found


async def measured(data: Path, most: int, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {"rows": most, "seed": SEED}
    async with open_services(Settings(search="off")) as services:
        judge = judge_of("model" if name == "model" else "evaluator", services)
        if judge is None:
            raise SystemExit("no language model is set: see SELFCRAG_GENERATOR")
        found["judge"] = judge.name
        for language, made in (("en", english), ("zh", chinese)):
            rows = list(made(data))
            random.Random(SEED).shuffle(rows)
            found[language] = figures(rows[:most], await judged(judge, rows[:most]))
            sys.stderr.write(f"{language}: {found[language]}\n")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--judge", choices=("evaluator", "model"), default="evaluator")
    given = parser.parse_args()
    found = asyncio.run(measured(given.data, given.rows, given.judge))
    write(FOLDER / "judge.json", found, page)


if __name__ == "__main__":
    main()
