"""Ctrl-C ends every command without a traceback, and its last line says what was kept."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from app.cli.main import cli
from tests.app.cli.interrupting import QUICK
from tests.app.processes import environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
KEPT = {
    "serve --port 0": "runs under way have ended; documents, runs and conversations are kept",
    "ask Who?": "the question was not answered",
    "ingest notes": "documents read so far are kept, and a repeat goes on from there",
    "evaluate notes/asked.jsonl": "answers so far are kept, and the same command goes on from"
    " there",
    "mcp": "documents brought in and runs are kept",
    "prompts rows.jsonl made.jsonl": "the file may not be whole",
    "backup copy": "no backup was made",
    "restore -": "the state is as it was before",
    "check": "nothing was changed",
    "keys add ann": "`selfcrag keys list` shows whether the key was made",
    "keys list": "nothing was changed",
    "keys revoke abc": "`selfcrag keys list` shows whether the key was revoked",
    "keys ensure ann": "`selfcrag keys list` shows whether the key was made",
    "runs list": "nothing was changed",
    "runs show abc": "nothing was changed",
    "runs diff abc abd": "nothing was changed",
    "runs resume": "runs that have not ended go on at the next start of the service",
    "runs feedback abc 1": "`selfcrag runs show` tells whether the feedback was kept",
    "runs export out.jsonl": "the file may not be whole",
}


def names(group: Any, before: str = "") -> set[str]:
    """Every command, `keys add` and its like among them."""
    own = set[str]()
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        is_group = hasattr(command, "commands")
        own |= names(command, f"{name} ") if is_group else {before + name}
    return own


def test_every_command_interrupted_at_its_work_says_what_was_kept(tmp_path: Path) -> None:
    known = names(typer.main.get_command(cli))
    assert {name for name in known if any(f"{it} ".startswith(f"{name} ") for it in KEPT)} == known
    assert len(known) == len(KEPT)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/tea.md").write_text("# Tea\n\nTea is poured at four.\n", encoding="utf-8")
    (tmp_path / "notes/asked.jsonl").write_text('{"question": "Who?"}\n', encoding="utf-8")
    row = {"question": "Who?", "passages": [], "answer": "Ann."}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row), encoding="utf-8")
    env = environment(data_dir=tmp_path / "state", search="off") | {"PYTHONPATH": str(ROOT)}
    commands = json.dumps([command.split() for command in KEPT])
    helper = [sys.executable, "-m", "tests.app.cli.interrupting", str(tmp_path), commands]
    (tmp_path / "state").mkdir()
    with sqlite3.connect(tmp_path / "state/selfcrag.db") as busy:
        busy.execute("PRAGMA journal_mode = WAL")
        busy.execute("BEGIN EXCLUSIVE")
        done = subprocess.run(
            helper, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=True
        )
    for (command, kept), (status, said) in zip(KEPT.items(), json.loads(done.stdout), strict=True):
        assert "Traceback" not in said
        if command.split()[0] in QUICK and (status == 0 or not said):  # it was done before
            continue
        statuses = (0, 130) if command.startswith("serve") else (130,)
        assert (status in statuses, bool(said)) == (True, True), (command, status, said)
        assert said.splitlines()[-1].endswith(f"ed; {kept}"), (command, said)
