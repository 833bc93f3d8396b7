"""What becomes of runs under way when their process is killed, told to end, or one of two.

    python -m benchmarks.service.durability [--runs 60] [--out benchmarks/durability.json]

Services on the handbook, on loopback, whose language model is a stand-in that takes its time and
counts what it is asked. Detached runs are begun, and their process is killed (SIGKILL) at a random
moment; the next one must end them with the answer they have without a kill. Then SIGTERM, with
clients that wait and runs that are detached. Then two processes at one PostgreSQL (where Debian's
is installed), one of which is killed. Figures go to --out, the report beside it.
"""

import argparse
import asyncio
import json
import random
import re
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from app.composition.services import open_services
from app.runs.manager import Runs
from app.runs.request import RunRequest
from app.settings import Settings
from app.storage.database import open_engine
from app.storage.lifecycle import Store, open_store
from benchmarks.report import FOLDER, Figures, filled, measured_when, write
from benchmarks.service.process import environment, is_ready, script
from graphs.options import Ablation, Scope
from graphs.state import Context, Question
from graphs.workflows.self_crag import build_self_crag
from tests.app.postgres import postgres
from tests.loopback.openai import MODEL, OPENAI_KEY, OpenAIServer
from tests.loopback.server import free_port

FIGURES = FOLDER / "durability.json"
AT_ONCE = 6
QUESTIONS = (
    "What is a knowledge strip?",
    "What does the evaluator grade?",
    "When is the web searched?",
    "评估器给什么打分？",
    "什么时候会搜索网络？",
    "What does a deadline stop?",
)
OPTIONS = {"retrieval": "always", "max_critic": 1, "ablation": {"only_action": "correct"}}
"""Every run is written by the model."""
END_S = 90.0
_NONCE = re.compile(r"-[0-9a-f]{16}\b")


class Service:
    """`selfcrag serve` on a free port; `kill` and `end` stop it."""

    def __init__(self, folder: Path, model: OpenAIServer, **settings: object) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        given = {
            **{"data_dir": folder, "search": "off", "generator": "chat", "port": port},
            **{"chat_model": f"openai:{MODEL}@{model.base_url}", "log_level": "warning"},
            **settings,
        }
        command = [script("selfcrag"), "serve", "--ingest", "docs/en"]
        env = environment(**given) | {"OPENAI_API_KEY": OPENAI_KEY}
        self.process = subprocess.Popen(command, env=env)
        self.client = httpx.Client(base_url=self.url, timeout=60, trust_env=False)
        while not is_ready(self.url):
            if self.process.poll() is not None:
                raise SystemExit("the service did not start")
            time.sleep(0.1)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> float:
        """The seconds it took."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        return time.monotonic() - started

    def begin(self, question: str, *, detach: bool = True) -> tuple[str, Iterator[str]]:
        """A run's id, and the lines that follow; asked again while there is no place."""
        body = {"question": question, "stream": True, "detach": detach, "options": OPTIONS}
        while True:
            request = self.client.build_request("POST", "/ask", json=body)
            response = self.client.send(request, stream=True)
            if response.status_code == httpx.codes.OK:
                break
            response.close()
            time.sleep(0.2)
        lines = response.iter_lines()
        told = next(line for line in lines if line.startswith("data: "))
        if detach:
            response.close()
        return json.loads(told.removeprefix("data: "))["run_id"], lines

    def ended(self, run_id: str) -> dict[str, Any]:
        """Its trace, once it is no longer under way."""
        give_up_at = time.monotonic() + END_S
        while time.monotonic() < give_up_at:
            trace: dict[str, Any] = self.client.get(f"/runs/{run_id}").json()
            if trace["status"] != "running":
                return trace
            time.sleep(0.1)
        return {"status": "never ended", "answer": None, "events": []}


def numbered(count: int) -> list[str]:
    """Questions that differ, so that what the model is asked tells whose call it is."""
    return [f"{QUESTIONS[n % len(QUESTIONS)]} ({n})" for n in range(count)]


