"""What works with a language model: the service asks it for everything that a model is asked for.

    python -m benchmarks.language_model URL [--model NAME] [--key KEY] [--out FILE.json]

URL is an OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1. The service is started over
a few small pages, with the model as writer, as critic, and as each kind of grader, and is asked the
same questions in English and Chinese. A row of the table says of each task whether the model did
it, whether another part stood in for it and said so, or whether it failed. Figures go to --out, a
page beside it; without --out the table alone is printed.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import httpx
import mcp

from benchmarks.report import Figures, measured_when, say, table, write
from benchmarks.service.process import environment, script, serving
from graphs.text.prompt_injection import OUR_TAGS
from tests.app.knowledge import write_pages
from tests.loopback.server import free_port

State = Literal["works", "stands in", "fails"]
QUESTIONS = {
    "en": [
        ("How tall is the red tower of Umbra?", "87"),
        ("How long does harbour bread dough rest?", "fourteen"),
    ],
    "zh": [("乌木城的红塔有多高？", "八十七"), ("港口面包的面团要静置多久？", "十四")],
}
FOLLOW_UPS = {"en": "And who keeps it?", "zh": "谁看守它？"}
WORKFLOWS = ("rag", "crag", "self_rag", "self_crag")
WRITES: Mapping[str, Mapping[str, Any]] = {
    "clearer wording": {"expand": ["rewrite"]},
    "sub-questions": {"expand": ["decompose"]},
    "HyDE": {"expand": ["hyde"]},
    "summaries of the knowledge": {"compress": "abstractive"},
    "a closed set": {"choices": ["87 metres", "12 metres"]},
    "without retrieval": {"retrieval": "never"},
    "a long answer in segments": {"beam_depth": 2},
}
"""Options that make `self_rag` ask the model for something else."""
GRADERS = ("llm_direct", "llm_few_shot", "llm_chain_of_thought")
_TAG = re.compile(rf"</?(?:{OUR_TAGS})-[0-9a-f]{{8,}}>", re.IGNORECASE)
_MARKER = re.compile(r"\[\d+\]")


@dataclass(frozen=True)
class Row:
    """One task; `answer` begins with what was said, `reason` is what the service says went wrong.

    `has_fact` and `cited` are None where the task has no answer of its own; `calls` and tokens are
    what the service counts in `usage`.
    """

    part: str
    task: str
    language: str
    state: State
    seconds: float
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    has_fact: bool | None = None
    cited: bool | None = None
    reason: str = ""
    answer: str = ""


class Client:
    """Asks one service, and makes a row of each answer."""

    def __init__(
        self, url: str, part: str, deadline_ms: int, languages: Sequence[str] = tuple(QUESTIONS)
    ) -> None:
        self.http = httpx.Client(base_url=url, timeout=deadline_ms / 1000 + 30, trust_env=False)
        self.questions = {language: QUESTIONS[language] for language in languages}
        self.part, self.options = part, {"deadline_ms": deadline_ms}

    def ask(self, task: str, language: str, question: str, fact: str = "", **fields: Any) -> Row:
        """Streamed; of the events the last answer counts."""
        options = {**self.options, **fields.pop("options", {})}
        body = {"question": question, "stream": True, "options": options, **fields}
        start = time.monotonic()
        with self.http.stream("POST", "/ask", json=body) as response:
            events = list(_events(response))
        seconds = time.monotonic() - start
        answers = [data for name, data in events if name == "answer"]
        if not answers:
            why = next((json.dumps(data) for name, data in events if name == "error"), "no answer")
            return Row(self.part, task, language, "fails", seconds, reason=why)
        return self._row(task, language, seconds, answers[-1], fact)

    def _row(
        self, task: str, language: str, seconds: float, answer: Mapping[str, Any], fact: str
    ) -> Row:
        usage, text = answer["usage"], str(answer["answer"])
        reason = "; ".join(entry["reason"] for entry in answer["degraded"])
        is_broken = not text.strip() or _TAG.search(text) is not None
        calls = usage["llm_calls"] + usage["grading_calls"]
        return Row(
            self.part,
            task,
            language,
            "fails" if is_broken else "stands in" if reason else "works",
            seconds,
            calls,
            usage["input_tokens"],
            usage["output_tokens"],
            fact in text if fact else None,
            _MARKER.search(text) is not None,
            reason,
            text,
        )


def _events(response: httpx.Response) -> Iterator[tuple[str, Any]]:
    if response.status_code != 200:
        response.read()
        yield "error", {"status": response.status_code, "body": response.text[:300]}
        return
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def as_writer(client: Client) -> Iterator[Row]:
    """Answers by the four workflows, a follow-up, and what options make it write beside them."""
    for language, questions in client.questions.items():
        for workflow in WORKFLOWS:
            for question, fact in questions:
                yield client.ask(
                    f"answer of {workflow}", language, question, fact, workflow=workflow
                )
        thread = f"language-model-{language}"
        question, fact = questions[0]
        yield client.ask("first turn", language, question, fact, thread_id=thread, workflow="rag")
        follow_up = FOLLOW_UPS[language]
        yield client.ask("follow-up", language, follow_up, thread_id=thread, workflow="rag")
        for task, options in WRITES.items():
            yield client.ask(task, language, question, workflow="self_rag", options=options)


def as_judge(client: Client) -> Iterator[Row]:
    """Grades, strips and critiques of `self_crag`, in both languages."""
    for language, ((question, fact), *_) in client.questions.items():
        options = {"retrieve_k": 3, "max_critic": 1}
        yield client.ask(
            "judgement", language, question, fact, workflow="self_crag", options=options
        )


def by_openai(client: Client) -> Iterator[Row]:
    """The same through `/v1`: chat completions and responses, streamed."""
    for path, body in (
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "{}"}]}),
        ("/v1/responses", {"input": "{}"}),
    ):
        for language, ((question, fact), *_) in client.questions.items():
            filled = json.loads(json.dumps(body).replace("{}", question))
            start = time.monotonic()
            filled |= {"model": "rag", "stream": True, "options": client.options}
            reply = client.http.post(path, json=filled)
            lines = [line for line in reply.text.splitlines() if line.startswith("data: {")]
            text = "".join(_delta(json.loads(line.removeprefix("data: "))) for line in lines)
            yield Row(
                client.part,
                path,
                language,
                "works" if reply.is_success and text.strip() and not _TAG.search(text) else "fails",
                time.monotonic() - start,
                has_fact=fact in text,
                answer=text,
            )


def _delta(event: Mapping[str, Any]) -> str:
    """The text of a piece, of either protocol."""
    if event.get("type") == "response.output_text.delta":
        return str(event["delta"])
    choices = event.get("choices") or [{}]
    return str(choices[0].get("delta", {}).get("content") or "")


def by_mcp(client: Client) -> Iterator[Row]:
    """The same by the tool `ask` of MCP."""
    for language, ((question, fact), *_) in client.questions.items():
        start = time.monotonic()
        text = asyncio.run(_by_tool(f"{client.http.base_url}/mcp", question, client.options))
        state: State = "works" if text and not _TAG.search(text) else "fails"
        seconds = time.monotonic() - start
        yield Row(client.part, "MCP", language, state, seconds, has_fact=fact in text, answer=text)


async def _by_tool(url: str, question: str, options: Mapping[str, Any]) -> str:
    async with mcp.Client(url) as client:
        arguments = {"question": question, "workflow": "rag", "options": options}
        result: Any = await client.call_tool("ask", arguments)
    return "" if result.is_error else str(result.structured_content["answer"])


def in_evaluation(client: Client) -> Iterator[Row]:
    """The model as judge of `selfcrag evaluate`, over the first question of each language."""
    rows = [{"question": q, "answers": [a]} for (q, a), *_ in client.questions.values()]
    body = {
        "questions": rows,
        "variants": [{"name": "plain", "workflow": "rag", "options": client.options}],
        "judge": "model",
    }
    start = time.monotonic()
    begin = client.http.post("/evaluations", json=body)
    state: Mapping[str, Any] = {"status": "refused", "problem": begin.text}
    if begin.status_code == 202:
        while True:
            time.sleep(0.2)
            state = client.http.get(f"/evaluations/{begin.json()['evaluation_id']}").json()
            if state["status"] != "running" or time.monotonic() > start + 180:
                break
    done: State = "works" if state["status"] == "done" else "fails"
    reason, languages = str(state.get("problem") or ""), ", ".join(client.questions)
    seconds = time.monotonic() - start
    yield Row(client.part, "evaluation", languages, done, seconds, reason=reason)


def hypothetical_questions(
    folder: Path, settings: Mapping[str, str], languages: Sequence[str]
) -> Iterator[Row]:
    """Questions at ingest: the chunks are added whatever the model writes."""
    env = environment(**settings, data_dir=folder / "asked", hypothetical_questions=1, search="off")
    start = time.monotonic()
    command = [script("selfcrag"), "ingest", *(str(folder / "docs" / it) for it in languages)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    reason = next((line for line in done.stderr.splitlines() if "without hypoth" in line), "")
    state: State = "fails" if done.returncode else "stands in" if reason else "works"
    seconds = time.monotonic() - start
    yield Row(
        "ingest", "hypothetical questions", ", ".join(languages), state, seconds, reason=reason
    )


Tasks = Callable[[Client], Iterator[Row]]


def rows_of_all(
    url: str,
    model: str,
    key: str = "",
    *,
    deadline_ms: int = 60_000,
    parts: Sequence[str] = (),
    languages: Sequence[str] = tuple(QUESTIONS),
) -> Iterator[Row]:
    """Each task's row; of these parts alone where some are named."""
    settings = {"generator": "chat", "chat_model": f"openai:{model}@{url}", "chat_api_key": key}
    closed = f"http://127.0.0.1:{free_port()}/v1"
    fallen = {
        **settings,
        "chat_model": f"openai:none@{closed}",
        "fallback_model": settings["chat_model"],
        "fallback_api_key": key,
    }
    services: dict[str, tuple[Mapping[str, str], Sequence[Tasks]]] = {
        "writer": (settings, [as_writer, by_openai, by_mcp, in_evaluation]),
        "critic": ({**settings, "critic": "llm"}, [as_judge]),
        **{grader: ({**settings, "grader": grader}, [as_judge]) for grader in GRADERS},
        "fallback": (fallen, [as_judge]),
    }
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        write_pages(folder / "docs")
        if not parts or "ingest" in parts:
            yield from hypothetical_questions(folder, settings, languages)
        for part, (given, tasks) in services.items():
            if parts and part not in parts:
                continue
            state, port = folder / part, free_port()
            state.mkdir()
            with serving(state, port, [folder / "docs"], (), **given):
                client = Client(f"http://127.0.0.1:{port}", part, deadline_ms, languages)
                stack.callback(client.http.close)
                for task in tasks:
                    yield from task(client)


