"""Users' feedback as rows to train and calibrate the evaluator with.

A row is a labelled pair as the evaluator reads it: question, passage, label, and the answer with
its score. The strips that a good answer cites answer the question, those of a bad one do not; but
a strip that holds the corrected answer does, whether it was cited or not. A follow-up's question
is the one that stands alone: it is the one the evaluator was asked.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]
_MARK = re.compile(r"(?<!\s)\s*\[\d+\]")


def training_rows(judged: Iterable[tuple[Row, Row]]) -> list[dict[str, Any]]:
    """Of (feedback with its question, answer); a score of 0 says nothing.

    Later feedback on a pair wins.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for feedback, asked in judged:
        for row in _rows(feedback, asked):
            found[row["question"], row["passage"]] = row
    return list(found.values())


def _rows(feedback: Row, asked: Row) -> Iterable[dict[str, Any]]:
    question = asked.get("standalone_question") or feedback["question"]
    score, corrected = feedback["score"], feedback["corrected_answer"] or ""
    cited = {citation["text"]: citation["title"] for citation in asked["citations"]}
    titles = {document["id"]: document["title"] for document in asked["documents"]}
    others = {strip["text"]: titles.get(strip["document_id"], "") for strip in asked["strips"]}
    for passage, title in {**others, **cited}.items():
        holds_it = bool(corrected) and _plain(corrected) in _plain(passage)
        if not holds_it and (passage not in cited or score == 0):
            continue
        good = holds_it or score > 0
        yield {
            "question": question,
            "title": title,
            "passage": passage,
            "label": good,
            "answer": corrected or _MARK.sub("", asked["answer"]),
            "score": 1.0 if corrected and good else score,
        }


def _plain(text: str) -> str:
    """Letters and digits alone, so that case, blanks and punctuation do not tell apart."""
    return "".join(sign for sign in text.casefold() if sign.isalnum())
