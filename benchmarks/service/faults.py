"""Fault matrix: each dependency of the service with each fault, and what a client hears of it.

    python -m benchmarks.service.faults [--only PART] [--deadline 3] [--out benchmarks/faults.json]

For each cell the service is started anew, over dependencies on loopback that are well; then a fault
is put before one of them, and the service is asked the same questions, four in English and four in
Chinese, one after the other. Figures go to --out, the report beside it.

A cell falls short where a status is not 200, an answer comes later than the deadline and a tenth,
`degraded` does not name the component though the run asks it while it is well, or names another, a
run that went on without something left no line in the log, more than 1.2 times the requests of the
same questions without a fault arrive, or a dependency that never finishes an answer is still waited
for at the fourth question that needs it.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, get_args

import httpx

from benchmarks.report import DOCS, FOLDER, Figures, filled, measured_when, write
from benchmarks.service.process import environment, script, started
from tests.loopback.embeddings import EMBEDDINGS_MODEL, EmbeddingsServer
from tests.loopback.fault_proxy import RETRY_AFTER_S, Fault, FaultProxy
from tests.loopback.openai import MODEL, OPENAI_KEY, OpenAIServer
from tests.loopback.pages import PageServer
from tests.loopback.reflective import NATIVE_MODEL, ReflectiveServer
from tests.loopback.searxng import SearxngServer
from tests.loopback.server import free_port

FIGURES = FOLDER / "faults.json"
FAULTS: tuple[Fault, ...] = get_args(Fault)[1:]
SILENT = ("hangs", "slow drip")
FOURTH = 3
LATE = 1.1
"""In deadlines."""
PATIENCE_S = 2.0
"""For the fourth question, where the three before it met a dependency that does not answer."""
MAX_SHARE = 1.2
FEW: Mapping[str, Any] = {"retrieve_k": 3}
"""Few passages to grade: the service's own work is to be a small part of its time."""

HANDBOOK = (
    "What does the upper threshold decide?",
    "上阈值决定什么？",
    "How many strips are kept after refinement?",
    "什么是知识条带？",
    "Which events does the stream send?",
    "事件流会发送哪些事件？",
    "How do I calibrate the evaluator?",
    "怎样校准评估器？",
)
WEB = (
    "How does the Fresnel lens help a lighthouse?",
    "灯塔的光为什么在三十公里以外也能看见？",
    "Why do basalt columns have six sides?",
    "普洱茶用什么制成？",
    "How far does a lighthouse throw its beam?",
    "每座灯塔闪光的节奏有什么用？",
    "How do honey bees tell where the flowers are?",
    "熟普洱和生普洱有什么不同？",
)


@dataclass(frozen=True)
class Dependency:
    """`component` is what `degraded` must name; `beside` it may name others that share its work."""

    name: str
    component: str
    environment: Mapping[str, str]
    proxy: FaultProxy
    knowledge: Path
    questions: Sequence[str] = HANDBOOK
    options: Mapping[str, Any] = field(default_factory=dict)
    beside: frozenset[str] = frozenset()


