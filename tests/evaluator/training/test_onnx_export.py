from pathlib import Path

import numpy as np
import onnx
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from evaluator.inference.onnx_scorer import Graph
from evaluator.model import t5
from evaluator.training.onnx_export import write_graph


def test_weights_are_stored_once(exported: Path, e5: Path) -> None:
    for path in (exported / "model.onnx", e5 / "embedder.onnx"):
        graph = path.read_bytes()
        assert b"model.safetensors" in graph
        assert len(graph) < 300_000


class _Product(nn.Module):
    """A token's id times a row, (batch, length, 72), times a matrix, (240, 72)."""

    def __init__(self) -> None:
        super().__init__()
        rng = torch.Generator().manual_seed(1)
        self.row = torch.randn(72, generator=rng)
        self.matrix = nn.Parameter(torch.randn(240, 72, generator=rng))

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        states = (ids * mask).unsqueeze(2).float() / 7 * self.row
        return states @ self.matrix.T


def test_a_product_is_that_of_bytes_with_a_scale_a_token(tmp_path: Path) -> None:
    network = _Product()
    stored = t5.packed({"matrix": network.matrix})
    network.load_state_dict(t5.unpacked(stored))
    save_file(stored, tmp_path / "model.safetensors")
    path = write_graph(network, {"sums": {0: "batch", 1: "length"}}, tmp_path / "model.onnx")
    ids, mask = np.array([[5, 0, 900], [77, 3, 1]]), np.array([[1, 1, 1], [1, 1, 0]])

    graph = Graph(path, ["sums"], threads=1, remedy="")
    (sums,) = graph._session.run(["sums"], {"ids": ids, "mask": mask})

    states = (ids * mask)[:, :, None].astype(np.float32) / np.float32(7) * network.row.numpy()
    most = np.maximum(np.abs(states).max(2, keepdims=True), np.float32(1e-12))
    scale = most * np.float32(1 / 127)
    whole = np.rint(states / scale).astype(np.int32) @ stored["matrix|bytes"].numpy().T.astype(int)
    expected = (
        whole.astype(np.float32) * scale * stored["matrix|scale"].detach().float().numpy()[:, 0]
    )
    np.testing.assert_array_equal(sums, expected)
    operations = {node.op_type for node in onnx.load(path, load_external_data=False).graph.node}
    assert {"QuantizeLinear", "MatMulIntegerToFloat"} <= operations
    assert "MatMul" not in operations
