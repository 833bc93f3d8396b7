import io
from pathlib import Path

import pytest
from filelock import FileLock
from rich.console import Console
from rich.text import Text
from typer.testing import CliRunner

from app.cli import ingest as command
from app.cli.main import cli
from app.retrieval import index as lock
from app.retrieval.index import lock_file


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    Path("docs/pump.md").write_text("# Pump\n\nIt was serviced in March.\n", "utf-8")


def call(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["ingest", *arguments, "--data-dir", "data"])
    return result.exit_code, " ".join(result.output.split())


def test_the_summary_tells_what_became_of_every_file() -> None:
    scan = Path("docs/scan.pdf")
    scan.write_bytes(b"%PDF-1.4 broken")
    code, output = call("docs")
    assert code == 3
    assert "1 added, 1 refused · 1 chunks" in output
    assert "refused docs/scan.pdf: damaged PDF" in output
    scan.unlink()
    code, output = call("docs")
    assert (code, "1 unchanged" in output) == (0, True)
    Path("docs/pump.md").unlink()
    code, output = call("docs", "--prune")
    assert (code, "1 removed" in output) == (0, True)
    assert "gone" not in output


def test_documents_whose_file_is_gone_are_told_until_they_are_pruned() -> None:
    for name in "abcd":
        Path(f"docs/{name}.md").write_text(f"Valve {name} is open.\n", "utf-8")
    call("docs")
    for name in "abcd":
        Path(f"docs/{name}.md").unlink()
    code, output = call("docs")
    assert (code, "1 unchanged, 4 gone" in output) == (0, True)
    assert "gone docs/a.md, docs/b.md, docs/c.md, …: no file is there any more" in output
    assert "--prune removes it" in output
    assert "4 removed" in call("docs", "--prune")[1]
    assert "gone" not in call("docs")[1]


def test_it_fails_where_nothing_could_be_read() -> None:
    Path("docs/empty.md").write_bytes(b"")
    assert call("docs/empty.md")[0] == 1
    code, output = call("missing")
    assert (code, "cannot be read" in output) == (1, True)


def test_a_path_is_needed() -> None:
    code, output = call()
    assert code == 2
    assert "name a file, a folder or a URL" in output


def test_reindex_keeps_what_is_stored() -> None:
    call("docs")
    code, output = call("--reindex")
    assert (code, "renewed 1 chunks" in output) == (0, True)


def test_the_data_folder_comes_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of providers are not asked for."""
    monkeypatch.setenv("SELFCRAG_DATA_DIR", "elsewhere")
    monkeypatch.setenv("SELFCRAG_SEARCH", "searxng")
    assert CliRunner().invoke(cli, ["ingest", "docs"]).exit_code == 0
    assert Path("elsewhere/index").is_dir()


def test_names_are_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=200)
    monkeypatch.setattr(command, "console", terminal)
    Path("docs/[").mkdir()
    Path("docs/[/red].md").write_text("阀门开着。\n", "utf-8")
    # A process of its own, which a PDF is read in, starts long enough for the name to be seen.
    Path("docs/[/b].pdf").write_bytes(b"%PDF-1.4 broken")
    assert call("docs")[0] == 3
    assert "docs/[/" in screen.getvalue()
    assert "docs/[/b].pdf: damaged PDF" in Text.from_ansi(screen.getvalue()).plain


def test_there_is_nothing_to_renew_before_something_was_read() -> None:
    code, output = call("--reindex")
    assert (code, "There is no index in" in output, "selfcrag ingest PATH" in output) == (
        1,
        True,
        True,
    )


@pytest.mark.parametrize("arguments", [["docs"], ["--reindex"]])
def test_a_file_cannot_be_the_data_folder(arguments: list[str]) -> None:
    Path("data").write_text("words", "utf-8")
    code, output = call(*arguments)
    assert (code, "--data-dir" in output) == (1, True)
    assert f"folder {Path('data').resolve()} cannot be used" in output


@pytest.mark.parametrize("part", ["_versions", "data"])
def test_a_damaged_index_is_told(part: str) -> None:
    call("docs")
    for file in Path("data/index/chunks.lance", part).iterdir():
        file.write_bytes(b"damaged")
    for argument in ("docs", "--reindex"):
        code, output = call(argument)
        assert code == 1
        assert f"selfcrag: The index in {Path('data/index').resolve()} cannot be used" in output
        assert "delete that folder and run `selfcrag ingest PATH`" in output
        assert "cargo" not in output, "no trace of the library"


def test_a_busy_knowledge_base_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "LOCK_TIMEOUT_S", 0.1)
    with FileLock(lock_file(Path("data/index"))):
        code, output = call("docs")
    assert code == 1
    assert "another process is writing" in output
    assert call("docs")[0] == 0


def test_collections_are_read_and_pruned_apart() -> None:
    for collection in ("default", "手册"):
        assert "1 added" in call("docs", "--collection", collection)[1]
        assert "1 unchanged" in call("docs", "--collection", collection)[1]
    Path("docs/pump.md").unlink()
    assert "1 removed" in call("docs", "--prune", "--collection", "手册")[1]
    assert "1 removed" in call("docs", "--prune")[1]
    code, output = call("docs", "--collection", "../docs")
    assert (code, "a name has 1 to 64 letters" in output) == (1, True)