@contextmanager
def dependencies() -> Iterator[list[Dependency]]:
    """All of them, well."""
    with ExitStack() as stack:
        enter = stack.enter_context
        folder = Path(enter(tempfile.TemporaryDirectory()))
        chat, embeddings = enter(OpenAIServer()), enter(EmbeddingsServer())
        native, pages = enter(ReflectiveServer()), enter(PageServer())
        engine, worker_port = enter(SearxngServer(pages)), enter(_worker())
        ports = (chat.port, worker_port, embeddings.port, engine.port, pages.port, native.port)
        proxies = [enter(FaultProxy(port)) for port in ports]
        to_chat, to_worker, to_embeddings, to_engine, to_pages, to_native = proxies
        pages.url = to_pages.url  # where results say that pages stand
        embedder = {
            "embedder": f"openai:{EMBEDDINGS_MODEL}@{to_embeddings.url}/v1",
            "embedder_key": OPENAI_KEY,
        }
        search = {
            "search": f"searxng@{to_engine.url}",
            "fetch_allowed_hosts": to_pages.address,
        }
        handbook = _ingested(folder / "static", {})
        on_web = partial(Dependency, knowledge=handbook, questions=WEB, options={"web": "always"})
        yield [
            Dependency(
                "language model",
                "generator",
                {
                    "generator": "chat",
                    "chat_model": f"openai:{MODEL}@{to_chat.url}/v1",
                    "chat_api_key": OPENAI_KEY,
                },
                to_chat,
                handbook,
                beside=frozenset({"critic"}),
            ),
            Dependency(
                "evaluator worker",
                "evaluator",
                {"worker_url": to_worker.url},
                to_worker,
                handbook,
                beside=frozenset({"critic"}),
            ),
            Dependency(
                "embeddings",
                "retriever",
                embedder,
                to_embeddings,
                _ingested(folder / "embedded", embedder),
            ),
            on_web("web search", "web_search", search, to_engine),
            on_web("web pages", "fetch", search, to_pages),
            Dependency(
                "Self-RAG model",
                "generator",
                {
                    "generator": "native",
                    "native_model": f"openai:{NATIVE_MODEL}@{to_native.url}/v1",
                    "native_api_key": OPENAI_KEY,
                },
                to_native,
                handbook,
                beside=frozenset({"critic"}),
            ),
        ]


def _environment(folder: Path, chosen: Mapping[str, str]) -> dict[str, str]:
    return environment(**{"data_dir": folder, "search": "off", "log_format": "json", **chosen})


def _ingested(folder: Path, chosen: Mapping[str, str]) -> Path:
    folder.mkdir()
    environment = _environment(folder, chosen)
    command = [script("selfcrag"), "ingest", str(DOCS)]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return folder


