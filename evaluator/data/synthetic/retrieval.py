"""Rows for the retrieval judgement: does a user's text need knowledge from outside?

Fifteen kinds of tasks, told apart by whether the user's text suffices (query classification in
"Searching for Best Practices in Retrieval-Augmented Generation"). Three kinds are left out of
training wholly, so that a measurement can tell a learnt principle from learnt phrases.
"""

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from evaluator.data.judgements import Judgement
from evaluator.errors import DataError

Split = Literal["train", "held", "kind-held"]
Need = Literal["[Retrieval]", "[No Retrieval]"]

NEEDS_FOLDER: Final = Path(__file__).parent / "needs"
ROWS_OF_TEMPLATE: Final = 4
CASUAL_SHARE: Final = 0.2

KINDS: Final[Mapping[str, Need]] = {
    "translation": "[No Retrieval]",
    "summarization": "[No Retrieval]",
    "rewriting": "[No Retrieval]",
    "analysis": "[No Retrieval]",
    "reasoning": "[No Retrieval]",
    "coding": "[No Retrieval]",
    "writing": "[No Retrieval]",
    "chat": "[No Retrieval]",
    "fact": "[Retrieval]",
    "explanation": "[Retrieval]",
    "current": "[Retrieval]",
    "comparison": "[Retrieval]",
    "procedure": "[Retrieval]",
    "lookup": "[Retrieval]",
    "recommendation": "[Retrieval]",
}
"""Every kind with its label. The text given suffices, or common ability does, without retrieval."""

KINDS_HELD: Final = frozenset({"analysis", "coding", "recommendation"})
"""Kinds whose wordings are all of the split "kind-held"."""

_SLOT = re.compile(r"\{([a-z_]+)\}")


class Wordings(BaseModel):
    """One language's file: slot values by split and name, wordings by kind and split.

    A wording that names a slot, as in "Translate {sentence}.", is a template.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    slots: dict[Split, dict[str, list[str]]]
    wordings: dict[str, dict[Split, list[str]]]

    def entries(self) -> Iterator[tuple[str, Split, str]]:
        """Every wording, templates unfilled, with its kind and split, in the file's order."""
        for kind, by_split in self.wordings.items():
            for split, texts in by_split.items():
                yield from ((kind, split, text) for text in texts)


def needs(
    languages: Sequence[str] = ("en", "zh"), seed: int = 0, folder: Path = NEEDS_FOLDER
) -> list[Judgement]:
    """Rows of the task "retrieval", as many of one label as of the other per language and split.

    `group` is the split ("train", "held" or "kind-held"): rows of different splits share no
    wording, template or slot value. Raises DataError, naming the file, when one is unusable.
    """
    rows: list[Judgement] = []
    for language in languages:
        dice = random.Random(f"{seed} {language}")
        rows += _balanced(_rows(read_wordings(language, folder), language, dice), dice)
    return rows


def read_wordings(language: str, folder: Path = NEEDS_FOLDER) -> Wordings:
    """One language's wordings, checked; DataError says what is wrong and where."""
    path = folder / f"{language}.json"
    try:
        read = Wordings.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise DataError(f"{path}: {where}: {first['msg']}.") from error
    except ValueError as error:
        raise DataError(f"{path} is no JSON in UTF-8: {error}") from error
    for problem in _problems(read):
        raise DataError(f"{path}: {problem}.")
    return read


def _problems(read: Wordings) -> Iterator[str]:
    if missing := KINDS.keys() ^ read.wordings.keys():
        yield f"kinds missing or unknown: {', '.join(sorted(missing))}"
    for kind, split, text in read.entries():
        if (split == "kind-held") != (kind in KINDS_HELD):
            yield f"{kind} may have no wordings of the split {split}"
        if not text.strip():
            yield f"an empty wording in {kind}, {split}"
        for slot in _SLOT.findall(text):
            values = read.slots.get(split, {}).get(slot, [])
            if not values or not all(value.strip() for value in values):
                yield f"{kind}, {split}: no values for the slot {slot}: {text}"
    yield from _repeated(read)


def _repeated(read: Wordings) -> Iterator[str]:
    """Wordings given twice, and texts that occur in two splits."""
    wordings: set[str] = set()
    for kind, split, text in read.entries():
        if same(text) in wordings:
            yield f"{kind}, {split}: given twice: {text}"
        wordings.add(same(text))
    splits: dict[str, str] = {}
    for where, text in _all_texts(read):
        if (first := splits.setdefault(same(text), where)) != where:
            yield f"{where}: also in {first}: {text}"


def _all_texts(read: Wordings) -> Iterator[tuple[str, str]]:
    """Every wording and slot value, after the split it belongs to."""
    yield from ((split, text) for _, split, text in read.entries())
    for split, slots in read.slots.items():
        yield from ((split, value) for values in slots.values() for value in values)


def same(text: str) -> str:
    """What two wordings have in common that differ only in case, spaces or final punctuation."""
    return " ".join(text.casefold().split()).rstrip(" .?!。？！…~～")


def _rows(read: Wordings, language: str, dice: random.Random) -> list[Judgement]:
    found: dict[str, Judgement] = {}
    for kind, split, wording in read.entries():
        for text in _filled(wording, read.slots.get(split, {}), dice):
            written = _casual(text) if dice.random() < CASUAL_SHARE else text
            row = Judgement("retrieval", written, "", KINDS[kind], language, "own", kind, split)
            found.setdefault(same(written), row)
    return list(found.values())


def _filled(wording: str, slots: Mapping[str, list[str]], dice: random.Random) -> list[str]:
    """The wording itself, or a few fillings of the template, without repetition."""
    names = list(dict.fromkeys(_SLOT.findall(wording)))
    if not names:
        return [wording]
    columns = {name: dice.sample(slots[name], len(slots[name])) for name in names}
    most = min(ROWS_OF_TEMPLATE, max(len(column) for column in columns.values()))
    return [_fill(wording, columns, turn) for turn in range(most)]


def _fill(wording: str, columns: Mapping[str, list[str]], turn: int) -> str:
    def value(slot: re.Match[str]) -> str:
        column = columns[slot[1]]
        return column[turn % len(column)]

    return _SLOT.sub(value, wording)


def _casual(text: str) -> str:
    """As people type in haste, so that neither capitals nor a question mark decide."""
    return text.lower().rstrip(" .?!。？！") or text


def _balanced(rows: list[Judgement], dice: random.Random) -> list[Judgement]:
    """As many rows of each label within a split, the larger label's kinds shortened alike."""
    kept: list[Judgement] = []
    for split in dict.fromkeys(row.group for row in rows):
        by_label = [
            _spread([row for row in rows if (row.group, row.label) == (split, label)], dice)
            for label in dict.fromkeys(KINDS.values())
        ]
        least = min(len(of_label) for of_label in by_label)
        kept += [row for of_label in by_label for row in of_label[:least]]
    return kept


def _spread(rows: list[Judgement], dice: random.Random) -> list[Judgement]:
    """The rows with their kinds taking turns, each kind's rows in random order."""
    turns: dict[str, int] = defaultdict(int)
    numbered: list[tuple[int, Judgement]] = []
    for row in dice.sample(rows, len(rows)):
        numbered.append((turns[row.kind], row))
        turns[row.kind] += 1
    return [row for _, row in sorted(numbered, key=itemgetter(0))]
