"""Images come in with their documents: captions, the text around them, and nothing but pixels."""

import io
from pathlib import Path

import pytest
from PIL import Image

from app.ingest.pipeline import ingest
from app.retrieval.images import IMAGE_KEYWORD, ImageStore
from app.retrieval.retriever import HybridRetriever
from graphs.options import Filters, Scope, Search
from tests.app.ingest.word import paragraph
from tests.app.pictures import drawn, encoded, pdf_with, word_with

IMAGES_ALONE = Search(filters=Filters(keywords=[IMAGE_KEYWORD]))


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """One picture in each kind of file, and one outside that nobody may read."""
    shelf = tmp_path / "shelf"
    (shelf / "pictures").mkdir(parents=True)
    for seed, name in enumerate(("valve.png", "pump.png", "lamp.png")):
        (shelf / "pictures" / name).write_bytes(encoded(drawn(seed)))
    (tmp_path / "secret.png").write_bytes(encoded(drawn(9)))
    (shelf / "valve.md").write_text(
        "# Valves\n\nThe brass valve closes clockwise.\n\n![A valve cut open](pictures/valve.png)"
        "\n\nIt was drawn in 1911.\n\n![Stolen](../secret.png) ![Far](https://example.com/a.png)\n"
    )
    (shelf / "pump.html").write_text(
        "<title>Pumps</title><h2>Hand pumps</h2><p>Water rises by the stroke.</p><figure>"
        "<img src='pictures/pump.png' alt='p'><figcaption>A hand pump from the side</figcaption>"
        "</figure>"
    )
    (shelf / "quay.docx").write_bytes(
        word_with(paragraph("The quay is long."), encoded(drawn(3)), "The quay at dusk")
    )
    lines = ["The crane lifts nine tonnes.", "Figure 1: The crane of Umbra"]
    (shelf / "crane.pdf").write_bytes(pdf_with(lines, drawn(4)))
    (shelf / "灯塔.jpg").write_bytes(encoded(drawn(5), "JPEG"))
    (shelf / "灯塔.jpg.txt").write_text("黄昏时的灯塔", encoding="utf-8")
    return shelf


async def test_every_kind_of_document_brings_its_images(
    shelf: Path, retriever: HybridRetriever
) -> None:
    report = await ingest([shelf], retriever.index, retriever.segmenter)
    assert not report.refused
    store = ImageStore(retriever.index.folder.parent)

    async def captions(query: str) -> dict[str, str]:
        """Of the images found, best first, with the titles of their documents."""
        found = await retriever.retrieve(query, 20, IMAGES_ALONE)
        stored = {image.id: image for image in store.of_chunks([it.id for it in found], Scope())}
        told = [(stored[it.id].caption, it.source.rpartition("/")[2]) for it in found]
        assert "secret.png" not in dict(told).values()
        return {caption: source for caption, source in told if caption}

    assert await captions("a valve, a pump, a quay and a crane") == {
        "A valve cut open": "valve.md",
        "A hand pump from the side": "pump.html",
        "The quay at dusk": "quay.docx",
        "Figure 1: The crane of Umbra": "crane.pdf",
    }
    assert next(iter(await captions("黄昏的灯塔"))) == "黄昏时的灯塔"
    # Found by what is said around it, too.
    assert next(iter(await captions("closes clockwise"))) == "A valve cut open"


async def test_an_image_stands_by_its_text_and_goes_with_its_document(
    shelf: Path, retriever: HybridRetriever
) -> None:
    store = ImageStore(retriever.index.folder.parent)
    await ingest([shelf / "valve.md"], retriever.index, retriever.segmenter)
    (text,) = await retriever.retrieve("brass valve", 1)
    (image,) = store.of_chunks([text.id], Scope())
    assert (image.near, image.caption) == (text.id, "A valve cut open")
    kept = store.content(image.id, Scope())
    assert kept is not None
    assert Image.open(io.BytesIO(kept)).size == (240, 160)

    # A new version of the document has new chunks; what it no longer shows is gone.
    (shelf / "valve.md").write_text("# Valves\n\nThe brass valve is sold.\n")
    await ingest([shelf / "valve.md"], retriever.index, retriever.segmenter)
    assert store.content(image.id, Scope()) is None

    # The caption beside an image counts as part of it.
    lighthouse = shelf / "灯塔.jpg"
    await ingest([lighthouse], retriever.index, retriever.segmenter)
    lighthouse.with_name("灯塔.jpg.txt").write_text("早晨的灯塔", encoding="utf-8")
    report = await ingest([lighthouse], retriever.index, retriever.segmenter)
    assert report.updated
    (found,) = await retriever.retrieve("灯塔", 1, IMAGES_ALONE)
    assert found.text == "早晨的灯塔"
    lighthouse.unlink()
    await ingest([shelf], retriever.index, retriever.segmenter, prune=True)
    assert store.content(found.id, Scope()) is None
