"""Questions as users put them, over manuals: is the passage with the fact among those graded?

    apt-get download PACKAGE...; dpkg -x each into a folder of PACKAGES
    python -m evaluator.data.manuals PACKAGES ROWS; selfcrag ingest 'PACKAGES/**/*.html'
    python -m benchmarks.retrieval.users ROWS/manual_train.jsonl.gz [--most 150]

Asks the knowledge base of the data folder, by each way to rerank, the questions of
evaluator/data/user_questions.jsonl whose pages it holds. Questions of the other sets were written
beside their passages and share their words; these were written not to.
"""

import argparse
import asyncio
import random
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, cast

from app.composition.services import open_services
from app.retrieval.retriever import HybridRetriever
from app.settings import Settings, load_settings
from benchmarks.report import FOLDER, measured_when, rows_of, say, table, write
from graphs.nodes.search import reordered
from graphs.options import Scope, Search
from graphs.ports import Services
from graphs.types import Passage

FIGURES = FOLDER / "retrieval_users.json"
EVERYWHERE = Scope(collections=())
DEPTH, GRADED = 50, 10
WAYS = (("none", 50), ("lexical", 50), ("similarity", 20), ("similarity", 30), ("similarity", 50))
"""Who reranks, and among how many passages."""
Figures = dict[str, Any]


async def measured(settings: Settings, rows: Sequence[Figures], most: int) -> Figures:
    """For each question the rank of the first passage with the fact, by each way; None: absent."""
    figures: Figures = {"questions": []}
    async with open_services(settings) as services:
        index = cast("HybridRetriever", services.retriever).index
        known = {document.source for document in await index.documents(EVERYWHERE)}
        asked = [(row, source) for row in rows if (source := _page(row, known))]
        figures |= {"documents": len(known), "chunks": await index.count(EVERYWHERE)}
        for language in ("en", "zh"):
            mine = [each for each in asked if each[0]["language"] == language]
            for row, source in random.Random(1).sample(mine, min(most, len(mine))):
                ranks = await _ranks(services, row, source)
                figures["questions"].append({"language": language, "ranks": ranks})
                say(f"{len(figures['questions'])} questions")
    return figures


def _page(row: Figures, sources: Collection[str]) -> str | None:
    """The document of a row, whose id is package/path below its folder/number of the entry."""
    path = row["id"].partition("/")[2].rpartition("/")[0]
    return next((source for source in sources if source.endswith(f"/{path}")), None)


async def _ranks(services: Services, row: Figures, source: str) -> list[int | None]:
    question, facts = row["user_question"], [_letters(fact) for fact in row["facts"]]
    passages = await services.retriever.retrieve(question, DEPTH, Search(scope=EVERYWHERE))
    gold = {
        passage.id
        for passage in passages
        if passage.source == source and any(fact in _letters(passage.text) for fact in facts)
    }
    orders = [await _reranked(services, question, passages[:most], name) for name, most in WAYS]
    return [
        next((rank for rank, passage in enumerate(order, 1) if passage.id in gold), None)
        for order in orders
    ]


async def _reranked(
    services: Services, question: str, passages: Sequence[Passage], by: str
) -> Sequence[Passage]:
    reranker = {"lexical": services.lexical, "similarity": services.similarity}.get(by)
    if reranker is None:
        return passages
    return reordered(passages, await reranker.rerank(question, passages, EVERYWHERE))


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def report(figures: Figures) -> str:
    lines = [
        "# Users' questions over manuals: which passages are graded",
        "",
        "    python -m benchmarks.retrieval.users ROWS/manual_train.jsonl.gz",
        "",
        figures["measured"],
        "",
        f"{figures['documents']} pages of Debian's manuals in {figures['chunks']} chunks. Found:"
        f" the passage with the fact is among the {GRADED} best; first: it is the best. Gained and"
        " lost: questions found by this way alone, or without reranking alone.",
        "",
    ]
    rows = []
    for language in ("en", "zh"):
        ranks = [each["ranks"] for each in figures["questions"] if each["language"] == language]
        found = [[rank is not None and rank <= GRADED for rank in row] for row in ranks]
        for way, (name, most) in enumerate(WAYS):
            pairs = [(row[0], row[way]) for row in found]
            rows.append((
                language, f"{name}, of {most}", len(ranks),
                f"{sum(row[way] for row in found) / len(ranks):.3f}",
                f"{sum(row[way] == 1 for row in ranks) / len(ranks):.3f}",
                pairs.count((False, True)), pairs.count((True, False)),
            ))  # fmt: skip
    head = ("language", "reranked by", "questions", "found", "first", "gained", "lost")
    return "\n".join([*lines, table(head, rows), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("rows", type=Path)
    parser.add_argument("--most", type=int, default=150, help="questions of a language")
    chosen = parser.parse_args()
    rows = [row for row in rows_of(chosen.rows) if row.get("user_question")]
    settings = load_settings(Settings, search="off")
    figures = asyncio.run(measured(settings, rows, chosen.most))
    write(FIGURES, {"measured": measured_when(), **figures}, report)


if __name__ == "__main__":
    main()
