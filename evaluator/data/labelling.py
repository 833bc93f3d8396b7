"""Labels from a language model: reflection tokens for rows of one's own (Self-RAG, section 3.2.1).

The result is a file of critic rows, {task, instruction, input, output: one token}, that `train`
reads. A row is asked about every judgement its fields allow.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import openai
from openai.types import CompletionUsage

from evaluator.data.file_formats import DataRow, read_rows
from evaluator.data.text import is_chinese, named_sections
from evaluator.errors import DataError, EvaluatorError
from evaluator.schema import LABELS, Task

CONCURRENCY = 8
OUTPUT_TOKENS = 16
LOG_EVERY = 100  # rows
MAX_UNREADABLE = 0.5  # of the first rows: then the model does not do what it is asked
_OPENING = b'{"task": "'  # of a row
_CHARS_PER_TOKEN = 4  # English; a Chinese character counts as a token
_TASK_NAMES: dict[Task, str] = {
    "relevance": "relevance", "support": "groundness", "utility": "utility",
    "retrieval": "retrieval",
}  # fmt: skip
"""As the published critic rows call them."""

INSTRUCTIONS = named_sections(Path(__file__).with_suffix(".txt"))
Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LabelRequest:
    """One judgement to be labelled: a task, and its texts as critic rows hold them."""

    task: Task
    text: str


@dataclass(frozen=True)
class LabelEndpoint:
    """An OpenAI-compatible endpoint; prices are per million tokens, 0 where nothing is told."""

    client: openai.OpenAI
    model: str
    input_price: float = 0.0
    output_price: float = 0.0

    def cost(self, input_tokens: float, output_tokens: float) -> str:
        """The tokens in words, with what they cost where prices are known."""
        tokens = f"{input_tokens:,.0f} tokens in and {output_tokens:,.0f} out"
        price = (input_tokens * self.input_price + output_tokens * self.output_price) / 1e6
        return f"{tokens}, {price:,.2f} at the prices given" if price else tokens


def label(
    file: Path,
    out: Path,
    tasks: Sequence[Task],
    endpoint: LabelEndpoint,
    log: Log,
    *,
    dry: bool = False,
) -> int:
    """Ask about every row of `file`, append what was answered to `out`, return the rows written.

    Rows that `out` holds already are not asked again, so that a run that broke off goes on. Told
    before: rows and estimated tokens; `dry` ends there. A reply without exactly one token is left
    out and told. Raises DataError for a file that cannot be read, EvaluatorError where the
    endpoint fails for good or half of the first replies cannot be read.
    """
    known, whole = _written(out)
    requests = [each for row in read_rows(file) for each in _requests(row, tasks)]
    missing = [each for each in dict.fromkeys(requests) if (each.task, each.text) not in known]
    tokens = sum(_tokens(INSTRUCTIONS[each.task] + each.text) for each in missing)
    cost = endpoint.cost(tokens, 8 * len(missing))
    log(f"{len(missing)} of {len(set(requests))} rows to label with {endpoint.model}: about {cost}")
    if dry or not missing:
        return 0
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("ab") as file_out:
        file_out.truncate(len(whole))
        if whole and not whole.endswith(b"\n"):
            file_out.write(b"\n")
        return _append(missing, endpoint, file_out, log)


def _append(
    requests: Sequence[LabelRequest], endpoint: LabelEndpoint, file_out: BinaryIO, log: Log
) -> int:
    """Write a row for each request whose reply spells a token; the number of these rows."""
    rows = unreadable = input_tokens = output_tokens = 0
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        for first in range(0, len(requests), LOG_EVERY):
            some = requests[first : first + LOG_EVERY]
            replies = pool.map(partial(_request_label, endpoint=endpoint), some)
            for request, (token, usage) in zip(some, replies, strict=True):
                if usage is not None:
                    input_tokens += usage.prompt_tokens or 0
                    output_tokens += usage.completion_tokens or 0
                if token:
                    file_out.write(_line(request, token))
                rows, unreadable = rows + 1, unreadable + (not token)
            file_out.flush()
            log(f"{rows} rows, {endpoint.cost(input_tokens, output_tokens)}")
            if unreadable > MAX_UNREADABLE * rows:
                raise EvaluatorError(
                    f"{unreadable} of {rows} replies of {endpoint.model} held no reflection token: "
                    "another model may follow the instruction."
                )
    if unreadable:
        log(f"{unreadable} replies held no token or several; the same command asks again")
    return rows - unreadable


def _requests(row: DataRow, tasks: Sequence[Task]) -> Iterator[LabelRequest]:
    """What can be asked about a row {question, passage?, answer?}."""
    question, raw = row.text("question"), row.raw
    passage = row.text("passage") if raw.get("passage") else ""
    answer = row.text("answer") if raw.get("answer") else ""
    for task in tasks:
        needs = {"relevance": passage, "support": passage and answer, "utility": answer}
        if not needs.get(task, True):
            continue
        parts = [f"Task instruction: {question}"]
        if passage and task != "utility":
            parts.append(f"Evidence: {passage}")
        if answer and task in ("support", "utility"):
            parts.append(f"Output: {answer}")
        yield LabelRequest(task, "\n".join(parts))


def _request_label(
    request: LabelRequest, endpoint: LabelEndpoint
) -> tuple[str, CompletionUsage | None]:
    """The token of the reply, "" where it holds none or several, and the usage."""
    try:
        reply = endpoint.client.chat.completions.create(
            model=endpoint.model,
            messages=[
                {"role": "system", "content": INSTRUCTIONS[request.task]},
                {"role": "user", "content": request.text},
            ],
            temperature=0,
            max_tokens=OUTPUT_TOKENS,
        )
    except openai.OpenAIError as error:
        raise EvaluatorError(f"{endpoint.model} failed: {error}") from error
    text = (reply.choices[0].message.content or "") if reply.choices else ""
    return token_of(text, request.task), reply.usage


def token_of(reply: str, task: Task) -> str:
    """The one token of the task that a reply spells, with or without brackets, else ""."""
    tokens: list[str] = []
    for token in sorted(LABELS[task], key=len, reverse=True):  # some spell a shorter one
        spelt = re.compile(rf"(?<!\w){re.escape(token.strip('[]'))}(?!\w)", re.IGNORECASE)
        if spelt.search(reply):
            tokens.append(token)
            reply = spelt.sub(" ", reply)
    return tokens[0] if len(tokens) == 1 else ""


def _line(request: LabelRequest, token: str) -> bytes:
    name, instruction = _TASK_NAMES[request.task], INSTRUCTIONS[request.task]
    row = {"task": name, "instruction": instruction, "input": request.text, "output": token}
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"


def _written(out: Path) -> tuple[set[tuple[Task, str]], bytes]:
    """Task and texts of the rows that `out` holds, and its bytes up to a line that a kill tore."""
    whole = out.read_bytes() if out.exists() else b""
    last = whole.rpartition(b"\n")[2]
    by_name = {name: task for task, name in _TASK_NAMES.items()}
    if last[: len(_OPENING)] == _OPENING[: len(last)] and not _is_json(last):
        whole = whole.removesuffix(last)
    try:
        rows = [json.loads(line) for line in whole.splitlines()]
        return {(by_name[row["task"]], row["input"]) for row in rows}, whole
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{out} holds rows of another kind: name a new file.") from error


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _tokens(text: str) -> float:
    return len(text) / (1 if is_chinese(text) else _CHARS_PER_TOKEN)
