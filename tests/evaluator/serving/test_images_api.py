"""`POST /embed_images`: unit vectors of a CLIP checkpoint, and what it refuses."""

from base64 import b64encode
from pathlib import Path

import numpy as np
import pytest

from evaluator.client import EvaluatorClient, WorkerRefused
from evaluator.errors import WeightsError
from evaluator.inference.scorer import Scorer, load_image_embedder
from evaluator.serving.app import create_app
from evaluator.settings import EvaluatorSettings
from tests.app.pictures import drawn, encoded
from tests.evaluator.clip import write_clip
from tests.evaluator.in_process import asking


async def test_texts_and_images_in_one_space(tmp_path: Path, shipped: Scorer) -> None:
    settings = EvaluatorSettings(image_embedder=write_clip(tmp_path / "clip"))
    app = create_app(settings, shipped)
    image = b64encode(encoded(drawn(1), "WEBP", lossless=True)).decode()
    other = b64encode(encoded(drawn(2))).decode()
    async with asking(app) as http:
        client = EvaluatorClient(http)
        told = await client.embed_images(["a crane", "a valve"], [image, other, image])
        vectors = np.array([*told.texts, *told.images])
        assert vectors.shape == (5, 24)
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1.0, abs=1e-5)
        assert np.array_equal(told.images[0], told.images[2])
        assert not np.allclose(told.images[0], told.images[1])
        assert not np.allclose(told.texts[0], told.texts[1])
        assert (await client.abilities()).image_embedder == told.model
        for hostile in (b"<svg/>", b"GIF89a", b""):
            with pytest.raises(WorkerRefused, match="no WebP"):
                await client.embed_images([], [b64encode(hostile).decode()])


def test_another_model_is_refused(tmp_path: Path) -> None:
    folder = write_clip(tmp_path / "clip")
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"model_type": "clip",', '"model_type": "bert",'))
    with pytest.raises(WeightsError, match="no CLIP"):
        load_image_embedder(EvaluatorSettings(image_embedder=folder))
