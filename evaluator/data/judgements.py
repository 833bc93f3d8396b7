"""Labelled rows for support, utility and retrieval, and the critic rows of Self-RAG they come in.

A critic row is {task, instruction, input, output: one reflection token}.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from evaluator.data import file_formats as formats
from evaluator.data.file_formats import HELD_OUT, Claim, DataRow
from evaluator.data.text import language_of
from evaluator.errors import DataError
from evaluator.schema import ANSWER_MARK, LABELS, Task

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
class JudgementRow:
    """Two texts and the reflection token that is right for them.

    `first` and `second` are what the worker is asked with: support takes `question [SEP] answer`
    and the evidence, utility the question and the answer, retrieval the question and the evidence
    at hand ("" for none). `label` is one of LABELS[task]. `source` names the data file, `kind` how
    the row was made ("natural" where people or the data set labelled it), and `group` what a
    train/validation split may not divide.
    """

    task: Task
    first: str
    second: str
    label: str
    language: str
    source: str
    kind: str
    group: str


def held_back(group: str, percent: int) -> bool:
    """Whether a split of `percent` keeps this group (article, passage) for validation."""
    return int.from_bytes(sha256(group.encode()).digest()[:4], "big") % 100 < percent


def split_judgements(
    judgements: Iterable[JudgementRow], percent: int
) -> tuple[list[JudgementRow], list[JudgementRow]]:
    """Training and validation rows, divided by group, `percent` of the groups held back."""
    sides: tuple[list[JudgementRow], list[JudgementRow]] = ([], [])
    for judgement in judgements:
        sides[held_back(judgement.group, percent)].append(judgement)
    return sides


def read_judgements(folder: Path, held_out: tuple[str, ...] = HELD_OUT) -> list[JudgementRow]:
    """The folder's critic rows about support, utility and retrieval, held-out files left out.

    Rows about relevance are records (`relevance_records.read_folder`). A retrieval row keeps its
    question and evidence alone: what a model wrote before or after is not known when the worker
    is asked. Raises DataError as `read_folder` does.
    """
    judgements: list[JudgementRow] = []
    for path in formats.data_files(folder, held_out):
        known, rows = formats.recognised(path)
        if known is formats.CRITIC:
            judgements += _judgements(rows, path.name.split(".")[0])
    return judgements


def _judgements(rows: Iterable[DataRow], source: str) -> list[JudgementRow]:
    judgements: list[JudgementRow] = []
    claims: list[Claim] = []
    for row in rows:
        critic = critic_row(row)
        # The whole input is compared: sentences of one answer share question and evidence.
        pair = (critic.task, critic.question, str(row.raw.get("input")).strip())
        claims.append((row.where, pair, critic.label))
        if critic.task == "relevance":
            continue
        first, second = critic.pair
        language, group = language_of(f"{first} {second}"), critic.evidence or critic.question
        fields = (critic.task, first, second, critic.label, language, source, "natural", group)
        judgements.append(JudgementRow(*fields))
    formats.check_contradictions(claims)
    return judgements


@dataclass(frozen=True, slots=True)
class CriticRow:
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
            return f"{self.question}{ANSWER_MARK}{self.answer}", self.evidence
        return self.question, self.answer if self.task == "utility" else self.evidence


def critic_row(row: DataRow) -> CriticRow:
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
    texts = _parts(row.text("input") if row.raw.get("input") else "", task)
    question = texts.get("task instruction") or row.text("instruction")
    critic = CriticRow(
        task, question, texts.get("evidence", ""), texts.get("output", ""), _label(row, task)
    )
    if task in ("relevance", "support") and not critic.evidence:
        raise DataError(f"{row.where}: {name} needs its evidence (`Evidence: ...` in input).")
    if task in ("support", "utility") and not critic.answer:
        raise DataError(f"{row.where}: {name} needs its answer (`Output: ...` in input).")
    if critic.label == _CONTINUE and not critic.evidence:
        raise DataError(f"{row.where}: {_CONTINUE} needs the evidence that it speaks of.")
    return critic


def _parts(text: str, task: Task) -> dict[str, str]:
    """The input's parts by their markers; of a repeated marker the last one counts.

    Instructions often show examples with an "Output:" of their own, before the real one.
    """
    marks = {mark.group(1).casefold(): mark for mark in _MARKER.finditer(text)}
    first = next((m for m in _MARKER.finditer(text) if m.group(1)[0] in "tT"), None)
    if first is not None:
        marks["task instruction"] = first
    if not marks:
        return {"output" if task == "utility" else "evidence": text} if text else {}
    places = sorted(marks.items(), key=lambda item: item[1].start())
    ends = [mark.start() for _, mark in places[1:]] + [len(text)]
    return {
        name: text[mark.end() : end].strip() for (name, mark), end in zip(places, ends, strict=True)
    }


def _label(row: DataRow, task: Task) -> str:
    output = row.text("output")
    form = _form(output)
    label = next((token for token in LABELS[task] if _form(token) == form), _ALIASES.get(form))
    if label not in LABELS[task]:
        raise DataError(
            f"{row.where}: output must be one of {' '.join(LABELS[task])}, not {output!r}."
        )
    return label


def _form(token: str) -> str:
    return re.sub(r"\W+", "", token).casefold()
