"""Synthetic retrieval rows without evidence: does a text need knowledge from outside?

Fifteen kinds of tasks, told apart by whether the user's text suffices (query classification in
"Searching for Best Practices in Retrieval-Augmented Generation"). Three kinds are left out of
training, so that a measurement can tell a learnt principle from learnt phrases.
"""

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from evaluator.data.records import JudgementRow, in_turn

ROWS_OF_TEMPLATE = 4
CASUAL_SHARE = 0.2

_SEARCH = "[Retrieval]"

KINDS = {
    **dict.fromkeys(
        ("translation", "summarization", "rewriting", "analysis", "reasoning", "coding",
         "writing", "chat"), "[No Retrieval]",
    ),
    **dict.fromkeys(
        ("fact", "explanation", "current", "comparison", "procedure", "lookup",
         "recommendation"), _SEARCH,
    ),
}  # fmt: skip
"""Every kind with its label. The text given suffices, or common ability does, without retrieval."""

KINDS_HELD = frozenset({"analysis", "coding", "recommendation"})
"""Kinds whose wordings are all of the split "kind-held"."""

_SLOT = re.compile(r"\{([a-z_]+)\}")


def needs(languages: Sequence[str] = ("en", "zh"), seed: int = 0) -> list[JudgementRow]:
    """Rows of the task "retrieval", as many of one label as of the other per language and split.

    `group` is the split ("train", "held" or "kind-held"): rows of different splits share no
    wording, template or slot value.
    """
    rows: list[JudgementRow] = []
    for language in languages:
        rng = random.Random(f"{seed} {language}")
        rows += _balanced(_rows(read_wordings(language), language, rng), rng)
    return rows


def read_wordings(language: str) -> dict[str, Any]:
    """One language's file: `slots` by split and name, `wordings` by kind and split.

    A wording that names a slot, as in "Translate {sentence}.", is a template.
    """
    path = Path(__file__).parent / "needs" / f"{language}.json"
    wordings: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return wordings


def entries(read: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Every wording, templates unfilled, with its kind and split, in the file's order."""
    for kind, by_split in read["wordings"].items():
        for split, texts in by_split.items():
            yield from ((kind, split, text) for text in texts)


def same(text: str) -> str:
    """What two wordings have in common that differ only in case, spaces or final punctuation."""
    return " ".join(text.casefold().split()).rstrip(" .?!。？！…~～")


def _rows(read: Mapping[str, Any], language: str, rng: random.Random) -> list[JudgementRow]:
    rows: dict[str, JudgementRow] = {}
    for kind, split, wording in entries(read):
        for text in _filled(wording, read["slots"].get(split, {}), rng):
            written = _casual(text) if rng.random() < CASUAL_SHARE else text
            row = JudgementRow("retrieval", written, "", KINDS[kind], language, "own", kind, split)
            rows.setdefault(same(written), row)
    return list(rows.values())


def _filled(wording: str, slots: Mapping[str, list[str]], rng: random.Random) -> list[str]:
    """The wording itself, or a few fillings of the template, without repetition."""
    names = list(dict.fromkeys(_SLOT.findall(wording)))
    if not names:
        return [wording]
    columns = {name: rng.sample(slots[name], len(slots[name])) for name in names}
    count = min(ROWS_OF_TEMPLATE, max(len(column) for column in columns.values()))
    return [
        wording.format(**{name: column[turn % len(column)] for name, column in columns.items()})
        for turn in range(count)
    ]


def _casual(text: str) -> str:
    """As people type in haste, so that neither capitals nor a question mark decide."""
    return text.lower().rstrip(" .?!。？！") or text


def _balanced(rows: list[JudgementRow], rng: random.Random) -> list[JudgementRow]:
    """As many rows of each label within a split, the larger label's kinds shortened alike."""
    balanced, by_kind = list[JudgementRow](), attrgetter("kind")
    for split in dict.fromkeys(row.group for row in rows):
        by_label = [
            in_turn([r for r in rows if (r.group, r.label) == (split, label)], by_kind, rng)
            for label in dict.fromkeys(KINDS.values())
        ]
        least = min(len(of_label) for of_label in by_label)
        balanced += [row for of_label in by_label for row in of_label[:least]]
    return balanced
