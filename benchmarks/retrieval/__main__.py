"""What every way of searching finds, and how long it takes; beside a plain LangChain pipeline.

    python -m benchmarks.retrieval DATA [--most 300] [--only search rerank embedders e5 plain]
        [--sets bench_en_qed zh_cmrc2018_dev manuals_en manuals_zh users_en users_zh]

Questions of QED among Wikipedia passages, of CMRC among news: each is to find the passage it was
written for. The sets of manuals, read from DATA/manual_held.jsonl.gz, are measured where they are
named; `users_` asks about their entries in users' own words. Documents are cut, indexed and
searched by the service's own code. `--most` bounds the questions of all sections but `search`,
which takes 500. `plain` needs the extra `bench`, `embedders` and `plain` the extra `train`. Figures
go to benchmarks/retrieval.json and benchmarks/retrieval.md.
"""

import argparse
import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from app.ingest.chunker import Chunking
from app.retrieval.embedder import StaticEmbedder
from app.retrieval.tokenizer import Segmenter
from benchmarks.report import FOLDER, Figures, filled, write
from benchmarks.retrieval.base import by_search, knowledge_base, told
from benchmarks.retrieval.parts import beside_plain, other_embedder, reranked, with_e5
from benchmarks.retrieval.sets import MANUALS, REPORTED, Material, ahead_by, material
from graphs.options import Scope, Search

report = partial(filled, "retrieval/report.md.j2")
FIGURES = FOLDER / "retrieval.json"
CHUNKINGS = (Chunking("sentence"), Chunking("small_to_big"), Chunking("sliding_window"))
SEARCHES = {
    "BM25": Search(mode="bm25"),
    "dense": Search(mode="dense"),
    "hybrid": Search(),
    "hybrid, alpha 0.3": Search(alpha=0.3),
    "hybrid, reciprocal ranks": Search(fusion="rrf"),
}
Measuring = Callable[[Material, int, StaticEmbedder, Segmenter], Awaitable[Figures]]


SEARCHED = 500


async def searched(found: Material, _: int, embedder: StaticEmbedder, words: Segmenter) -> Figures:
    """Every search over every way of cutting."""
    figures: Figures = {}
    for chunking in CHUNKINGS:
        async with knowledge_base(found, embedder, words, chunking) as (retriever, built_s):
            rows = {
                name: await told(by_search(retriever, search), found.some(SEARCHED))
                for name, search in SEARCHES.items()
            }
            chunks = await retriever.index.count(Scope())
        part = {"rows": rows, "base": "BM25", "chunks": chunks, "built_s": built_s}
        figures[chunking.method] = compared(part)
    return figures


def compared(part: Figures) -> Figures:
    """Instead of single gains, the interval of each row's difference from the base row."""
    rows: dict[str, Figures] = part["rows"]
    theirs = rows[part["base"]]["gains"]
    for row in rows.values():
        row["ahead"] = ahead_by(row["gains"], theirs)
    for row in rows.values():
        del row["gains"]
    return part


def on_some(measuring: Measuring) -> Measuring:
    async def measure(
        found: Material, most: int, embedder: StaticEmbedder, words: Segmenter
    ) -> Figures:
        return compared(await measuring(found, most, embedder, words))

    return measure


SECTIONS: dict[str, Measuring] = {
    "search": searched,
    "rerank": on_some(reranked),
    "embedders": on_some(other_embedder),
    "e5": on_some(with_e5),
    "plain": on_some(beside_plain),
}


async def main() -> None:
    chosen = arguments()
    figures: Figures = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {"sets": {}}
    segmenter = Segmenter()
    embedder = StaticEmbedder(segmenter)
    embedder.load()
    figures |= {
        "command": "python -m benchmarks.retrieval DATA",
        "cores": os.cpu_count(),
        "most": chosen.most,
        "searched": SEARCHED,
        "embedder": embedder.name,
    }
    for task in (task for task in (*REPORTED, *MANUALS) if task.name in chosen.sets):
        found = material(task, chosen.data)
        part = figures["sets"].setdefault(task.name, {"language": task.language})
        part |= {"questions": len(found.asked), "passages": len(found.passages)}
        for section in chosen.only:
            if section == "embedders" and task.language == "zh":
                continue  # the other embedder at hand knows no Chinese
            some = found.among(chosen.distractors) if section == "e5" else found
            part[section] = await SECTIONS[section](some, chosen.most, embedder, segmenter)
            write(FIGURES, figures, report)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--most", type=int, default=300)
    parser.add_argument(
        "--distractors", type=int, help="of e5: passages without questions; all of them"
    )
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    reported, manuals = ([task.name for task in tasks] for tasks in (REPORTED, MANUALS))
    parser.add_argument("--sets", nargs="+", choices=[*reported, *manuals], default=reported)
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