@contextmanager
def _worker() -> Iterator[int]:
    """The port of an evaluator worker."""
    port = free_port()
    command = [script("selfcrag-evaluator"), "serve", "--port", str(port)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        url = f"http://127.0.0.1:{port}"
        with started(command, url, _environment(folder, {}), folder / "worker.log"):
            yield port


def asked(dependency: Dependency, fault: Fault, deadline_s: float) -> Figures:
    """What came of the questions, of a service that started before the fault did."""
    dependency.proxy.inject("none")
    with tempfile.TemporaryDirectory() as place:
        folder, port = Path(place) / "state", free_port()
        shutil.copytree(dependency.knowledge, folder)
        log, url = Path(place) / "service.log", f"http://127.0.0.1:{port}"
        command = [script("selfcrag"), "serve", "--port", str(port)]
        with (
            started(command, url, _environment(folder, dependency.environment), log),
            httpx.Client(base_url=url, timeout=4 * deadline_s, trust_env=False) as client,
        ):
            dependency.proxy.inject(fault)
            options = {**FEW, **dependency.options, "deadline_ms": round(1000 * deadline_s)}
            answers = []
            for question in dependency.questions:
                before = dependency.proxy.requests
                answer = _ask(client, question, options)
                answers.append(answer | {"requests": dependency.proxy.requests - before})
            requests = dependency.proxy.requests
            dependency.proxy.inject("none")  # others may depend on it, too
        lines = [
            json.loads(line) for line in log.read_text("utf-8").splitlines() if line[:1] == "{"
        ]
    told = {
        (line["run_id"], line["component"]) for line in lines if line["message"] == "run degraded"
    }
    for answer in answers:
        answer["is_logged"] = all((answer["run_id"], name) in told for name in answer["degraded"])
    return {"requests": None if fault == "refuses" else requests, "answers": answers}


def _ask(client: httpx.Client, question: str, options: Mapping[str, Any]) -> Figures:
    began_s = time.perf_counter()
    try:
        reply = client.post("/ask", json={"question": question, "options": options})
    except httpx.TransportError as error:
        took_s = round(time.perf_counter() - began_s, 3)
        return {"status": type(error).__name__, "took_s": took_s, "run_id": "", "degraded": {}}
    body = reply.json() if reply.is_success else {}
    return {
        "status": reply.status_code,
        "took_s": round(time.perf_counter() - began_s, 3),
        "run_id": body.get("run_id", ""),
        "stopped_by": body.get("stopped_by"),
        "verdict": body.get("verdict"),
        "degraded": {entry["component"]: entry["reason"] for entry in body.get("degraded", ())},
    }


def shortfalls(
    dependency: Dependency, fault: Fault, cell: Figures, well: Figures, deadline_s: float
) -> list[str]:
    """In a word or two each; none where the cell is as it should be."""
    answers, asking = cell["answers"], needing(cell, well)
    found = [f"status {answer['status']}" for answer in answers if answer["status"] != 200]
    if any(answer["took_s"] > LATE * deadline_s for answer in answers):
        found.append("late")
    for answer in answers:
        named = set(answer["degraded"])
        if answer in asking and dependency.component not in named:
            found.append("not named")
        if named - {dependency.component} - dependency.beside:
            found.append(f"names {', '.join(sorted(named - {dependency.component}))}")
        if not answer["is_logged"]:
            found.append("not logged")
    if fault in SILENT and _fourth_s(asking) >= PATIENCE_S:
        found.append("still waited for")
    if (share := share_of(cell, well)) is not None and share > MAX_SHARE:
        found.append("asked too often")
    return list(dict.fromkeys(found))


def needing(cell: Figures, well: Figures) -> list[Figures]:
    """Answers to the questions whose runs ask the dependency while it is well."""
    return [
        it for it, usual in zip(cell["answers"], well["answers"], strict=True) if usual["requests"]
    ]


def _fourth_s(asking: Sequence[Figures]) -> float:
    """The seconds of the fourth, or of the last where there are fewer."""
    return float(asking[: FOURTH + 1][-1]["took_s"])


def share_of(cell: Figures, well: Figures) -> float | None:
    """Requests that arrived, in those of the same questions without a fault."""
    arrived, usual = cell["requests"], well["requests"]
    return float(round(arrived / usual, 2)) if arrived is not None and usual else None


def measured(only: str, deadline_s: float) -> Figures:
    matrix: Figures = {}
    with dependencies() as all_of_them:
        for dependency in all_of_them:
            if only not in dependency.name:
                continue
            well = asked(dependency, "none", deadline_s)
            well["short"] = ["degraded"] if any(it["degraded"] for it in well["answers"]) else []
            row = matrix[dependency.name] = {"none": well}
            for fault in FAULTS:
                cell = row[fault] = asked(dependency, fault, deadline_s)
                cell["share"] = share_of(cell, well)
                cell["short"] = shortfalls(dependency, fault, cell, well, deadline_s)
                times = [answer["took_s"] for answer in cell["answers"]]
                sys.stderr.write(
                    f"{dependency.name}, {fault}: {times} s, {cell['share']}x, {cell['short']}\n"
                )
    return {"deadline_s": deadline_s, "retry_after_s": RETRY_AFTER_S, "matrix": matrix}


def report(figures: Figures) -> str:
    cells = [row[fault] for row in figures["matrix"].values() for fault in FAULTS]
    return filled(
        "service/faults.md.j2",
        figures,
        faults=FAULTS,
        cells=len(cells),
        good=sum(not cell["short"] for cell in cells),
        max_share=MAX_SHARE,
        patience_s=PATIENCE_S,
        shown=_shown,
    )


def _shown(cell: Figures, well: Figures) -> str:
    slowest_s = max(answer["took_s"] for answer in cell["answers"])
    fourth_s = _fourth_s(needing(cell, well))
    share = "" if cell["share"] is None else f", {cell['share']:g}x"
    figures = f"{slowest_s:.1f} / {fourth_s:.1f} s{share}"
    return f"**{figures}: {', '.join(cell['short'])}**" if cell["short"] else figures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="part of a dependency's name")
    parser.add_argument("--deadline", type=float, default=3.0, help="of each run, in seconds")
    parser.add_argument("--out", type=Path, default=FIGURES)
    chosen = parser.parse_args()
    figures = measured(chosen.only, chosen.deadline)
    write(chosen.out, {"measured": measured_when(), **figures}, report)


if __name__ == "__main__":
    main()
