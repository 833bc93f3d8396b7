from pathlib import Path


def test_weights_are_stored_once(exported: Path) -> None:
    graph = (exported / "model.onnx").read_bytes()
    assert b"model.safetensors" in graph
    assert len(graph) < 300_000
