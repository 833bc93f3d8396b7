"""An evaluation that was killed goes on with the same command, to the same bytes."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from tests.app.knowledge import copied
from tests.app.processes import BIN, environment

pytestmark = pytest.mark.slow

QUESTIONS = [
    {"question": "How tall is the red tower?", "answers": ["87 metres"]},
    {"question": "乌木城的红塔高多少米？", "answers": ["八十七米"]},
    {"question": "Who owns the lighthouse of Hornsvik?", "answerable": False},
    {"question": "What is a harbour?"},
] * 2


def answered(state: Path) -> int:
    """How many answers are kept by now."""
    try:
        with sqlite3.connect(f"file:{state}/selfcrag.db?mode=ro", uri=True) as database:
            return int(database.execute("SELECT count(*) FROM evaluation_answers").fetchone()[0])
    except sqlite3.OperationalError:  # there is none yet
        return 0


def test_killed_and_begun_again_it_ends_as_if_nothing_had_happened(
    data_dir: Path, tmp_path: Path
) -> None:
    rows = [{"id": str(n), **row} for n, row in enumerate(QUESTIONS)]
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    command = [BIN / "selfcrag", "evaluate", file, "-v", "rag", "-v", "self_crag", "--out"]
    told = {}
    for name in ("whole", "killed"):
        state = tmp_path / name
        copied(data_dir, state)
        env = environment(data_dir=state, search="off")
        if name == "killed":
            process = subprocess.Popen([*command, tmp_path / "out"], env=env, cwd=tmp_path)
            while answered(state) < 3 and process.poll() is None:
                time.sleep(0.02)
            os.kill(process.pid, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL, "it ended before it was killed"
        known = answered(state)
        subprocess.run([*command, tmp_path / name / "out"], env=env, cwd=tmp_path, check=True)
        told[name] = (tmp_path / name / "out" / "results.json").read_bytes()
        assert (known > 0) == (name == "killed")
    assert told["whole"] == told["killed"]
