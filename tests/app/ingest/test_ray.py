"""`selfcrag ingest --ray`: the same rows as without it."""

import asyncio
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli.main import cli
from app.ingest import pipeline as module
from app.ingest.pipeline import ingest
from app.ingest.ray import ClusterReader, Outcome
from app.ingest.sandbox import ParseTask
from app.retrieval.embedder import StaticEmbedder
from app.retrieval.index import open_index
from app.retrieval.tokenizer import Segmenter
from tests.app.ingest.test_killed import FILES, SECTIONS, rows, write_documents
from tests.app.processes import environment

SELFCRAG = [sys.executable, "-W", "ignore", "-c", "from app.cli import main; main()"]


def ingested(folder: Path, state: Path, *flags: str) -> str:
    settings = environment(data_dir=state, embedder="static") | {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ADDRESS": "local",
    }
    told = subprocess.run(
        [*SELFCRAG, "ingest", "docs", *flags], cwd=folder, env=settings, stderr=subprocess.PIPE
    )
    said = told.stderr.decode()
    assert told.returncode == 3, said
    return said


async def read_by_one(tasks: Sequence[ParseTask]) -> AsyncIterator[tuple[int, Outcome]]:
    """What a reader of the cluster does, without Ray around it, the last document first."""
    reader = ClusterReader()
    for at, task in reversed(list(enumerate(tasks))):
        batch = {"number": [at], "task": [pickle.dumps(task)]}
        outcome = await asyncio.to_thread(reader, batch)
        yield outcome["number"][0], pickle.loads(outcome["outcome"][0])
    await asyncio.to_thread(reader.close)


@pytest.mark.slow
async def test_outcomes_in_any_order_make_the_same_rows(
    tmp_path: Path,
    embedder: StaticEmbedder,
    segmenter: Segmenter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "cluster_outcomes", read_by_one)
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "pump.md").write_text(
        "# Pump\n\nIt was serviced in March.\n\n## Valve\n\nIt is open.\n"
    )
    (docs / "hall.md").write_text("# Hall\n\nThe clock stands in it.\n")
    (docs / "empty.md").touch()
    (docs / "picture.png").write_bytes(b"\x89PNG")
    for state, on_cluster in (("here", False), ("there", True)):
        index = await open_index(tmp_path / state / "index", embedder)
        report = await ingest([docs], index, segmenter, on_cluster=on_cluster)
        assert (len(report.added), report.chunks) == (2, 3)
        refused = {Path(refusal.source).name for refusal in report.refused}
        assert refused == {"empty.md", "picture.png"}
    assert rows(tmp_path / "there") == rows(tmp_path / "here")
    assert len((await ingest([docs], index, segmenter, on_cluster=True)).skipped) == 2


@pytest.mark.slow
def test_what_a_cluster_reads_equals_what_is_read_here(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    write_documents(tmp_path / "docs")
    (tmp_path / "docs" / "broken.pdf").write_bytes(b"%PDF-1.4 broken")
    (tmp_path / "docs" / "empty.md").write_bytes(b"")
    said = ingested(tmp_path, tmp_path / "there", "--ray")
    assert f"{FILES} added, 2 refused" in said
    assert "refused docs/broken.pdf: damaged PDF" in said
    ingested(tmp_path, tmp_path / "here")
    expected = rows(tmp_path / "here")
    assert len(expected) == FILES * SECTIONS
    assert rows(tmp_path / "there") == expected


def test_without_ray_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    file = tmp_path / "pump.md"
    file.write_text("Words.\n", "utf-8")
    result = CliRunner().invoke(
        cli, ["ingest", str(file), "--ray", "--data-dir", str(tmp_path / "data")]
    )
    assert result.exit_code == 1
    assert "pip install 'self-crag[ingest-ray]'" in " ".join(result.output.split())
