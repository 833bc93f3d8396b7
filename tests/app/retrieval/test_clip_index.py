"""Images by a CLIP checkpoint on the worker: a random one knows copies, and keeps its vectors."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from app.main import create_app
from app.retrieval.images import FILE
from app.settings import Settings
from tests.app.pictures import drawn, encoded
from tests.app.serving import Serving
from tests.app.test_illustrate import data_url
from tests.evaluator.clip import write_clip


def test_both_directions_by_a_checkpoint_of_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_clip(tmp_path / "clip")
    monkeypatch.setenv("SELFCRAG_EVALUATOR_IMAGE_EMBEDDER", str(folder))
    state = tmp_path / "state"
    settings = Settings(_env_file=None, data_dir=state, search="off", image_index="worker")
    files = [("files", (f"{name}.png", encoded(drawn(n)))) for n, name in enumerate(("a", "b"))]
    page = f"# Cranes\n\nTall.\n\n![A crane]({data_url(encoded(drawn(5)))})\n"
    files.append(("files", ("cranes.md", page.encode())))
    with Serving(create_app(settings)) as serving:
        assert serving.client.post("/documents", files=files, timeout=60).status_code == 200
        copy = data_url(encoded(drawn(5)))
        known = serving.ask("What is this?", image=copy, options={"image_threshold": 0.999})
        assert known["answer"] == "A crane [1]"
        assert known["images"][0]["score"] > 0.999

        near = {"image_threshold": -1.0}
        found = serving.ask("Show me a crane", workflow="illustrate", options=near)
        assert (len(found["documents"]), len(found["images"])) == (3, 1)
        scores = [document["score"] for document in found["documents"]]
        assert scores == sorted(scores, reverse=True)
        far = {"image_threshold": 1.0}
        none = serving.ask("Show me a crane", workflow="illustrate", options=far)
        assert (none["verdict"], none["images"]) == ("abstained", [])

        ready = serving.app.state.services.images._embedder.name
    with closing(sqlite3.connect(state / FILE)) as database:
        rows = database.execute("SELECT embedder, vector FROM images").fetchall()
    assert {name for name, _ in rows} == {ready}
    norms = [float(np.linalg.norm(np.frombuffer(vector, np.float32))) for _, vector in rows]
    assert norms == pytest.approx([1.0] * 3, abs=1e-5)
