"""`selfcrag backup`, `restore` and `check`, and what is told of a state that is damaged."""

import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from app.cli.main import cli
from tests.app.cli.test_main import told
from tests.app.knowledge import copied
from tests.loopback.openai import MODEL, OPENAI_KEY, OpenAIServer

Command = Callable[..., Result]


@pytest.fixture
def state(tmp_path: Path, data_dir: Path) -> Path:
    """The small knowledge base with a database."""
    return copied(data_dir, tmp_path / "state")


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state: Path, clean_environment: None
) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("SELFCRAG_DATA_DIR", str(state))
    monkeypatch.setenv("SELFCRAG_SEARCH", "off")

    def run(*words: str, **settings: str) -> Result:
        env = {f"SELFCRAG_{name}".upper(): value for name, value in settings.items()}
        return CliRunner().invoke(cli, list(words), env=env)

    assert run("keys", "add", "ann").exit_code == 0
    return run


def done(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("target", ["b", "备份.tgz"])
def test_backup_restore_and_check(command: Command, tmp_path: Path, target: str) -> None:
    elsewhere = str(tmp_path / "elsewhere")
    assert f"backed up to {target}: 4 documents" in done(command("backup", target))
    assert f"restored into {elsewhere}" in done(command("restore", target, data_dir=elsewhere))
    assert "nothing is wrong" in done(command("check", data_dir=elsewhere))
    assert " ann " in done(command("keys", "list", data_dir=elsewhere))
    asked = done(command("ask", "How tall is the red tower of Umbra?", data_dir=elsewhere))
    assert "87 metres" in asked


def test_what_cannot_be_done_is_one_clear_line(command: Command, tmp_path: Path) -> None:
    done(command("backup", "b.tar"))
    nothing = str(tmp_path / "nothing")
    for words, said in [
        (("backup", "b.tar"), "there already"),
        (("backup", "nowhere/b.tar"), "no folder nowhere"),
        (("backup", "state/b.tar"), "lies in the state folder"),
        (("restore", "b.tar"), "--force"),
        (("restore", "nope.tar", "--force"), "nope.tar: No such file"),
    ]:
        assert said in told(command(*words))
    assert "nothing to back up" in told(command("backup", "c.tar", data_dir=nothing))
    assert "selfcrag ingest" in told(command("check", data_dir=nothing))
    assert not (tmp_path / "nothing").exists()
    assert not (tmp_path / "c.tar").exists()


def truncated(state: Path) -> None:
    os.truncate(state / "selfcrag.db", 40_000)


def random_bytes(state: Path) -> None:
    size = (state / "selfcrag.db").stat().st_size
    with (state / "selfcrag.db").open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(size - 4096))


def no_database(state: Path) -> None:
    (state / "selfcrag.db").write_bytes(os.urandom(20_000))


@pytest.mark.parametrize("damage", [truncated, random_bytes, no_database])
def test_a_damaged_database_is_one_clear_line(
    command: Command, state: Path, damage: Callable[[Path], None]
) -> None:
    done(command("backup", "b.tar"))
    damage(state)
    for words in (("runs", "list"), ("ask", "Who?"), ("serve", "--port", "0"), ("check",)):
        assert "selfcrag restore FROM" in told(command(*words)), words
    assert "selfcrag check" in told(command("backup", "c.tar"))
    done(command("restore", "b.tar", "--force"))
    done(command("check"))


def test_a_data_folder_that_cannot_be_is_one_clear_line(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    below = str(tmp_path / "file" / "state")
    for words in (("serve", "--port", "0"), ("ingest", "."), ("ask", "Who?")):
        assert "SELFCRAG_DATA_DIR" in told(command(*words, data_dir=below)), words


def test_a_locked_database_is_one_clear_line(
    command: Command, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.storage.database.BUSY_TIMEOUT_MS", 50)
    locking = sqlite3.connect(state / "selfcrag.db")
    locking.execute("BEGIN IMMEDIATE")
    try:
        for words in (("runs", "list"), ("ask", "Who?"), ("serve", "--port", "0")):
            assert "another program holds it" in told(command(*words)), words
    finally:
        locking.close()


def without_manifests(state: Path) -> None:
    for manifest in (state / "index" / "chunks.lance" / "_versions").glob("*.manifest"):
        os.truncate(manifest, 50)


def no_folder(state: Path) -> None:
    shutil.rmtree(state / "index")
    (state / "index").touch()


@pytest.mark.parametrize("damage", [without_manifests, no_folder])
def test_a_damaged_index_is_one_clear_line(
    command: Command, state: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    (tmp_path / "new.md").write_text("Something new.\n", "utf-8")
    done(command("backup", "b.tar"))
    damage(state)
    for words in (
        ("ingest", "new.md"),
        ("ask", "Who?"),
        ("serve", "--port", "0"),
        ("check",),
        ("backup", "c.tar"),
    ):
        assert str(state / "index") in told(command(*words)), words
    done(command("restore", "b.tar", "--force"))
    done(command("check"))


def test_damaged_rows_are_found_by_check_and_not_backed_up(command: Command, state: Path) -> None:
    for data in (state / "index" / "chunks.lance" / "data").iterdir():
        data.write_bytes(os.urandom(data.stat().st_size))
    assert "restore a backup or delete" in told(command("check"))
    assert "restore a backup or delete" in told(command("backup", "b.tar"))
    assert not Path("b.tar").exists()


def test_check_says_what_is_configured_and_answers(
    command: Command, state: Path, openai_server: OpenAIServer
) -> None:
    lines = done(command("check", worker_url="")).splitlines()
    assert [line[:13].strip() for line in lines[:-1]] == [
        *("data folder", "index", "evaluator"),
        *("chat model", "web search", "keys"),
    ]
    said = "\n".join(lines)
    assert "GB free" in said
    assert re.search(r"index +4 documents in \d+ chunks, embedder static", said)
    assert re.search(r"evaluator +in the service, .+, answers", said)
    assert "none: answers are quotations" in said
    assert re.search(r"web search +off", said)
    assert "asked of every request: 1 valid" in said
    assert lines[-1] == f"{state}: nothing is wrong"

    with_model = {"generator": "chat", "chat_model": f"openai:{MODEL}@{openai_server.base_url}"}
    with_model |= {"chat_api_key": OPENAI_KEY}
    assert f"{MODEL}, answers" in done(command("check", **with_model))
    assert len(openai_server.requests) == 1


def test_check_says_that_nothing_was_read_in(command: Command, tmp_path: Path) -> None:
    empty = str(tmp_path / "empty")
    done(command("keys", "add", "ann", data_dir=empty))
    assert "no documents: read some in by `selfcrag ingest PATH`" in done(
        command("check", data_dir=empty)
    )


@pytest.mark.parametrize(
    ("settings", "part", "said"),
    [
        (
            {"worker_url": "http://127.0.0.1:9"},
            "evaluator",
            "No answer from the evaluator at http://127.0.0.1:9",
        ),
        (
            {"generator": "chat", "chat_model": "openai:m@http://127.0.0.1:9/v1"},
            "chat model",
            "The chat endpoint at 127.0.0.1:9 could not be reached",
        ),
    ],
)
def test_check_names_the_part_that_does_not_answer(
    command: Command, settings: dict[str, str], part: str, said: str
) -> None:
    result = command("check", **settings)

    assert result.exit_code == 1
    fault, *others = [line for line in result.stdout.splitlines() if "see below" in line]
    assert (fault.startswith(part), others) == (True, [])
    assert f"selfcrag: {said}" in result.stderr
    assert "nothing is wrong" not in result.output
