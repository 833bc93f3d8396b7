"""Confidence: figures that its weights and bars rest on, from whole answers of `self_crag`.

    python -m benchmarks.confidence pages MANUALS OUT    (MANUALS: of evaluator/data/manuals.py)
    selfcrag ingest OUT/pages; selfcrag serve
    python -m benchmarks.confidence ask NAME QUESTIONS [--half HALF]    (into confidence.json)
    python -m benchmarks.confidence                                  (fits, writes confidence.md)

QUESTIONS are JSON lines of question, language, `covered` or `kind`, and `gold`, a pattern: those of
benchmarks/answers.jsonl, or OUT/questions.jsonl, which holds the user questions about the manuals'
entries (evaluator/data/user_questions.jsonl). `pages` leaves out every fourth page that is asked
about, so that its questions have no answer. Rows hold figures alone.
"""

import argparse
import json
import re
from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from benchmarks.answers import half_of
from benchmarks.evaluator.ratchet import digits, sign_test
from benchmarks.report import rows_of, table
from graphs.reflection import confidence as shipped
from graphs.reflection.confidence import readings_of
from graphs.text.citations import without_markers
from graphs.types import Citation, Passage, Strip

FIGURES = Path(__file__).with_suffix(".json")
FITTED = ("answers, tuned half", "users, tuned half")
"""The weights are fitted on these, and the bars chosen."""
VERDICTS = ("supported", "partly", "unsupported")
Row = dict[str, Any]


def lay_out(manuals: Path, out: Path) -> None:
    """Pages of manuals as Markdown, and the questions asked about them.

    Pages in Traditional Chinese, which say the same as those in Simplified, are left out.
    """
    pages: dict[tuple[str, str], list[Row]] = {}
    for row in rows_of(manuals):
        if not re.search("zh.tw", row["id"], re.I):
            pages.setdefault((row["package"], row["page"]), []).append(row)
    asked_about = {
        package for (package, _), own in pages.items() for row in own if row["user_question"]
    }
    out.mkdir(parents=True, exist_ok=True)
    with (out / "questions.jsonl").open("w", encoding="utf-8") as questions:
        for (package, page), own in pages.items():
            asked_here = [row for row in own if row["user_question"]]
            covered = sha256(f"gone {package}{page}".encode()).digest()[0] % 4 > 0
            if package in asked_about and (covered or not asked_here):
                path = out / "pages" / package / f"{page.replace('/', '_')}.md"
                path.parent.mkdir(parents=True, exist_ok=True)
                parts = (f"## {row['question']}\n\n{row['answer']}\n" for row in own)
                title = own[0]["title"].split(" › ")[0]
                path.write_text("\n".join((f"# {title}\n", *parts)), encoding="utf-8")
            for row in asked_here:
                line = {
                    "id": row["id"], "question": row["user_question"], "language": row["language"],
                    "covered": covered, "gold": "|".join(map(_pattern, row["facts"])),
                }  # fmt: skip
                questions.write(json.dumps(line, ensure_ascii=False) + "\n")


def _pattern(fact: str) -> str:
    return r"\s*".join(map(re.escape, "".join(fact.split())))


def drawn(questions: Path, most: int, half: str = "both") -> list[Row]:
    """At most so many of a language, covered ones and others apart."""
    groups: dict[tuple[str, bool], list[Row]] = {}
    rows = [row for row in rows_of(questions) if half in ("both", half_of(row["id"]))]
    for row in sorted(rows, key=lambda row: sha256(row["id"].encode()).digest()):
        covered = row.get("covered", row.get("kind") != "uncovered")
        groups.setdefault((row["language"], covered), []).append(row | {"covered": covered})
    return [row for group in groups.values() for row in group[:most]]


def asked(client: httpx.Client, name: str, question: Row) -> Row:
    """One question by `self_crag`, without the web, as figures."""
    options = {"web": "never", "deadline_ms": 120_000}
    reply = client.post("/ask", json={"question": question["question"], "options": options})
    return figures_of(name, question, reply.raise_for_status().json())


def figures_of(name: str, question: Row, body: Row) -> Row:
    """What is kept of an answer; `right` says that it holds the fact."""
    passages = [
        Passage(each["id"], "", "", "", relevance=each["score"], similarity=0.0)
        for each in body["documents"]
    ]
    strips = [
        Strip(each["id"], each["document_id"], "", "", "", "internal", (0, 0))
        for each in body["strips"]
    ]
    answered = bool(body["citations"])
    quoted = without_markers(body["answer"])
    is_right = re.search(question["gold"] or "(?!)", quoted, re.I) is not None
    readings = readings_of([Citation(**each) for each in body["citations"]], passages, strips)
    return {
        "set": name,
        "question": sha256(f"{question['id']} {question['question']}".encode()).hexdigest()[:8],
        "language": question["language"],
        "covered": question["covered"],
        "answered": answered,
        "right": answered and question["covered"] and is_right,
        "readings": readings and [round(value, 4) for value in readings],
    }


def fit(rows: Sequence[Row]) -> tuple[float, float, float]:
    """Both weights and the shift of the logistic regression of right answers on their readings."""
    fitted = [row for row in rows if row["readings"] and row["set"] in FITTED]
    regression = LogisticRegression(C=1e6).fit(
        [row["readings"] for row in fitted], [row["right"] for row in fitted]
    )
    standing, grade = map(float, regression.coef_[0])
    return standing, grade, float(regression.intercept_[0])


