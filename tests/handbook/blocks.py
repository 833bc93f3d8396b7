"""The fenced blocks of README and handbook, and the marks behind their opening fence.

A fence opens with the kind of the block and its marks: ```` ```sh needs=docker ````. `needs` names
what a test does not have, `of` the schema of a JSON example, and `serves` says that the last
command stays in the foreground.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
FENCE = re.compile(r"^```(?P<info>.*)\n(?P<text>(?:(?!```).*\n)*)```$", flags=re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block; `place` is `page:line` of its first line."""

    page: str
    place: str
    kind: str
    marks: dict[str, str]
    text: str

    @property
    def needs(self) -> set[str]:
        return set(filter(None, self.marks.get("needs", "").split(",")))

    @property
    def asks(self) -> bool:
        """Whether a shell block does nothing but ask over HTTP."""
        commands = re.findall(r"^\S.*", self.text, flags=re.MULTILINE)
        return self.kind == "sh" and all(command.startswith("curl ") for command in commands)


def blocks_of(path: Path) -> list[Block]:
    """In the order of the page."""
    page = path.relative_to(ROOT).as_posix()
    text = path.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        kind, *marks = match["info"].split() or [""]
        pairs = (mark.partition("=") for mark in marks)
        line = text.count("\n", 0, match.start()) + 2
        found.append(
            Block(page, f"{page}:{line}", kind, {k: v for k, _, v in pairs}, match["text"])
        )
    return found


BLOCKS = [block for path in PAGES for block in blocks_of(path)]


def different(named: Iterable[tuple[T, object]]) -> list[T]:
    """The first of those with the same text: most examples stand in both languages."""
    first: dict[object, T] = {}
    for one, text in named:
        first.setdefault(text, one)
    return list(first.values())


def runnable(kind: str) -> list[Block]:
    """Those of a kind that need nothing a test does not have."""
    return different((it, it.text) for it in BLOCKS if it.kind == kind and not it.needs)
