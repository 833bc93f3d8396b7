"""Exports a checkpoint to ONNX whose weights stay in model.safetensors.

The graph's initialisers point into the safetensors file by offset (float16, cast to float32
where the session loads them), so that weights are stored once.
"""

import json
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from evaluator import model as models
from evaluator.errors import WeightsError
from evaluator.model import EvaluatorModel
from evaluator.pairs import SEPARATOR, SPECIAL_TOKENS
from evaluator.scoring import check_folder

_SMALL = 256  # constants of fewer elements stay inside the graph


def export(folder: Path) -> Path:
    """Write `model.onnx` beside the folder's tensors and return its path."""
    network = models.load(folder, check_folder(folder))
    path = folder / "model.onnx"
    graph = _traced(network)
    _point_into(graph, folder / "model.safetensors")
    path.write_bytes(graph.SerializeToString())
    return path


def _traced(network: EvaluatorModel) -> onnx.ModelProto:
    network.t5.set_attn_implementation("eager")  # the fused form fixes the length
    ids = torch.full((2, 90), len(SPECIAL_TOKENS) + 1)
    ids[:, 9] = SEPARATOR
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    free = {0: batch, 1: length}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own, about its own parts
        program = torch.onnx.export(
            network,
            (ids, torch.ones_like(ids)),
            dynamo=True,
            dynamic_shapes={"ids": free, "mask": free},
            input_names=["ids", "mask"],
            output_names=["logits"],
            optimize=True,
            verbose=False,
        )
    if program is None:
        raise WeightsError("The exporter gave no graph.")
    proto: onnx.ModelProto = program.model_proto
    return proto


def _point_into(model: onnx.ModelProto, tensors: Path) -> None:
    """Replace large initialisers by casts of the safetensors file's entries."""
    stored = {name: value.astype(np.float32) for name, value in load_file(tensors).items()}
    offsets = _offsets(tensors)
    kept, nodes, used = [], [], set()
    for initial in model.graph.initializer:
        value = numpy_helper.to_array(initial)
        if value.size < _SMALL:
            kept.append(initial)
            continue
        name, turned = _found(value, stored, initial.name)
        nodes += _casts(name, initial.name, turned)
        used.add(name)
    kept += [_external(name, stored[name].shape, offsets[name], tensors.name) for name in used]
    operations = [*nodes, *model.graph.node]
    for node in operations:  # where each came from in Python would be most of the file
        node.doc_string = ""
        del node.metadata_props[:]
    del model.graph.initializer[:], model.graph.node[:], model.graph.value_info[:]
    model.graph.initializer.extend(kept)
    model.graph.node.extend(operations)


def _found(value: Any, stored: dict[str, Any], wanted: str) -> tuple[str, bool]:
    for name, tensor in stored.items():
        if tensor.shape == value.shape and np.array_equal(tensor, value):
            return name, False
        if tensor.ndim == 2 and tensor.T.shape == value.shape and np.array_equal(tensor.T, value):
            return name, True
    raise WeightsError(
        f"The graph's constant {wanted} {value.shape} is not among the stored tensors."
    )


def _casts(name: str, wanted: str, turned: bool) -> list[onnx.NodeProto]:
    single = f"{wanted}.untransposed" if turned else wanted
    nodes = [helper.make_node("Cast", [f"stored.{name}"], [single], to=TensorProto.FLOAT)]
    if turned:
        nodes.append(helper.make_node("Transpose", [single], [wanted], perm=[1, 0]))
    return nodes


def _external(
    name: str, shape: tuple[int, ...], place: tuple[int, int], file: str
) -> onnx.TensorProto:
    tensor = onnx.TensorProto(
        name=f"stored.{name}", dims=shape, data_type=TensorProto.FLOAT16,
        data_location=TensorProto.EXTERNAL,
    )  # fmt: skip
    for key, value in (("location", file), ("offset", place[0]), ("length", place[1])):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def _offsets(tensors: Path) -> dict[str, tuple[int, int]]:
    """Where each tensor's bytes lie in the file: (offset, length)."""
    with tensors.open("rb") as file:
        (header_bytes,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(header_bytes))
    start = 8 + header_bytes
    return {
        name: (
            start + entry["data_offsets"][0],
            entry["data_offsets"][1] - entry["data_offsets"][0],
        )
        for name, entry in header.items()
        if name != "__metadata__"
    }
