"""The knowledge compressed by a worker's language model, from options to answer."""

from pathlib import Path

import pytest

from app.composition.services import WorkerCompressor, compressors_of, open_services
from app.settings import Settings
from evaluator.client import EvaluatorClient
from evaluator.schema import Ready
from evaluator.settings import EvaluatorSettings
from graphs.errors import CompressorFailed
from tests.app.conftest import Loaded
from tests.app.serving import Serve
from tests.evaluator.in_process import asking
from tests.evaluator.tiny_language_model import tiny_language_model
from tests.graphs.languages import World, both_languages


async def test_a_worker_with_a_model_alone_offers_both_methods(loaded: Loaded) -> None:
    async with asking(loaded.create_worker(EvaluatorSettings()), is_raising=False) as http:
        client = EvaluatorClient(http)

        assert compressors_of(client, await client.abilities()) == {}
        with pytest.raises(CompressorFailed, match="SELFCRAG_EVALUATOR_COMPRESSOR"):
            await WorkerCompressor(client, "longllmlingua").compress("q", ["a"], 0.5)
        offered = compressors_of(client, Ready(model="m", compressor="tiny"))
        assert set(offered) == {"longllmlingua", "selective_context"}


@both_languages
def test_the_step_tells_what_was_saved(world: World, serve: Serve) -> None:
    parts = world.parts(world.full, f"{world.full} {world.off}", offline=True)
    sent = serve(parts.services).stream(
        world.question, workflow="rag", options={"compress": "extractive", "compress_ratio": 0.5}
    )
    (detail,) = [
        event.data["detail"]
        for event in sent
        if event.name == "step"
        and event.data["step"] == "generate"
        and event.data["phase"] == "end"
    ]

    told = detail["compression"]
    assert 0 < told["after_tokens"] < told["before_tokens"]
    answer = next(event.data for event in sent if event.name == "answer")
    for citation in answer["citations"]:
        assert citation["text"] in {strip["text"] for strip in answer["strips"]}
        assert all(answer["answer"][start:end] for start, end in citation["spans"])


@pytest.mark.slow
async def test_the_service_compresses_by_the_worker_in_its_process(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_language_model(tmp_path / "tiny")
    monkeypatch.setenv("SELFCRAG_EVALUATOR_COMPRESSOR", str(folder))
    async with open_services(Settings(_env_file=None, data_dir=data_dir, search="off")) as parts:
        text = "造纸厂于1852年开业，人们这样说。它烧过两次；没有人受伤。"
        (short,) = await parts.compressors["selective_context"].compress("何时？", [text], 0.5)

        assert 0 < len(short) < len(text)
        assert not parts.reranks
