"""Commands are run as they stand, page by page, each page in a folder of its own.

`make` is asked what it would do, since its targets have tests of their own.
"""

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.knowledge import copied
from tests.app.processes import BIN, Process, environment
from tests.handbook.blocks import BLOCKS, PAGES, ROOT, Block, different

pytestmark = pytest.mark.slow
SECONDS = 900
PRELUDE = f"""set -euo pipefail
make() {{ case "$1" in
  serve) exec selfcrag serve ;; worker) exec selfcrag-evaluator serve ;;
  *) command make --dry-run --directory {ROOT} "$@" >/dev/null ;; esac }}
"""
LABELLED = """\
{"question": "What is a strip?", "passage": "A strip is a few sentences.", "label": true}
{"question": "When is the web searched?", "passage": "Bread is baked.", "label": -1}
"""


def is_command(block: Block) -> bool:
    return block.kind == "sh" and not block.needs and not block.asks


def is_script(block: Block) -> bool:
    return block.kind == "python" and "127.0.0.1" not in block.text and not block.asks


def ending(page: str) -> tuple[str, ...]:
    """What is run of a page where it has commands that end by themselves."""
    blocks = [b for b in BLOCKS if b.page == page and "serves" not in b.marks]
    if not any(is_command(block) for block in blocks):
        return ()
    return tuple(block.text for block in blocks if is_command(block) or is_script(block))


SERVING = different(
    (block, block.text) for block in BLOCKS if is_command(block) and "serves" in block.marks
)
ENDING = different(
    (page, ending(page))
    for page in (path.relative_to(ROOT).as_posix() for path in PAGES)
    if ending(page)
)


@pytest.fixture(scope="session")
def asked(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The small knowledge base with a run that the pages name, and the run's id."""
    state = copied(data_dir, tmp_path_factory.mktemp("asked") / "state")
    told = ran(["selfcrag", "ask", "What is bread?", "--json"], state, surroundings(state))
    return state, json.loads(told)["run_id"]


@pytest.fixture
def state(asked: tuple[Path, str], place: Path) -> Path:
    """Of its own, with what the pages take for granted."""
    (place / "evaluator").symlink_to(ROOT / "evaluator")
    (place / "questions.jsonl").write_text(LABELLED, encoding="utf-8")
    (place / "path/to/your").mkdir(parents=True)
    (place / "path/to/your/documents").symlink_to(place / "notes")
    return Path(shutil.copytree(asked[0], place / ".selfcrag"))


def ran(command: list[str], place: Path, env: dict[str, str]) -> str:
    """What it printed; it must end well."""
    done = subprocess.run(
        command, cwd=place, env=env, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def surroundings(state: Path, **settings: object) -> dict[str, str]:
    env = environment(data_dir=state, search="off", **settings)
    return {**env, "PATH": f"{BIN}:{env['PATH']}"}


@pytest.mark.parametrize("page", ENDING)
def test_the_commands_of_a_page_end_well(
    page: str, place: Path, state: Path, asked: tuple[Path, str]
) -> None:
    env = {**surroundings(state), "RUN_ID": asked[1]}
    for block in BLOCKS:
        if block.page != page or "serves" in block.marks:
            continue
        if is_script(block):
            ran([sys.executable, "-c", block.text], place, env)
        elif is_command(block):
            script = PRELUDE + block.text.replace(".venv/bin/", "")
            ran(["bash", "-c", without_curl(script)], place, env)


def without_curl(script: str) -> str:
    """What the examples over HTTP do is tested beside this."""
    return f"curl() {{ :; }}\n{script}"


@pytest.mark.parametrize("block", SERVING, ids=lambda block: block.place)
def test_what_serves_gets_ready_and_ends(block: Block, place: Path, state: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = block.text.replace(".venv/bin/", "")
    for written in ("8080", "8000"):
        text = text.replace(f"--port {written}", f"--port {port}")
    env = surroundings(state, port=port, evaluator_port=port)
    process = Process(["bash", "-c", PRELUDE + text], place / "log", place, env)
    try:
        process.wait_for(f"http://127.0.0.1:{port}/health/ready")
    finally:
        process.end()