def calls(model: OpenAIServer) -> Counter[str]:
    """By what was asked, but for the nonces of its blocks."""
    return Counter(_NONCE.sub("", prompt) for prompt in model.prompts)


def answer_of(trace: dict[str, Any]) -> str | None:
    return trace["answer"]["answer"] if trace["answer"] else None


def killed(folder: Path, model: OpenAIServer, count: int) -> Figures:
    """Runs in groups of AT_ONCE; each group's process is killed once."""
    questions = numbered(count)
    service = Service(folder, model)
    expected, calls_of = {}, {}
    for question in questions:
        before = calls(model)
        expected[question] = answer_of(service.ended(service.begin(question)[0]))
        calls_of[question] = calls(model) - before
    model.requests.clear()
    dice, rows, kills, steps_again = random.Random(1), [], 0, 0
    for start in range(0, count, AT_ONCE):
        group = questions[start : start + AT_ONCE]
        begun = [(question, service.begin(question)[0]) for question in group]
        time.sleep(dice.uniform(0.0, 2.0))
        service.kill()
        kills += 1
        started = time.monotonic()
        service = Service(folder, model)
        up_s = time.monotonic() - started
        for question, run_id in begun:
            trace = service.ended(run_id)
            ends = Counter(_ends(trace["events"]))
            steps_again += sum(many - 1 for many in ends.values() if many > 1)
            is_same = answer_of(trace) == expected[question]
            rows.append({"status": trace["status"], "same": is_same, "up_s": round(up_s, 1)})
        sys.stderr.write(f"{start + len(group)} runs, {kills} kills\n")
    repeated = calls(model) - sum(calls_of.values(), Counter())
    figures = {
        "runs": count,
        "kills": kills,
        "ended": dict(Counter(row["status"] for row in rows)),
        "same_answer": sum(row["same"] for row in rows),
        "calls_without_kills": sum(map(Counter.total, calls_of.values())),
        "calls_repeated": repeated.total(),
        "most_repeats_of_a_call": max(repeated.values(), default=0),
        "finished_steps_again": steps_again,
        "left_in_tables": left_behind(folder),
    }
    service.end()
    return figures