def report(rows: Sequence[Row]) -> str:
    judged = [row for row in rows if row["readings"]]
    fitted = [row for row in judged if row["set"] in FITTED]
    # Some users' questions of the fitted set were asked again by table and by e5.
    unseen = [row for row in judged if row["set"].endswith("reported half")]
    weights = fit(rows)
    lines = []
    for (name, language), cell in [
        *_cells(judged), (("fitted on", "both"), fitted), (("reported halves", "both"), unseen)
    ]:  # fmt: skip
        right = np.array([row["right"] for row in cell])
        readings = np.array([row["readings"] for row in cell])
        evidence = readings @ (shipped.STANDING, shipped.GRADE) + shipped.SHIFT
        likely = 1 / (1 + np.exp(-evidence))
        bars = (np.inf, shipped.SUPPORTED, shipped.PARTLY, -np.inf)
        bands = [right[(likely >= low) & (likely < high)] for high, low in pairwise(bars)]
        shares = (f"{band.sum()}/{len(band)}" for band in bands)
        auc = f"{roc_auc_score(right, likely):.3f}" if len(set(right)) == 2 else "-"
        lines.append([name, language, len(cell), f"{right.mean():.2f}", auc, *shares])
    answers = [
        [name, language, *(_share(cell, covered, key) for covered, key in (
            (True, "right"), (True, "answered"), (False, "answered")))]
        for (name, language), cell in _cells(rows)
    ]  # fmt: skip
    return f"""# Confidence of `self_crag`

Whole answers without the web. Right is an answer that holds the fact, word by word: of users'
questions some of the others are right in other words. Users' questions are about manuals whose
packages training never reads. Sets "before" are answers of the weights before, to other draws of
users' questions. Sets "by e5" and "by table" are answers over the same pages, found by e5 as it
ships and by the static table, which was asked a part of the questions; in these alone citation
markers within the fact do not count against it.

{table(("set", "language", "right", "answered", "not covered, yet answered"), answers)}

The same questions, found by table and by e5: right of those covered, abstained of the others, and
the one-sided sign test.

{table(("language", "", "questions", "table", "e5", "gained : lost", "p"), _paired(rows))}

Fitted on {len(fitted)} answers: standing {weights[0]:.3f}, grade {weights[1]:.3f}, shift
{weights[2]:.3f}. AUC: right answers against others. Then right answers by the verdict that the
confidence allows.

{table(("set", "language", "answers", "right", "AUC", *VERDICTS), lines)}
"""


def _paired(rows: Sequence[Row]) -> list[list[Any]]:
    """What e5 gains and loses, both halves together."""
    by_table, by_e5 = (
        {row["question"]: row for row in rows if row["set"].startswith(f"users by {name}, ")}
        for name in ("table", "e5")
    )
    lines = list[list[Any]]()
    for language, covered in product(("en", "zh", ""), (True, False)):
        both = [
            tuple(row["right"] if covered else not row["answered"] for row in (before, by_e5[name]))
            for name, before in by_table.items()
            if language in before["language"] and before["covered"] == covered and name in by_e5
        ]
        if not both:
            continue
        former, now = zip(*both, strict=True)
        # Seen from e5: the chance of as many gains, were both alike.
        lost, gained, chance = sign_test(digits(now), digits(former))
        kind = "covered: right" if covered else "not covered: abstained"
        shares = [sum(former), sum(now), f"{gained} : {lost}", f"{chance:.3f}"]
        lines.append([language or "both", kind, len(both), *shares])
    return lines


def _share(cell: Sequence[Row], covered: bool, key: str) -> str:
    of_kind = [row[key] for row in cell if row["covered"] == covered]
    return f"{sum(of_kind)}/{len(of_kind)}"


def _cells(rows: Sequence[Row]) -> list[tuple[tuple[str, str], list[Row]]]:
    names = sorted({(row["set"], row["language"]) for row in rows})
    return [
        (name, [row for row in rows if (row["set"], row["language"]) == name]) for name in names
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command")
    pages = commands.add_parser("pages")
    pages.add_argument("manuals", type=Path)
    pages.add_argument("out", type=Path)
    ask = commands.add_parser("ask")
    ask.add_argument("name")
    ask.add_argument("questions", type=Path)
    ask.add_argument("--most", type=int, default=50, help="questions a language, covered or not")
    ask.add_argument("--half", choices=("tuned", "reported", "both"), default="both")
    ask.add_argument("--url", default="http://127.0.0.1:8000")
    chosen = parser.parse_args()
    if chosen.command == "pages":
        lay_out(chosen.manuals, chosen.out)
        return
    rows: list[Row] = json.loads(FIGURES.read_text("utf-8"))
    if chosen.command == "ask":
        with httpx.Client(base_url=chosen.url, timeout=180, trust_env=False) as client:
            questions = drawn(chosen.questions, chosen.most, chosen.half)
            rows = [row for row in rows if row["set"] != chosen.name]
            rows += [asked(client, chosen.name, question) for question in questions]
        text = ",\n".join(f" {json.dumps(row)}" for row in rows)
        FIGURES.write_text(f"[\n{text}\n]\n", "utf-8")
    FIGURES.with_suffix(".md").write_text(report(rows), "utf-8")


if __name__ == "__main__":
    main()
