"""Vectors of an endpoint, over a loopback server that speaks OpenAI's form."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from app.cli.main import cli
from app.composition.embedder import chosen_embedder
from app.ingest import pipeline
from app.ingest.pipeline import ingest
from app.resilience.deadline import run_ends_at
from app.retrieval import endpoint_embedder as module
from app.retrieval.embedder import EmbedderFailed
from app.retrieval.endpoint_embedder import EndpointEmbedder
from app.retrieval.index import open_index
from app.retrieval.retriever import HybridRetriever
from app.retrieval.tokenizer import Segmenter
from app.settings import StateSettings
from graphs.errors import RetrieverFailed
from graphs.options import Scope
from tests.loopback.embeddings import EMBEDDINGS_MODEL, WIDTH, EmbeddingsServer
from tests.loopback.fault_proxy import Fault, FaultProxy
from tests.loopback.openai import OPENAI_KEY
from tests.loopback.server import free_port

TEXTS = [f"the mill number {number} grinds corn" for number in range(10)]


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddingsServer]:
    with EmbeddingsServer() as server:
        yield server


@pytest.fixture
def server(running: EmbeddingsServer) -> EmbeddingsServer:
    running.reset()
    return running


def made(server: EmbeddingsServer, *further: str, **options: Any) -> EndpointEmbedder:
    urls = [*further, server.base_url]
    return EndpointEmbedder(urls, EMBEDDINGS_MODEL, OPENAI_KEY, name="loopback", **options)


def settings(server: EmbeddingsServer, **more: object) -> StateSettings:
    chosen = {
        "embedder": f"openai:{EMBEDDINGS_MODEL}@{server.base_url}",
        "embedder_key": OPENAI_KEY,
    }
    return StateSettings.model_validate(chosen | more)


async def test_batches_are_bounded_and_several_are_under_way(
    server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_PASSAGES", 3)
    monkeypatch.setattr(module, "MAX_CONCURRENT", 2)
    embedder = made(server)
    server.reset()
    server.together = 2
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (10, WIDTH)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(10), abs=1e-5)
    assert sorted(map(len, server.batches)) == [1, 3, 3, 3]
    assert server.most_at_once == 2
    assert vectors[7] == pytest.approx(await embedder.embed_query(TEXTS[7]))  # in the order asked
    assert embedder.embed([]).shape == (0, WIDTH)
    await embedder.aclose()


async def test_prefixes_are_put_before_questions_and_passages(server: EmbeddingsServer) -> None:
    embedder = made(server, dimensions=WIDTH, prefixes=("query: ", "passage: "))
    assert server.requests == []  # the width was told
    embedder.embed(["a"])
    await embedder.embed_query("b")
    assert server.batches == [["passage: a"], ["query: b"]]
    await embedder.aclose()


@pytest.mark.parametrize(("status", "asked"), [(503, 2), (429, 2), (400, 1), (401, 1)])
async def test_a_batch_is_asked_once_more_where_that_may_help(
    server: EmbeddingsServer, status: int, asked: int
) -> None:
    embedder = made(server, dimensions=WIDTH)
    server.status, server.headers = status, {"retry-after": "0"}
    with pytest.raises(EmbedderFailed, match=f"HTTP {status}") as failed:
        embedder.embed(["a"])
    assert len(server.requests) == asked
    assert OPENAI_KEY not in str(failed.value)
    await embedder.aclose()


async def test_an_address_that_is_gone_is_stood_in_for(
    server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_PASSAGES", 1)
    monkeypatch.setattr(module, "MAX_CONCURRENT", 1)
    embedder = made(server, f"http://127.0.0.1:{free_port()}/v1")
    assert embedder.embed(["a", "b", "c"]).shape == (3, WIDTH)
    await embedder.aclose()


async def test_an_endpoint_that_fails_three_questions_is_let_be(server: EmbeddingsServer) -> None:
    embedder = made(server, dimensions=WIDTH)
    server.status = 500
    for _ in range(3):
        with pytest.raises(EmbedderFailed, match="failing on its side"):
            await embedder.embed_query("a")
    assert len(server.requests) == 3
    server.status, server.answers = 200, None
    with pytest.raises(EmbedderFailed, match="failed 3 times in a row and is asked again in"):
        await embedder.embed_query("a")
    assert len(server.requests) == 3
    assert embedder.circuits["embedder"].openness() == 1
    embedder.circuits["embedder"].close()
    assert (await embedder.embed_query("a")).shape == (WIDTH,)
    await embedder.aclose()


async def test_questions_go_to_the_address_that_answers(server: EmbeddingsServer) -> None:
    embedder = made(server, f"http://127.0.0.1:{free_port()}/v1", dimensions=WIDTH)
    failed = 0
    for _ in range(8):
        try:
            await embedder.embed_query("a")
        except EmbedderFailed:
            failed += 1
    assert failed == 3
    assert sorted(one.openness() for one in embedder.circuits.values()) == [0, 1]
    await embedder.aclose()


@pytest.mark.parametrize("fault", ["hangs", "slow drip"])
async def test_a_silent_endpoint_leaves_the_run_time_to_search_by_words(
    server: EmbeddingsServer, tmp_path: Path, segmenter: Segmenter, fault: Fault
) -> None:
    (tmp_path / "mill.md").write_text("# Mill\n\nThe mill grinds corn.\n", encoding="utf-8")
    with FaultProxy(server.port) as proxy:
        url = f"{proxy.url}/v1"
        embedder = EndpointEmbedder([url], EMBEDDINGS_MODEL, OPENAI_KEY, name="x", dimensions=WIDTH)
        index = await open_index(tmp_path / "data" / "index", embedder)
        await ingest([tmp_path / "mill.md"], index, segmenter)
        retriever = HybridRetriever(index, segmenter)
        await retriever.retrieve("Where is the mill?", 3)
        proxy.inject(fault)
        ends_at = asyncio.get_running_loop().time() + 1.5
        with (
            run_ends_at(ends_at),
            pytest.raises(RetrieverFailed, match=r"run's deadline left.*words alone") as failed,
        ):
            await retriever.retrieve("What does the mill grind?", 3)
        assert asyncio.get_running_loop().time() < ends_at
        assert "grinds corn" in failed.value.passages[0].text
        await embedder.aclose()


async def test_a_question_does_not_wait_long(
    server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUERY_TIMEOUT_S", 0.05)
    embedder = made(server, dimensions=WIDTH)
    server.delay_s = 0.5
    with pytest.raises(EmbedderFailed, match=r"did not finish within 0\.05 s"):
        await embedder.embed_query("a")
    await embedder.aclose()


async def test_vectors_of_another_width_are_refused(server: EmbeddingsServer) -> None:
    embedder = made(server)
    assert embedder.dimensions == WIDTH
    server.width = 7
    with pytest.raises(EmbedderFailed, match="SELFCRAG_EMBEDDER_DIMENSIONS"):
        embedder.embed(["a"])
    await embedder.aclose()


async def test_the_settings_choose(server: EmbeddingsServer, segmenter: Segmenter) -> None:
    names = set()
    for more in (
        {},
        {"embedder_dimensions": WIDTH},
        {"embedder_passage_prefix": "passage: "},
        {"embedder_query_prefix": "query: "},
        {"embedder": "worker", "worker_url": (server.url,)},
    ):
        embedder = chosen_embedder(settings(server, **more), segmenter)
        assert isinstance(embedder, EndpointEmbedder)
        names.add(embedder.name)
        await embedder.aclose()
    assert len(names) == 4  # a question's prefix changes no stored vector
    assert f"worker:{EMBEDDINGS_MODEL}" in names
    server.reset()
    worker = chosen_embedder(
        settings(server, embedder="worker", worker_url=(server.url,)), segmenter
    )
    await worker.embed_query("a")
    assert [request.body["input_type"] for request in server.requests if request.body] == [
        "passage",
        "query",
    ]
    assert isinstance(worker, EndpointEmbedder)
    await worker.aclose()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"embedder": "openai:m", "embedder_key": ""}, "needs SELFCRAG_EMBEDDER_KEY"),
        ({"embedder": "openai"}, "openai:model@url is expected"),
        ({"embedder": "worker"}, "needs SELFCRAG_WORKER_URL"),
    ],
)
def test_an_incomplete_choice_is_told(
    server: EmbeddingsServer, more: dict[str, object], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        settings(server, **more)


def documents(folder: Path, many: int) -> Path:
    """As many files, of 30 chunks each."""
    folder.mkdir()
    for number in range(many):
        text = "\n\n".join(f"## Wheel {wheel}\n\nIt grinds corn." for wheel in range(30))
        (folder / f"{number}.md").write_text(f"# Mill {number}\n\n{text}\n", encoding="utf-8")
    return folder


async def test_an_endpoint_that_fails_midway_leaves_whole_documents_and_a_clear_word(
    server: EmbeddingsServer,
    tmp_path: Path,
    segmenter: Segmenter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipeline, "BATCH_ROWS", 60)
    folder = documents(tmp_path / "docs", 3)
    embedder = made(server, dimensions=WIDTH)
    index = await open_index(tmp_path / "data" / "index", embedder)
    server.answers = 1
    with pytest.raises(EmbedderFailed, match="failing on its side"):
        await ingest([folder], index, segmenter)
    before = await index.documents(Scope())
    assert len(before) == 2
    assert await index.count(Scope()) == sum(document.chunks for document in before)
    server.answers = None
    report = await ingest([folder], index, segmenter)
    assert len(report.added) == 1
    assert len(report.skipped) == 2
    await embedder.aclose()


def test_ingest_and_reindex_use_the_chosen_embedder_or_say_why_not(
    server: EmbeddingsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mill.md").write_text("# Mill\n\nThe mill grinds corn.\n", encoding="utf-8")
    assert CliRunner().invoke(cli, ["ingest", "mill.md"]).exit_code == 0
    for name, value in {
        "EMBEDDER": f"openai:{EMBEDDINGS_MODEL}@{server.base_url}",
        "EMBEDDER_KEY": OPENAI_KEY,
    }.items():
        monkeypatch.setenv(f"SELFCRAG_{name}", value)
    refused = CliRunner().invoke(cli, ["ingest", "mill.md"])
    assert refused.exit_code == 1
    assert "--reindex" in refused.output
    server.answers, server.headers = 1, {"retry-after": "0"}  # the width is still told
    failed = CliRunner().invoke(cli, ["ingest", "--reindex"])
    assert failed.exit_code == 1
    assert "failing on its side" in " ".join(failed.output.split())
    server.answers = None
    assert CliRunner().invoke(cli, ["ingest", "--reindex"]).exit_code == 0
    assert ["Mill\nThe mill grinds corn."] in server.batches
