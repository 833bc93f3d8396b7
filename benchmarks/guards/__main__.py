"""Mutation check: each guard of the service is taken away in turn, and a named test has to fail.

    python -m benchmarks.guards [--only WORDS …] [--commit HEAD] [--out FILE]

benchmarks/guards.toml says what is edited and which tests are to tell. Edits are made in a copy of
a commit, never in the checkout itself, and every test has to pass in the copy before. A test that
does not end in time counts as failed. Figures go to --out (guards.json), the report beside it; with
--only those of other guards stay. The exit status is 1 where a guard can be taken away unnoticed.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree

from benchmarks import report
from benchmarks.report import FOLDER, ROOT

FIGURES = FOLDER / "guards.json"
TIMEOUT_S = 180.0
HANGS = "did not end"


@dataclass(frozen=True, slots=True)
class Guard:
    """`old` stands once in `file`; with `new` in its place the guard is gone."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


_TABLE = tomllib.loads((FOLDER / "guards.toml").read_text("utf-8"))
GUARDS = [Guard(**row | {"tests": tuple(row["tests"])}) for row in _TABLE["guards"]]


@dataclass(frozen=True, slots=True)
class Removal:
    """What the tests said of a guard's removal; `failed` is the first that did, if any."""

    name: str
    file: str
    tests: Sequence[str]
    failed: Sequence[str]
    took_s: float

    @property
    def is_noticed(self) -> bool:
        return bool(self.failed)


def copied(commit: str, place: Path) -> Path:
    """The files of the commit; what is being written in the checkout is not of it."""
    archive = place / "checkout.tar"
    subprocess.run(["git", "archive", "-o", archive, commit], cwd=ROOT, check=True)
    checkout = place / "checkout"
    with tarfile.open(archive) as files:
        files.extractall(checkout, filter="data")
    return checkout


def outcome(checkout: Path, tests: Iterable[str]) -> Mapping[str, int]:
    """How many cases of each test failed until the first; one that could not even begin is none.

    Raises RuntimeError where they could not be run.
    """
    report = checkout / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider"]
    # What is compiled is found stale by its seconds, and edits are faster.
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.Popen(
        [*command, f"--junitxml={report}", *tests],
        cwd=checkout,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        told, _ = ran.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(ran.pid, signal.SIGKILL)
        ran.communicate()
        return {HANGS: 1}
    if ran.returncode not in (0, 1) or not report.is_file():
        raise RuntimeError(f"The tests could not be run:\n{told[-3000:]}")
    failed: dict[str, int] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name', '')}"
        test = name.partition("[")[0]
        failed[test] = failed.get(test, 0) + (case.find("failure") is not None)
    return failed


def removed(checkout: Path, guard: Guard) -> Removal:
    """Takes the guard away, runs its tests and puts it back."""
    file, began = checkout / guard.file, time.perf_counter()
    text = file.read_text(encoding="utf-8")
    if text.count(guard.old) != 1:
        raise RuntimeError(f"{guard.file} does not hold once: {guard.old!r}")
    try:
        file.write_text(text.replace(guard.old, guard.new), encoding="utf-8")
        told = outcome(checkout, guard.tests)
    finally:
        file.write_text(text, encoding="utf-8")
    failed = sorted(test for test, count in told.items() if count)
    took_s = round(time.perf_counter() - began, 1)
    return Removal(guard.name, guard.file, guard.tests, failed, took_s)


def report_of(removals: Sequence[Removal]) -> str:
    return report.filled("guards/report.md.j2", {}, removals=removals)


def kept(path: Path) -> dict[str, Removal]:
    """What an earlier check found, by name; of guards that are in the table still."""
    if not path.exists():
        return {}
    rows = json.loads(path.read_text(encoding="utf-8"))["guards"]
    names = {guard.name for guard in GUARDS}
    return {row["name"]: Removal(**row) for row in rows if row["name"] in names}


def check_in_place(checkout: Path, guards: Sequence[Guard]) -> None:
    """Raises RuntimeError where a test fails already; file by file, for all take long."""
    tests = dict.fromkeys(test for guard in guards for test in guard.tests)
    for file in dict.fromkeys(test.partition("::")[0] for test in tests):
        own = [test for test in tests if test.startswith(f"{file}::")]
        if failed := [test for test, count in outcome(checkout, own).items() if count]:
            raise RuntimeError(f"These fail with all guards in place: {', '.join(failed)}")


def write(path: Path, found: Mapping[str, Removal]) -> None:
    """Figures and report, after each guard: a check that is stopped keeps what it found."""
    removals = [found[guard.name] for guard in GUARDS if guard.name in found]
    figures = {"guards": [asdict(it) for it in removals]}
    report.write(path, figures, lambda _: report_of(removals))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", nargs="*", help="guards whose name or file holds one of these")
    parser.add_argument("--commit", default="HEAD", help="the one whose files are copied")
    parser.add_argument("--out", type=Path, default=FIGURES)
    options = parser.parse_args(arguments)
    wanted = options.only or [""]
    chosen = [it for it in GUARDS if any(words in f"{it.name} {it.file}" for words in wanted)]
    found = kept(options.out) if options.only else {}
    with tempfile.TemporaryDirectory(prefix="selfcrag-guards-") as place:
        checkout = copied(options.commit, Path(place))
        check_in_place(checkout, chosen)
        for guard in chosen:
            found[guard.name] = it = removed(checkout, guard)
            write(options.out, found)
            word = "noticed" if it.is_noticed else "MISSED"
            sys.stdout.write(f"{word:8} {it.took_s:5} s  {it.name}\n")
            sys.stdout.flush()
    return 0 if all(it.is_noticed for it in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
