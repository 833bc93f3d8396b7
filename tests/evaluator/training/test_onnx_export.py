from pathlib import Path

import onnx


def test_joint_layers_and_decoder_rest_where_only_relevance_is_asked(exported: Path) -> None:
    graph = onnx.load(exported / "model.onnx", load_external_data=False).graph
    (choice,) = (node for node in graph.node if list(node.input) == ["decode"])
    always = sum(node.op_type == "Softmax" for node in graph.node)
    assert always == 1 + 1  # and where kinds are weighed
    inside = [node for branch in choice.attribute for node in branch.g.node]
    assert sum(node.op_type == "Softmax" for node in inside) >= 2


def test_weights_are_stored_once(exported: Path) -> None:
    graph = (exported / "model.onnx").read_bytes()
    assert b"model.safetensors" in graph
    assert len(graph) < 300_000
