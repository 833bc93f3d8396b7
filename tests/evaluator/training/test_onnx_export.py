from pathlib import Path


def test_weights_are_stored_once(exported: Path, e5: Path) -> None:
    for path in (exported / "model.onnx", e5 / "embedder.onnx"):
        graph = path.read_bytes()
        assert b"model.safetensors" in graph
        assert len(graph) < 300_000
