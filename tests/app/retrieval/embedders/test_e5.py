"""e5 as the embedder of a knowledge base, with a tiny encoder."""

import asyncio
import logging
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli.main import cli
from app.composition.embedder import chosen_embedder
from app.ingest import pipeline
from app.ingest.pipeline import ingest, reindex
from app.retrieval.embedder import EmbedderFailed, StaticEmbedder
from app.retrieval.endpoint_embedder import EndpointEmbedder
from app.retrieval.index import IndexMismatch, open_index
from app.retrieval.retriever import HybridRetriever
from app.retrieval.tokenizer import Segmenter
from app.settings import StateSettings
from evaluator.serving.app import create_app
from evaluator.settings import EvaluatorSettings
from graphs.options import Search
from tests.evaluator.in_process import served
from tests.evaluator.tiny import tiny_e5, tiny_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_e5(tmp_path_factory.mktemp("e5"))


@pytest.fixture
def settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> StateSettings:
    monkeypatch.setenv("SELFCRAG_EVALUATOR_EMBEDDER", str(folder))
    return StateSettings(_env_file=None, embedder="e5")  # type: ignore[call-arg]


async def test_without_a_choice_an_index_keeps_its_embedder_and_a_new_one_has_e5(
    settings: StateSettings,
    tmp_path: Path,
    segmenter: Segmenter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def chosen(folder: str, **more: object) -> str:
        unset = {"embedder": "auto", "data_dir": tmp_path / folder, **more}
        return chosen_embedder(settings.model_copy(update=unset), segmenter).name

    assert chosen("new").startswith("e5:")
    # Workers serve no encoder unless they are told to: this process has its own.
    assert chosen("new", worker_url=("http://127.0.0.1:1",)).startswith("e5:")
    assert chosen("new", embedder="e5", worker_url=("http://127.0.0.1:1",)).startswith("e5:")
    for folder, embedder in (
        ("table", StaticEmbedder(segmenter)),
        ("encoder", chosen_embedder(settings, segmenter)),
    ):
        await open_index(tmp_path / folder / "index", embedder)
        assert chosen(folder) == embedder.name
    monkeypatch.delenv("SELFCRAG_EVALUATOR_EMBEDDER")
    monkeypatch.setenv("SELFCRAG_EVALUATOR_WEIGHTS", str(tmp_path / "own"))  # without an encoder
    assert chosen("other").startswith("e5:")
    monkeypatch.setenv("SELFCRAG_EVALUATOR_BATCH_TOKENS", "0")
    with pytest.raises(EmbedderFailed, match="BATCH_TOKENS"):
        chosen("other")


async def test_an_index_of_an_endpoint_that_nobody_names_is_told(
    settings: StateSettings, tmp_path: Path, segmenter: Segmenter
) -> None:
    class Endpoints(StaticEmbedder):
        name = "openai:small"

    unset = {"embedder": "auto", "data_dir": tmp_path}
    await open_index(tmp_path / "index", Endpoints(segmenter))
    with pytest.raises(EmbedderFailed, match=r"embedded by openai:small: name that"):
        chosen_embedder(settings.model_copy(update=unset), segmenter)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "river.md").write_text("# River\n\nThe river is long.\n", encoding="utf-8")
    (folder / "河.md").write_text("# 河\n\n河流很长。\n", encoding="utf-8")
    return folder


async def test_passages_are_found_by_its_vectors_in_both_languages(
    settings: StateSettings, docs: Path, tmp_path: Path, segmenter: Segmenter
) -> None:
    chosen = chosen_embedder(settings, segmenter)
    assert chosen.name.startswith("e5:multilingual-e5-small@")
    index = await open_index(tmp_path / "data" / "index", chosen)
    await ingest([docs], index, segmenter)
    retriever = HybridRetriever(index, segmenter)
    found = await retriever.retrieve("河流很长？", 5, Search(mode="dense"))
    assert {Path(passage.source).name for passage in found} == {"river.md", "河.md"}
    with pytest.raises(IndexMismatch, match="selfcrag ingest --reindex"):
        await open_index(tmp_path / "data" / "index", StaticEmbedder(segmenter))


async def test_long_embedding_is_foretold_once(
    settings: StateSettings,
    docs: Path,
    tmp_path: Path,
    segmenter: Segmenter,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    chosen, folder = chosen_embedder(settings, segmenter), tmp_path / "data" / "index"
    caplog.set_level(logging.WARNING, logger=pipeline.__name__)
    for name, value in (("TOLD_S", 0.0), ("TIMED_CHUNKS", 1), ("BATCH_ROWS", 1)):
        monkeypatch.setattr(pipeline, name, value)
    await ingest([docs], await open_index(folder, chosen), segmenter)
    assert await reindex(folder, chosen, segmenter) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "embedding about 2 chunks will take about 1 minutes"
    ] * 2


async def test_a_worker_gives_the_same_vectors_under_the_same_name(
    settings: StateSettings, folder: Path, tmp_path: Path, segmenter: Segmenter
) -> None:
    here = chosen_embedder(settings, segmenter)
    given = {"weights": tiny_folder(tmp_path), "backend": "torch", "embedder": folder}
    async with served(create_app(EvaluatorSettings.model_validate(given))) as url:
        elsewhere = settings.model_copy(update={"worker_url": (url,)})
        there = await asyncio.to_thread(chosen_embedder, elsewhere, segmenter)
        assert isinstance(there, EndpointEmbedder)
        assert there.name == here.name
        texts = ["The river is long.", "河流很长。"]
        found = await asyncio.to_thread(there.embed, texts)
        assert found == pytest.approx(here.embed(texts), abs=1e-5)
        asked = await there.embed_query("who?")
        assert asked == pytest.approx(await here.embed_query("who?"), abs=1e-5)
        await there.aclose()


def test_a_folder_of_another_kind_is_refused_with_the_command_that_makes_one(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SELFCRAG_EMBEDDER", "e5")
    monkeypatch.setenv("SELFCRAG_EVALUATOR_EMBEDDER", str(tiny_folder(tmp_path / "evaluator")))
    refused = CliRunner().invoke(cli, ["ingest", "docs"])
    assert refused.exit_code == 1
    assert "make one by `selfcrag-evaluator embedder FOLDER`" in " ".join(refused.output.split())


def test_without_a_folder_the_shipped_encoder_is_read(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SELFCRAG_EMBEDDER", "e5")
    monkeypatch.setenv("SELFCRAG_EVALUATOR_EMBEDDER", "")
    done = CliRunner().invoke(cli, ["ingest", "docs"])
    assert done.exit_code == 0, done.output
