"""What benchmarks read and write: rows; figures as JSON, and a page made of these alone."""

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent
DOCS = ROOT / "docs"
Figures = dict[str, Any]
_STARTED = time.monotonic()
_PAGES = Environment(
    loader=FileSystemLoader(FOLDER), undefined=StrictUndefined, trim_blocks=True,
    lstrip_blocks=True, keep_trailing_newline=True,
)  # fmt: skip


def write(path: Path, figures: Figures, page: Callable[[Figures], str]) -> None:
    """Both files; `path` is the JSON's, and the page is made of what stands there."""
    text = json.dumps(figures, indent=1, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")
    path.with_suffix(".md").write_text(page(json.loads(text)), encoding="utf-8")


def filled(template: str, figures: Figures, **values: object) -> str:
    """The page of a Jinja template of this folder."""
    return _PAGES.get_template(template).render(figures=figures, **values)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def rows_of(file: Path) -> Iterator[dict[str, Any]]:
    """JSON lines, gzip-compressed or not."""
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def measured_when() -> str:
    """When, and at which revision, as a sentence for a report."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    revision = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return f"Measured on {datetime.now(UTC):%Y-%m-%d} at revision {revision or 'unknown'}."


def say(line: str) -> None:
    """Progress, with the seconds since the start."""
    sys.stderr.write(f"{time.monotonic() - _STARTED:5.0f} s  {line}\n")
