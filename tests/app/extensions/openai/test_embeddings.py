"""`/v1/embeddings` asked by OpenAI's own Python client over real HTTP."""

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
import openai
import pytest

from app.retrieval.embedder import EmbedderFailed, StaticEmbedder
from tests.app.extensions.openai.test_chat import client_of
from tests.app.extensions.openai.test_errors import body_of
from tests.app.serving import Serving
from tests.umbra import ENGLISH

TEXTS = [ENGLISH, "乌木城的红塔高八十七米。", "Bread is baked."]


@pytest.fixture(scope="module")
def client(service: Serving) -> Iterator[openai.OpenAI]:
    with client_of(service) as client:
        yield client


def test_texts_have_the_vectors_of_the_index(
    client: openai.OpenAI, embedder: StaticEmbedder
) -> None:
    reply = client.embeddings.create(model="embedder", input=TEXTS)  # base64 by default
    own = embedder.embed(TEXTS)

    assert np.allclose([each.embedding for each in reply.data], own, atol=1e-6)
    assert [each.index for each in reply.data] == [0, 1, 2]
    assert reply.model == embedder.name
    assert reply.usage.total_tokens == reply.usage.prompt_tokens > 10
    for kind in ("float", "base64"):
        body = {"model": embedder.name, "input": ENGLISH, "encoding_format": kind}
        (told,) = client.post("/embeddings", body=body, cast_to=dict[str, Any])["data"]
        vector = told["embedding"]
        if kind == "base64":
            vector = np.frombuffer(base64.b64decode(vector), dtype="<f4")
        assert np.allclose(vector, own[0], atol=1e-6)
    question = {"input_type": "query"}
    (asked,) = client.embeddings.create(model="embedder", input=ENGLISH, extra_body=question).data
    assert np.allclose(asked.embedding, own[0], atol=1e-6), "the table knows no difference"


def test_many_texts_come_in_their_order(client: openai.OpenAI) -> None:
    texts = [f"Tower {n} of Umbra" for n in range(150)]
    reply = client.embeddings.create(model="embedder", input=texts)
    alone = client.embeddings.create(model="embedder", input=texts[129])
    assert len(reply.data) == 150
    assert np.allclose(reply.data[129].embedding, alone.data[0].embedding, atol=1e-6)


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"model": "text-embedding-3-small"}, 404, "model"),
        ({"dimensions": 8}, 400, "dimensions"),
        ({"input": ""}, 422, "input.text"),
        ({"input": []}, 422, "input.texts"),
        ({"input": ["a", " "]}, 422, "input.texts.1"),
        ({"input": [1, 2]}, 422, "input"),
        ({"input": ["a"] * 2049}, 422, "input.texts"),
        ({"input": "a" * 32_001}, 422, "input.text"),
        ({"encoding_format": "hex"}, 422, "encoding_format"),
        ({"input": "红" * 350_000}, 413, None),
    ],
)
def test_a_wrong_request_names_its_field(
    client: openai.OpenAI, fields: dict[str, Any], status: int, param: str | None
) -> None:
    with pytest.raises(openai.APIStatusError) as raised:
        client.post("/embeddings", body={"model": "embedder", "input": "a", **fields}, cast_to=dict)
    assert raised.value.status_code == status
    assert body_of(raised.value)["param"] == param


def test_an_embedder_that_fails_or_is_not_there_is_told(service: Serving) -> None:
    state = service.app.state
    before = state.text_embedding

    class Failing:
        name, dimensions = "remote", 8

        def embed(self, texts: Any) -> Any:
            raise EmbedderFailed("The embedder at http://10.0.0.1 gave no answer")

    try:
        state.text_embedding = type(before)(Failing())
        with client_of(service) as client, pytest.raises(openai.InternalServerError) as failed:
            client.embeddings.create(model="embedder", input="a")
        state.text_embedding = None
        with client_of(service) as client, pytest.raises(openai.NotFoundError, match=": none"):
            client.embeddings.create(model="embedder", input="a")
    finally:
        state.text_embedding = before
    assert failed.value.status_code == 503
    assert body_of(failed.value)["code"] == "service_unavailable"