def figures_of(rows: Sequence[Row], model: str, deadline_s: float = 60) -> Figures:
    given = {"when": measured_when(), "model": model, "deadline_s": deadline_s}
    return {**given, "rows": [asdict(row) for row in rows]}


def page(figures: Figures) -> str:
    """The table, with the share of answers that have the fact."""
    rows = [Row(**row) for row in figures["rows"]]
    lines = [
        (
            row.part,
            row.task,
            row.language,
            row.state,
            f"{row.seconds:.1f}",
            row.calls,
            f"{row.input_tokens} / {row.output_tokens}",
            {None: "", True: "yes", False: "no"}[row.has_fact],
            row.reason.replace("|", "\\|"),
        )
        for row in rows
    ]
    head = ("part", "task", "language", "state", "s", "calls", "tokens in / out", "fact", "reason")
    states = ", ".join(
        f"{state}: {sum(row.state == state for row in rows)}"
        for state in ("works", "stands in", "fails")
    )
    facts = [row.has_fact for row in rows if row.has_fact is not None]
    return f"""# What works with a language model

`python -m benchmarks.language_model URL --model NAME --deadline {figures["deadline_s"]}`, of
{figures["model"]}. {figures["when"]}

Of {len(rows)} tasks: {states}. The fact that was asked for stands word for word in
{sum(facts)} of {len(facts)} answers. *stands in*: another part did it, and the answer says so. Of
`/v1`, MCP and the evaluation *works* says that something came.

{table(head, lines)}
"""


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("url")
    parser.add_argument("--model", default="model")
    parser.add_argument("--key", default="")
    parser.add_argument("--deadline", type=float, default=60.0, help="seconds of each run")
    parser.add_argument("--part", action="append", default=[])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(argv)
    rows = []
    for row in rows_of_all(
        given.url,
        given.model,
        given.key,
        deadline_ms=round(1000 * given.deadline),
        parts=given.part,
    ):
        rows.append(row)
        say(f"{row.part}: {row.task} ({row.language}) {row.state} after {row.seconds:.1f} s")
    figures = figures_of(rows, given.model, given.deadline)
    if given.out:
        write(given.out, figures, page)
    else:
        sys.stdout.write(page(figures))


if __name__ == "__main__":
    main()