def _ends(events: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The steps that ended; drafts of one run share a path and are left out."""
    for event in events:
        data = event["data"]
        if event["name"] != "step" or data["phase"] != "end" or "interrupted" in data["detail"]:
            continue
        if data["step"] != "draft":
            yield "/".join(data["path"])


def left_behind(folder: Path) -> int:
    """Rows of runs that may be resumed, and of their checkpoints."""
    time.sleep(1)
    with sqlite3.connect(folder / "selfcrag.db") as database:
        tables = ("resumable_runs", "checkpoints", "writes")
        return sum(database.execute(f"SELECT count(*) FROM {it}").fetchone()[0] for it in tables)


def told_to_end(folder: Path, model: OpenAIServer) -> Figures:
    """SIGTERM with twelve runs on a model that takes eight seconds: half of them are detached."""
    model.token_delay_s = 0.1
    service = Service(folder, model, shutdown_grace_s=2)
    for wave in range(2):  # until there are places for twelve
        ids = [service.begin(f"{question} [{wave}]")[0] for question in numbered(8)]
        for run_id in ids:
            service.ended(run_id)
    questions = [f"{question} !" for question in numbered(12)]
    heard: list[list[str]] = []
    threads = []
    for question in questions[:6]:
        _, lines = service.begin(question, detach=False)
        thread = threading.Thread(target=lambda lines=lines: heard.append(list(lines)))
        thread.start()
        threads.append(thread)
    detached = [service.begin(question)[0] for question in questions[6:]]
    time.sleep(1)
    took_s = service.end()
    for thread in threads:
        thread.join(END_S)
    model.token_delay_s = 0.0
    service = Service(folder, model)
    resumed = [service.ended(run_id)["status"] for run_id in detached]
    service.end()
    return {
        "ended_within_s": round(took_s, 1),
        "waiting_answered": sum("event: answer" in lines for lines in heard),
        "detached_resumed": dict(Counter(resumed)),
    }


def one_of_two(folder: Path, model: OpenAIServer) -> Figures:
    """Two processes at one PostgreSQL; the one that works is killed."""
    model.token_delay_s = 0.005
    with postgres() as address:
        first = Service(folder, model, database_url=address)
        second = Service(folder, model, database_url=address)
        ids = [first.begin(f"{question} ?")[0] for question in numbered(AT_ONCE)]
        time.sleep(0.5)
        first.kill()
        started = time.monotonic()
        statuses = Counter(second.ended(run_id)["status"] for run_id in ids)
        took_s = time.monotonic() - started
        second.end()
    return {"runs": len(ids), "ended": dict(statuses), "within_s": round(took_s, 1)}


async def cost(folder: Path, pairs: int = 20) -> Figures:
    """Of checkpoints: bytes written beside those of the final state, time beside runs without."""
    settings = Settings(_env_file=None, data_dir=folder, search="off")
    context = Context(retrieval="always", ablation=Ablation(only_action="correct"))
    took: dict[bool, list[float]] = {False: [], True: []}
    shares = []
    async with (
        open_services(settings) as services,
        open_engine(settings) as engine,
        open_store(settings, engine) as store,
    ):
        runs = Runs({"self_crag": build_self_crag(services)}, services, 1, store)
        kept: list[str] = []

        async def forget(thread: str) -> None:
            kept.append(thread)

        setattr(store.checkpoints, "adelete_thread", forget)  # noqa: B010 -- measured first
        for n, question in enumerate(numbered(2 * pairs)):
            is_durable = bool(n % 2)
            started = time.perf_counter()
            run = await runs.start(
                RunRequest(
                    "self_crag",
                    Question(question=question),
                    context,
                    Scope(),
                    resumable=is_durable,
                )
            )
            await run.all_events()
            took[is_durable].append(time.perf_counter() - started)
            if is_durable:
                await asyncio.sleep(0.1)
                shares.append(await _written(folder, store, kept.pop()))
        await runs.aclose()
    return {
        "bytes_of_final_state": round(statistics.mean(final for final, _ in shares)),
        "bytes_written": round(statistics.mean(written for _, written in shares)),
        "time_ratio": round(statistics.median(took[True]) / statistics.median(took[False]), 3),
        "median_s": round(statistics.median(took[True]), 3),
    }


async def _written(folder: Path, store: Store, thread: str) -> tuple[int, int]:
    """Bytes of the final state, uncompressed, and of all that was written for it."""
    config: RunnableConfig = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    last = await store.checkpoints.aget_tuple(config)
    values = last.checkpoint["channel_values"] if last else {}
    with sqlite3.connect(folder / "selfcrag.db") as database:
        sums = (
            "SELECT sum(length(checkpoint)) FROM checkpoints WHERE thread_id = :id",
            "SELECT sum(length(value)) FROM writes WHERE thread_id = :id",
        )
        written = sum(database.execute(each, {"id": thread}).fetchone()[0] or 0 for each in sums)
    await type(store.checkpoints).adelete_thread(store.checkpoints, thread)
    return len(JsonPlusSerializer().dumps_typed(values)[1]), written


def report(figures: Figures) -> str:
    return filled("service/durability.md.j2", figures, at_once=AT_ONCE)


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--out", type=Path, default=FIGURES)
    chosen = parser.parse_args()
    with scratch() as folder, OpenAIServer() as model:
        model.token_delay_s = 0.003
        figures: Figures = {
            "killed": killed(folder, model, chosen.runs),
            "told_to_end": told_to_end(folder, model),
            "one_of_two": one_of_two(folder, model),
            "cost": asyncio.run(cost(folder)),
        }
    figures["measured"] = measured_when()
    write(chosen.out, figures, report)
    sys.stdout.write(report(figures))


if __name__ == "__main__":
    main()
