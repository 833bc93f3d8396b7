"""illustrate over HTTP: stored images for texts, stored captions for images, nothing made up."""

import io
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import openai
import pytest
from PIL import Image

from app.main import create_app
from app.retrieval.image_index import LEXICAL_THRESHOLDS
from app.settings import Settings
from tests.app.pictures import drawn, encoded
from tests.app.serving import Serving
from tests.app.test_node_clients import AI_SDK, told_by
from tests.loopback.images import ImagesServer

PAGE = """# Cranes

The crane of Umbra lifts nine tonnes.

![The harbour crane of Umbra in winter](data:image/png;base64,{crane})

# 水车

乌木城的水车每分钟转四圈。

![乌木城的水车](data:image/png;base64,{wheel})
"""


def data_url(content: bytes) -> str:
    return f"data:image/png;base64,{b64encode(content).decode()}"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The service over a page with two pictures, one of which tells a secret place."""
    state = tmp_path_factory.mktemp("pictures")
    exif = Image.Exif()
    exif[0x010E] = "48.8583 N"
    crane = b64encode(encoded(drawn(1), exif=exif)).decode()
    page = PAGE.format(crane=crane, wheel=b64encode(encoded(drawn(2))).decode())
    settings = Settings(_env_file=None, data_dir=state, search="off")
    with Serving(create_app(settings)) as serving:
        upload = serving.client.post(
            "/documents", files=[("files", ("cranes.md", page.encode()))], timeout=60
        )
        assert upload.json()["report"]["refused"] == []
        yield serving


def image_of(serving: Serving, told: dict[str, Any]) -> httpx.Response:
    (image,) = told["images"]
    return serving.client.get(image["url"])


@pytest.mark.parametrize(
    ("question", "caption", "seed"),
    [
        ("Show me the harbour crane of Umbra in winter", "The harbour crane of Umbra in winter", 1),
        ("给我看乌木城的水车", "乌木城的水车", 2),
    ],
)
def test_a_text_brings_the_stored_image(
    pictures: Serving, question: str, caption: str, seed: int
) -> None:
    told = pictures.ask(question, workflow="illustrate")
    assert (told["answer"], told["verdict"]) == (f"{caption} [1]", "not_judged")
    assert (told["action"], told["models"]["generator"]) == ("correct", "stored")
    assert told["images"][0]["score"] >= told["image_threshold"]
    assert told["images"][0]["source"] == told["citations"][0]["source"] == "cranes.md"
    sent = image_of(pictures, told)
    assert sent.headers["content-type"] == "image/webp"
    assert sent.headers["x-content-type-options"] == "nosniff"
    assert sent.headers["content-security-policy"].startswith("default-src 'none'")
    assert b"48.8583" not in sent.content
    plain = Image.open(io.BytesIO(sent.content))
    assert not plain.getexif()
    assert plain.size == drawn(seed).size


def test_what_is_not_stored_is_not_made_up(pictures: Serving) -> None:
    told = pictures.ask("Show me the lighthouse in spring", workflow="illustrate")
    assert (told["verdict"], told["stopped_by"], told["images"]) == ("abstained", "no_evidence", [])
    lower = pictures.ask("Show me a crane", workflow="illustrate", options={"image_threshold": 0.0})
    assert lower["images"], "the threshold of the run counts"


def test_an_image_brings_the_stored_caption(pictures: Serving) -> None:
    """A smaller, compressed copy is known; another picture is not."""
    copy = encoded(drawn(2).resize((150, 100)), "JPEG", quality=60)
    events = pictures.stream("这是什么？", image=data_url(copy))
    (answer,) = [event.data for event in events if event.name == "answer"]
    assert (answer["workflow"], answer["answer"]) == ("illustrate", "乌木城的水车 [1]")
    steps = [e.data["step"] for e in events if e.name == "step" and e.data["phase"] == "end"]
    assert steps == ["prepare", "match_image", "grade_images", "return_stored"]
    assert answer["images"][0]["score"] >= answer["image_threshold"] == LEXICAL_THRESHOLDS.image

    other = pictures.ask("What is this?", image=data_url(encoded(drawn(7))))
    assert (other["verdict"], other["images"], other["citations"]) == ("abstained", [], [])


def test_an_answer_tells_the_images_of_its_sources(pictures: Serving) -> None:
    told = pictures.ask("How many tonnes does the crane of Umbra lift?", workflow="crag")
    assert "nine tonnes" in told["answer"]
    assert [it["caption"] for it in told["images"]] == ["The harbour crane of Umbra in winter"]
    assert image_of(pictures, told).status_code == 200


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"image": data_url(b"<svg onload='alert(1)'/>")}, "may hold script"),
        ({"image": "data:image/png;base64,AAAA"}, "no PNG, JPEG, WebP or GIF"),
        ({"image": "https://example.com/a.png"}, "pattern"),
        ({"image": data_url(encoded(drawn(1))), "workflow": "crag"}, "only illustrate"),
    ],
)
def test_an_image_that_cannot_be_asked_about_is_refused(
    pictures: Serving, fields: dict[str, str], reason: str
) -> None:
    response = pictures.client.post("/ask", json={"question": "What is this?", **fields})
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert error["pointer"] == "#/image"
    assert reason in error["detail"]


@pytest.fixture(scope="module")
def models() -> Iterator[ImagesServer]:
    with ImagesServer() as server:
        yield server


@pytest.fixture(scope="module")
def illustrator(
    models: ImagesServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Serving]:
    """The service with both models and one stored picture."""
    settings = Settings(
        _env_file=None, data_dir=tmp_path_factory.mktemp("models"), search="off",
        image_maker=f"openai:painter@{models.base_url}", image_maker_key="k",
        captioner=f"openai:viewer@{models.base_url}", captioner_key="k",
    )  # fmt: skip
    with Serving(create_app(settings)) as serving:
        files = [("files", ("A brass valve.png", encoded(drawn(1))))]
        assert serving.client.post("/documents", files=files, timeout=60).status_code == 200
        yield serving


def test_a_model_is_asked_below_the_threshold_alone(
    illustrator: Serving, models: ImagesServer
) -> None:
    models.reset()
    found = illustrator.ask("Show me a brass valve", workflow="illustrate")
    assert (found["models"]["generator"], models.requests) == ("stored", [])

    made = illustrator.ask("Show me a coral reef", workflow="illustrate")
    (image,) = made["images"]
    assert (made["models"]["generator"], made["verdict"]) == ("painter", "not_judged")
    assert (image["origin"], image["source"], made["citations"]) == ("generated", "", [])
    assert "made by a model" in made["answer"]
    pixels = b64decode(image["url"].partition(",")[2])
    assert Image.open(io.BytesIO(pixels)).size == drawn(77).size
    assert models.requests[0].body["prompt"] == "Show me a coral reef"

    never = illustrator.ask(
        "Show me a coral reef", workflow="illustrate", options={"generate_image": False}
    )
    assert (never["verdict"], len(models.requests)) == ("abstained", 1)

    said = illustrator.ask("What is this?", image=data_url(encoded(drawn(8))))
    assert said["models"]["generator"] == "viewer"
    assert said["answer"].startswith("Discs on a sheet of 240 by 160.")
    assert "](https://evil.example" not in said["answer"]
    assert said["usage"]["llm_calls"] == 1


def test_what_goes_wrong_at_a_model_is_said(illustrator: Serving, models: ImagesServer) -> None:
    models.reset()
    models.refuses_form = True
    made = illustrator.ask("Show me a snow leopard", workflow="illustrate")
    assert (len(made["images"]), len(models.requests)) == (1, 2)
    models.sends = b"<svg onload='alert(1)'/>"
    hostile = illustrator.ask("Show me a snow leopard", workflow="illustrate")
    assert (hostile["verdict"], hostile["images"]) == ("abstained", [])
    assert "may hold script" in hostile["degraded"][0]["reason"]
    models.status = 500
    failed = illustrator.ask("What is this?", image=data_url(encoded(drawn(8))))
    assert (failed["verdict"], failed["degraded"][0]["component"]) == ("abstained", "generator")


WHEEL = data_url(encoded(drawn(2)))


def by_chat(client: openai.OpenAI, url: str, stream: bool) -> str:
    parts: list[Any] = [
        {"type": "text", "text": "这是什么？"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    asked: Any = {"model": "illustrate", "messages": [{"role": "user", "content": parts}]}
    if not stream:
        return client.chat.completions.create(**asked).choices[0].message.content or ""
    chunks = client.chat.completions.create(**asked, stream=True)
    return "".join(it.choices[0].delta.content or "" for it in chunks if it.choices)


def by_open_webui(client: openai.OpenAI, url: str, stream: bool) -> str:
    headers = {"X-OpenWebUI-Chat-Id": f"chat-{stream}"}
    return by_chat(client.with_options(default_headers=headers), url, stream)


def by_responses(client: openai.OpenAI, url: str, stream: bool) -> str:
    parts: list[Any] = [
        {"type": "input_text", "text": "这是什么？"},
        {"type": "input_image", "image_url": url, "detail": "auto"},
    ]
    asked: Any = {"model": "illustrate", "input": [{"role": "user", "content": parts}]}
    if stream:
        with client.responses.stream(**asked) as events:
            told = "".join(it.delta for it in events if it.type == "response.output_text.delta")
            assert told == events.get_final_response().output_text
    else:
        response = client.responses.create(**asked)
        told = client.responses.retrieve(response.id).output_text
        assert told == response.output_text
    return told


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("asked", [by_chat, by_open_webui, by_responses])
def test_openais_clients_send_and_are_shown_images(
    pictures: Serving, asked: Callable[[openai.OpenAI, str, bool], str], stream: bool
) -> None:
    with openai.OpenAI(base_url=f"{pictures.url}/v1", api_key="none", max_retries=0) as client:
        answer, shown = asked(client, WHEEL, stream).split("\n\n")
        assert answer == "乌木城的水车 [1]"
        assert shown.startswith(f"![乌木城的水车]({pictures.url}/images/")
        url = shown.partition("(")[2].removesuffix(")")
        assert "?" not in url, "nothing is signed where nobody needs a key"
        assert pictures.client.get(url).headers["content-type"] == "image/webp"
        with pytest.raises(openai.UnprocessableEntityError, match="no data URL"):
            asked(client, "https://example.com/a.png", stream)


def ui_message(text: str, *images: str) -> dict[str, Any]:
    files = [{"type": "file", "mediaType": "image/png", "url": url} for url in images]
    return {"id": "m1", "role": "user", "parts": [*files, {"type": "text", "text": text}]}


def test_the_ai_sdk_sends_and_is_shown_images(pictures: Serving) -> None:
    """An image chooses the workflow; what is cited otherwise shows its images, too."""
    for text, images, caption in (
        ("这是什么？", [WHEEL], "乌木城的水车"),
        (
            "How many tonnes does the crane of Umbra lift?",
            [],
            "The harbour crane of Umbra in winter",
        ),
    ):
        sent = pictures.client.post("/ask/ui", json={"messages": [ui_message(text, *images)]})
        parts = [json.loads(it[6:]) for it in sent.text.split("\n\n") if it.startswith("data: {")]
        (file,) = [part for part in parts if part["type"] == "file"]
        assert file["mediaType"] == "image/webp"
        assert file["providerMetadata"]["self-crag"]["caption"] == caption
        assert file["url"].startswith(f"{pictures.url}/images/")
        assert pictures.client.get(file["url"]).status_code == 200


@pytest.mark.node
@pytest.mark.parametrize("package", AI_SDK)
def test_the_ai_sdk_puts_images_into_its_message(pictures: Serving, package: str) -> None:
    told = told_by("ai.mjs", package, pictures.url, "{}", "这是什么？", WHEEL)
    (shown,) = [part for part in told["message"]["parts"] if part["type"] == "file"]
    assert (told["errors"], told["texts"][-1]) == ([], "乌木城的水车 [1]")
    assert shown["mediaType"] == "image/webp"
    assert pictures.client.get(shown["url"]).status_code == 200


LONG = f"data:image/png;base64,{'A' * 950_000}"


def in_chat(*urls: str, **fields: Any) -> dict[str, Any]:
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    parts = [*images, {"type": "text", "text": "What is this?"}]
    return {"model": "illustrate", "messages": [{"role": "user", "content": parts}], **fields}


def in_responses(*urls: str, **fields: Any) -> dict[str, Any]:
    images = [{"type": "input_image", "image_url": url} for url in urls]
    parts = [*images, {"type": "input_text", "text": "What is this?"}]
    return {"model": "illustrate", "input": [{"role": "user", "content": parts}], **fields}


def in_ui(*urls: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [ui_message("What is this?", *urls)], **fields}


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("/ask", {"question": "?", "image": LONG}, "at most 950000 characters"),
        ("/v1/chat/completions", in_chat(LONG), "at most 950,000 characters"),
        ("/v1/chat/completions", in_chat(WHEEL, WHEEL), "holds 2 images"),
        ("/v1/responses", in_responses(WHEEL, WHEEL), "holds 2 images"),
        ("/ask/ui", in_ui(WHEEL, WHEEL), "holds 2 images"),
        ("/v1/chat/completions", in_chat(WHEEL, model="rag"), "image_url; only text"),
        ("/v1/responses", in_responses(LONG), "at most 950,000 characters"),
        ("/v1/responses", in_responses(WHEEL, model="rag"), "input_image; only text"),
        ("/ask/ui", in_ui(LONG), "at most 950,000 characters"),
        ("/ask/ui", in_ui(WHEEL, workflow="rag"), "file; only text"),
        ("/ask/ui", in_ui("https://example.com/a.png"), "no data URL"),
    ],
)
def test_every_protocol_says_in_words_which_images_it_takes(
    pictures: Serving, path: str, body: dict[str, Any], reason: str
) -> None:
    refused = pictures.client.post(path, json=body)
    assert refused.status_code == 422
    assert reason in refused.text
    large = pictures.client.post(path, content=b" " * 1_000_001)
    assert (large.status_code, "at most 950,000 characters" in large.text) == (413, True)
