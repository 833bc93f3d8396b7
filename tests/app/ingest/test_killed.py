"""`selfcrag ingest` killed twice: what is finished later equals what was never disturbed."""

import subprocess
import time
from pathlib import Path
from typing import Any

import lancedb
import pytest

from tests.app.processes import BIN, environment

FILES, SECTIONS = 200, 8
WAIT_S = 240.0


def write_documents(folder: Path) -> None:
    for number in range(FILES):
        name, words = (
            ("item", "The part {} stands in hall {}.")
            if number % 2
            else ("部件", "部件{}放在{}号厅。")
        )
        sections = (
            f"## {name} {number}.{at}\n\n{words.format(f'{number}-{at}', at)}\n"
            for at in range(SECTIONS)
        )
        folder.mkdir(exist_ok=True)
        (folder / f"{name}{number:03}.md").write_text(
            f"# {name} {number}\n\n" + "\n".join(sections)
        )


def started(folder: Path, state: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [str(BIN / "selfcrag"), "ingest", "docs"],
        cwd=folder,
        env=environment(data_dir=state, embedder="static"),  # e5's last digits hang on the batch
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def commits(state: Path) -> int:
    """Those that brought rows, each in a file of its own; the latest may still be cut short."""
    return len(list((state / "index/chunks.lance/data").glob("*.lance")))


def kill_after(folder: Path, state: Path, more: int) -> int:
    """The commits there are when the process is killed, `more` than before."""
    before = commits(state)
    with started(folder, state) as process:
        give_up_at = time.monotonic() + WAIT_S
        while commits(state) < before + more and time.monotonic() < give_up_at:
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.002)
        process.kill()
    return commits(state)


def rows(state: Path) -> dict[str, dict[str, Any]]:
    table = lancedb.connect(state / "index").open_table("chunks").to_arrow()
    kept = table.drop_columns(["added_at"]).to_pylist()
    found = {row["id"]: row for row in kept}
    assert len(found) == len(kept), "no row twice"
    return found


@pytest.mark.slow
def test_a_killed_ingest_ends_as_one_that_was_never_disturbed(tmp_path: Path) -> None:
    write_documents(tmp_path / "docs")
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    at_first = kill_after(tmp_path, killed, more=2)
    between = rows(killed)
    assert kill_after(tmp_path, killed, more=1) > at_first
    assert 0 < len(between) <= len(rows(killed)) < FILES * SECTIONS
    for state in (killed, whole):
        with started(tmp_path, state) as process:
            assert process.wait() == 0
    expected = rows(whole)
    assert len(expected) == FILES * SECTIONS
    assert rows(killed) == expected
