"""Reads Self-RAG's critic rows: {task, instruction, input, output: one reflection token}."""

import re
from dataclasses import dataclass

from evaluator.data.rows import Row
from evaluator.errors import DataError
from evaluator.schema import LABELS, Task

_TASKS: dict[str, Task] = {
    "retrieval": "retrieval", "multi_retrieval": "retrieval", "relevance": "relevance",
    "groundness": "support", "utility": "utility",
    "groudness": "support",  # as the published script spells it
}  # fmt: skip
_ALIASES = {
    "fullysupport": "[Fully supported]",
    "partiallysupport": "[Partially supported]",
    "nosupport": "[No support / Contradictory]",
    "contradictory": "[No support / Contradictory]",
}
_CONTINUE = "[Continue to Use Evidence]"
_MARKER = re.compile(
    r"^[ \t]*(task instruction|preceding sentences|evidence|output)[ \t]*[:：][ \t]*",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Critique:
    """What one row judges; a text its task does not speak of is "" or unused."""

    task: Task
    question: str
    evidence: str
    answer: str
    label: str

    @property
    def pair(self) -> tuple[str, str]:
        """The two texts as the worker takes them for this task."""
        if self.task == "support":
            return f"{self.question} [SEP] {self.answer}", self.evidence
        return self.question, self.answer if self.task == "utility" else self.evidence


def critique_of(row: Row) -> Critique:
    """The row's question, evidence and answer out of its texts, and its token.

    In the published rows `instruction` tells the critic what to do and `input` holds the texts
    behind "Task instruction:", "Evidence:" and "Output:". Where `input` does not spell "Task
    instruction:", `instruction` is the question, and an `input` without any of them is the
    answer (utility) or the evidence. Raises DataError with the row's place.
    """
    name = row.text("task").casefold()
    if name not in _TASKS:
        raise DataError(f"{row.where}: task must be one of {', '.join(_TASKS)}, not {name!r}.")
    task = _TASKS[name]
    told = row.raw.get("input") or ""
    texts = _texts(row.text("input") if told else "", task)
    question = texts.get("task instruction") or row.text("instruction")
    found = Critique(
        task, question, texts.get("evidence", ""), texts.get("output", ""), _label(row, task)
    )
    _check(found, name, row)
    return found


def _texts(told: str, task: Task) -> dict[str, str]:
    """The input's parts by their markers; of a repeated marker the last one counts.

    Instructions often show examples with an "Output:" of their own, before the real one.
    """
    marks = {mark.group(1).casefold(): mark for mark in _MARKER.finditer(told)}
    first = next((m for m in _MARKER.finditer(told) if m.group(1)[0] in "tT"), None)
    if first is not None:
        marks["task instruction"] = first
    if not marks:
        return {"output" if task == "utility" else "evidence": told} if told else {}
    places = sorted(marks.items(), key=lambda item: item[1].start())
    ends = [mark.start() for _, mark in places[1:]] + [len(told)]
    return {
        name: told[mark.end() : end].strip() for (name, mark), end in zip(places, ends, strict=True)
    }


def _label(row: Row, task: Task) -> str:
    said = row.text("output")
    form = _form(said)
    label = next((token for token in LABELS[task] if _form(token) == form), _ALIASES.get(form))
    if label not in LABELS[task]:
        raise DataError(
            f"{row.where}: output must be one of {' '.join(LABELS[task])}, not {said!r}."
        )
    return label


def _form(token: str) -> str:
    return re.sub(r"\W+", "", token).casefold()


def _check(found: Critique, name: str, row: Row) -> None:
    if found.task in ("relevance", "support") and not found.evidence:
        raise DataError(f"{row.where}: {name} needs its evidence (`Evidence: ...` in input).")
    if found.task in ("support", "utility") and not found.answer:
        raise DataError(f"{row.where}: {name} needs its answer (`Output: ...` in input).")
    if found.label == _CONTINUE and not found.evidence:
        raise DataError(f"{row.where}: {_CONTINUE} needs the evidence that it speaks of.")
