"""100,000 passages: time, memory and size of an ingest, and how long questions take then.

    python -m benchmarks.scale DATA [--sizes 10000 100000]

Writes Markdown files of ten passages each (half of them in Chinese), reads them by `selfcrag
ingest` in a process of its own, whose memory is sampled with that of its children, and asks the
index in this process. Figures go to benchmarks/scale.json and benchmarks/scale.md.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from app.composition.embedder import open_retriever
from app.retrieval.retriever import HybridRetriever
from benchmarks.evaluator_report import table
from benchmarks.retrieval_sets import REPORTED, material
from benchmarks.retrieval_table import records
from graphs.options import Scope, Search
from graphs.text.sentences import sentences, token_count

HERE = Path(__file__).parent
SETS = {
    "en": (
        "corpus_en_2wiki",
        "en_squad2_half",
        "en_squadshifts_wiki",
        "en_covidqa",
        "en_ares",
        "en_nq_gold",
    ),
    "zh": ("corpus_zh_news", "zh_cmrc2018_train", "zh_drcd"),
}
CHINESE_OF_TEN = 5
PASSAGES_A_FILE = 10
PASSAGE_TOKENS = 40
QUESTIONS = 200
SAMPLE_EVERY_S = 0.5
Figures = dict[str, Any]


def passages(data: Path, language: str) -> Iterator[str]:
    """Different texts of a few sentences, about PASSAGE_TOKENS long."""
    seen: set[str] = set()
    for name in SETS[language]:
        for row in records(data / f"{name}.jsonl.gz"):
            for text in pieces(row.get("passage") or row.get("document") or ""):
                if text not in seen:
                    seen.add(text)
                    yield text


def pieces(text: str) -> Iterator[str]:
    held: list[str] = []
    for sentence in sentences(" ".join(text.split())):
        held.append(sentence)
        if token_count(" ".join(held)) >= PASSAGE_TOKENS:
            yield " ".join(held)
            held = []
    if held:
        yield " ".join(held)


def write_files(data: Path, folder: Path, size: int) -> int:
    """`size` passages as files; how many characters they hold."""
    chinese = size * CHINESE_OF_TEN // 10
    texts = [*islice(passages(data, "zh"), chinese)]
    texts += islice(passages(data, "en"), size - len(texts))
    if len(texts) < size:
        sys.exit(f"the sets hold {len(texts)} passages, {size} are asked for")
    for n in range(0, size, PASSAGES_A_FILE):
        sections = [
            f"## Part {n + at}\n\n{text}" for at, text in enumerate(texts[n : n + PASSAGES_A_FILE])
        ]
        page = "\n\n".join([f"# Page {n // PASSAGES_A_FILE}", *sections])
        (folder / f"{n // PASSAGES_A_FILE:06}.md").write_text(page, "utf-8")
    return sum(map(len, texts))


def ingested(folder: Path, state: Path) -> Figures:
    """Seconds, and the most memory the ingest held, in all and by tenths of its time."""
    command = [str(Path(sys.executable).parent / "selfcrag"), "ingest", str(folder)]
    environment = {**os.environ, "SELFCRAG_DATA_DIR": str(state)}
    started, sampled = time.perf_counter(), []
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            sampled.append(memory_mb(process.pid))
            time.sleep(SAMPLE_EVERY_S)
    took = time.perf_counter() - started
    if process.returncode:
        sys.exit("selfcrag ingest failed")
    tenths = [float(max(part, default=0)) for part in np.array_split(sampled, 10)]
    return {"ingest_s": took, "memory_mb": max(tenths), "memory_tenths_mb": tenths}


def memory_mb(process: int) -> float:
    """What a process and its children hold, what they share counted once."""
    total = 0.0
    for one in [process, *children(process)]:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{one}/smaps_rollup").read_text("ascii").splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024 / 1e6
    return total


def children(process: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in (task / "children").read_text("ascii").split():
                yield int(child)
                yield from children(int(child))


async def asked(state: Path, questions: Sequence[str]) -> Figures:
    """Milliseconds a question by each mode, everything warm."""
    retriever = await open_retriever(state)
    found: Figures = {"chunks": await retriever.index.count(Scope())}
    for mode in ("hybrid", "bm25", "dense"):
        search = Search(mode=mode)
        for question in questions[:20]:
            await retriever.retrieve(question, 10, search)
        took = [await timed(retriever, question, search) for question in questions]
        found[mode] = {"p50_ms": quantile(took, 0.5), "p95_ms": quantile(took, 0.95)}
    return found


async def timed(retriever: HybridRetriever, question: str, search: Search) -> float:
    started = time.perf_counter()
    await retriever.retrieve(question, 10, search)
    return 1000 * (time.perf_counter() - started)


def quantile(values: Iterable[float], share: float) -> float:
    return float(np.quantile(list(values), share))


def of_size(data: Path, size: int, questions: Sequence[str]) -> Figures:
    with tempfile.TemporaryDirectory() as temporary:
        folder, state = Path(temporary) / "files", Path(temporary) / "state"
        folder.mkdir()
        characters = write_files(data, folder, size)
        found = ingested(folder, state)
        again = ingested(folder, state)
        disk = sum(file.stat().st_size for file in (state / "index").rglob("*") if file.is_file())
        told = asyncio.run(asked(state, questions))
    return {
        "passages": size,
        "characters": characters,
        **found,
        "unchanged_s": again["ingest_s"],
        "disk_mb": disk / 1e6,
        **told,
    }


def report(figures: Figures) -> str:
    sizes: list[Figures] = figures["sizes"]
    rows = [
        ["chunks", *(f"{one['chunks']:,}" for one in sizes)],
        ["text, million characters", *(f"{one['characters'] / 1e6:.1f}" for one in sizes)],
        ["ingest, s", *(f"{one['ingest_s']:.0f}" for one in sizes)],
        ["the same files once more, s", *(f"{one['unchanged_s']:.0f}" for one in sizes)],
        ["most memory, MB", *(f"{one['memory_mb']:.0f}" for one in sizes)],
        [
            "memory by tenths of the time, MB",
            *(" ".join(f"{mb:.0f}" for mb in one["memory_tenths_mb"]) for one in sizes),
        ],
        ["on disk, MB", *(f"{one['disk_mb']:.0f}" for one in sizes)],
    ]
    for mode in ("hybrid", "bm25", "dense"):
        times = (f"{one[mode]['p50_ms']:.1f} / {one[mode]['p95_ms']:.1f}" for one in sizes)
        rows.append([f"{mode}, p50 / p95 ms a question", *times])
    head = ["", *(f"{one['passages']:,} passages" for one in sizes)]
    return f"""# A large knowledge base, measured

    {figures["command"]}

Written by that command from benchmarks/scale.json, on {figures["cores"]} CPU cores. Files of ten
passages each, half of them in Chinese; memory is that of `selfcrag ingest` with its
children, sampled twice a second. {QUESTIONS} questions in English and {QUESTIONS} in Chinese, one
after the other, embedding and segmentation included.

{table(head, rows)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    chosen = parser.parse_args()
    sets = [material(task, chosen.data).some(QUESTIONS) for task in REPORTED]
    questions = [question for asked_of in sets for question, _ in asked_of]
    figures: Figures = {"command": "python -m benchmarks.scale DATA", "cores": os.cpu_count()}
    figures["sizes"] = []
    for size in chosen.sizes:
        figures["sizes"].append(of_size(chosen.data, size, questions))
        (HERE / "scale.json").write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
        (HERE / "scale.md").write_text(report(figures), "utf-8")


if __name__ == "__main__":
    main()
