from pathlib import Path

import pytest


@pytest.mark.parametrize("name", ["model.onnx", "embedder.onnx"])
def test_weights_are_stored_once(exported: Path, name: str) -> None:
    graph = (exported / name).read_bytes()
    assert b"model.safetensors" in graph
    assert len(graph) < 300_000
