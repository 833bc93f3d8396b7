"""Follow-up questions about the handbook: does retrieval find what is meant?

    python -m benchmarks.retrieval.follow_ups [--half first|second|both] [--tell]

The handbook is indexed as `make run` does it. For each language: the share of questions whose first
five passages hold one of an accepted page, asked (a) as they stand, (b) with the question before
them, by rule, (c) in both forms, ranks fused, (d) as a person wrote them out; and how many new
topics were left as they are. Rules may be tuned on the first half alone.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import TypedDict

from app.composition.embedder import open_retriever
from app.ingest.pipeline import ingest
from app.retrieval.retriever import HybridRetriever
from benchmarks.report import FOLDER
from graphs.nodes.search import fused
from graphs.text.questions import standalone
from graphs.types import Message

WITHIN = 5


class FollowUp(TypedDict):
    """`standalone` is `question` itself where a new topic begins."""

    history: list[Message]
    question: str
    standalone: str
    sources: list[str]


def follow_ups(language: str, half: str) -> list[FollowUp]:
    file = FOLDER / f"follow_ups_{language}.json"
    rows: list[FollowUp] = json.loads(file.read_text(encoding="utf-8"))
    middle = len(rows) // 2
    return {"first": rows[:middle], "second": rows[middle:], "both": rows}[half]


async def opened(folder: Path, *, rebuild: bool) -> HybridRetriever:
    """The handbook's index, read anew unless it stands in `folder` already."""
    retriever = await open_retriever(folder)
    if rebuild:
        await ingest([Path("docs")], retriever.index, retriever.segmenter)
    return retriever


async def is_found(retriever: HybridRetriever, forms: list[str], sources: list[str]) -> bool:
    rankings = [await retriever.retrieve(form, 10) for form in dict.fromkeys(forms)]
    return any(passage.source in sources for passage in fused(rankings)[:WITHIN])


async def measured(language: str, half: str, retriever: HybridRetriever, *, tell: bool) -> str:
    rows = follow_ups(language, half)
    changes = [row for row in rows if row["question"] == row["standalone"]]
    found = {"as asked": 0, "by rule": 0, "both forms": 0, "written out": 0}
    kept = 0
    for row in rows:
        question, made = row["question"], standalone(row["question"], row["history"])
        kept += row in changes and made is None
        by_rule = made or question
        asked = ([question], [by_rule], [question, by_rule], [row["standalone"]])
        hits = [await is_found(retriever, forms, row["sources"]) for forms in asked]
        for name, hit in zip(found, hits, strict=True):
            found[name] += row not in changes and hit
        if tell and (not hits[1] or (row in changes) != (made is None)):
            sys.stdout.write(f"{hits}  {row['question']}  ->  {made}\n")
    many = len(rows) - len(changes)
    told = ", ".join(f"{name} {hits}/{many} ({hits / many:.0%})" for name, hits in found.items())
    return f"{language}, {half}: {told}; new topics left alone {kept}/{len(changes)}"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--half", choices=("first", "second", "both"), default="both")
    parser.add_argument(
        "--tell", action="store_true", help="what is not found, question by question"
    )
    parser.add_argument("--index", type=Path, help="folder to keep the index in")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept: Path = options.index or Path(folder)
        retriever = await opened(kept, rebuild=not (kept / "index").exists())
        for language in ("en", "zh"):
            told = await measured(language, options.half, retriever, tell=options.tell)
            sys.stdout.write(f"{told}\n")


if __name__ == "__main__":
    asyncio.run(main())
