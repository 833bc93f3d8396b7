"""Runs commands as forks of one process that has loaded them, each interrupted at its work.

python -m tests.app.cli.interrupting FOLDER COMMANDS    COMMANDS: JSON, a list of lists of words

Prints JSON: of each command its exit status and what it said.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from app.cli import ingest, keys, main, runs, serve
from app.extensions.backup import command as backup
from app.extensions.evaluation import command as evaluate
from app.extensions.mcp import stdio as mcp
from app.storage import database

LOADED = (backup, evaluate, ingest, keys, mcp, runs, serve)
AT_WORK_S, SOON_S = 0.2, 0.02
QUICK = ("backup", "check", "prompts")
"""They wait for no lock here."""
START_S = 60.0


def interrupt(log: Path) -> None:
    """As the terminal does, once the command is at its work: a service when it answers."""
    time.sleep(SOON_S if sys.argv[1] in QUICK else AT_WORK_S)
    give_up_at = time.monotonic() + START_S
    while sys.argv[1] == "serve" and time.monotonic() < give_up_at:
        if "answers on" in log.read_text(encoding="utf-8"):
            break
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGINT)


def forked(words: list[str], log: Path) -> int:
    if pid := os.fork():
        return pid
    out = os.open(log, os.O_CREAT | os.O_WRONLY)
    os.dup2(out, 1)
    os.dup2(out, 2)
    sys.argv = ["selfcrag", *words]
    os.dup2(os.pipe()[0], 0)  # nothing comes, and it does not end
    if words[0] in ("serve", "ask", "ingest", "evaluate", "mcp", "restore"):
        os.environ["SELFCRAG_DATA_DIR"] += f"-{words[0]}"
    handle = signal.signal

    def handled(number: int, handler: Any) -> Any:
        before = handle(number, handler)
        if handler is signal.default_int_handler:
            threading.Thread(target=interrupt, args=(log,), daemon=True).start()
        return before

    signal.signal = handled  # type: ignore[assignment]
    main()
    os._exit(0)


def told(folder: Path, commands: list[list[str]]) -> list[tuple[int, str]]:
    database.BUSY_TIMEOUT_MS = 600
    logs = [folder / f"{n}.log" for n in range(len(commands))]
    pids = [forked(words, log) for words, log in zip(commands, logs, strict=True)]
    statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    return [(s, log.read_text(encoding="utf-8")) for s, log in zip(statuses, logs, strict=True)]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(told(Path(sys.argv[1]), json.loads(sys.argv[2]))))
