"""ONNX export: a checkpoint's graph, whose weights stay in model.safetensors.

The graph's initialisers point into the safetensors file by offset and are turned into float32
where the session loads them, so that weights are stored once.
"""

import json
import struct
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import load_file

from evaluator.errors import WeightsError
from evaluator.model import t5
from evaluator.model.checkpoint import TENSORS_FILE, check_folder, known_tasks
from evaluator.model.t5 import BYTES, SCALE
from evaluator.model.tokenization import SEPARATOR, SPECIAL_TOKENS

_SMALL = 256  # constants of fewer elements stay inside the graph


def export(folder: Path) -> Path:
    """Write `model.onnx` beside the folder's tensors and return its path."""
    config = check_folder(folder)
    known_tasks(config)
    path = folder / "model.onnx"
    model = _traced(t5.load(folder, config))
    _point_into(model, folder / TENSORS_FILE)
    part = path.with_suffix(".part")
    part.write_bytes(model.SerializeToString())
    part.replace(path)
    return path


def _traced(network: t5.EvaluatorModel) -> onnx.ModelProto:
    network.t5.set_attn_implementation("eager")  # the fused form fixes the length
    ids = torch.full((2, 90), len(SPECIAL_TOKENS) + 1)
    ids[:, 0], ids[:, 9] = t5.FIRST_TASK, SEPARATOR
    free, rows = {0: "batch", 1: "length"}, {0: "batch"}
    with warnings.catch_warnings(), TemporaryDirectory() as scratch:
        warnings.simplefilter("ignore")  # the exporter's own, about its own parts
        # By tracing: the newer exporter takes a minute for the same graph.
        graph = Path(scratch) / "graph.onnx"
        torch.onnx.export(
            network,
            (ids, torch.ones_like(ids)),
            graph,
            dynamo=False,
            opset_version=18,
            dynamic_axes={"ids": free, "mask": free, "logits": rows, "spans": free},
            input_names=["ids", "mask"],
            output_names=["logits", "spans"],
        )
        return onnx.load(graph)


def _point_into(model: onnx.ModelProto, tensors: Path) -> None:
    """Replace large initialisers by what makes them of the safetensors file's entries."""
    stored = load_file(tensors)
    values = {name: value.numpy() for name, value in t5.unpacked(stored).items()}
    offsets = _offsets(tensors)
    kept, nodes, used = [], [], set[str]()
    for initial in model.graph.initializer:
        value = numpy_helper.to_array(initial)
        if value.size < _SMALL:
            kept.append(initial)
            continue
        name, turned = _stored_as(value, values, initial.name)
        used.update(entry for entry in stored if entry.partition("|")[0] == name)
        nodes += _made_of(name, f"{name}|{SCALE}" in stored, initial.name, turned)
    kept += [_external(entry, stored[entry], offsets[entry], tensors.name) for entry in used]
    operations = [*nodes, *model.graph.node]
    del model.graph.initializer[:], model.graph.node[:]
    model.graph.initializer.extend(kept)
    model.graph.node.extend(operations)


def _stored_as(value: Any, stored: dict[str, Any], wanted: str) -> tuple[str, bool]:
    for name, tensor in stored.items():
        if tensor.shape == value.shape and np.array_equal(tensor, value):
            return name, False
        if tensor.ndim == 2 and tensor.T.shape == value.shape and np.array_equal(tensor.T, value):
            return name, True
    raise WeightsError(
        f"The graph's constant {wanted} {value.shape} is not among the stored tensors."
    )


def _made_of(name: str, is_scaled: bool, wanted: str, turned: bool) -> list[onnx.NodeProto]:
    """The operations of `t5.unpacked`, for a tensor of float16 or of bytes."""
    node, result = helper.make_node, f"{wanted}.untransposed" if turned else wanted
    if is_scaled:
        whole, scale = f"{wanted}.whole", f"{wanted}.scale"
        nodes = [
            node("Cast", [f"stored.{name}|{BYTES}"], [whole], to=TensorProto.FLOAT),
            node("Cast", [f"stored.{name}|{SCALE}"], [scale], to=TensorProto.FLOAT),
            node("Mul", [whole, scale], [result]),
        ]
    else:
        nodes = [node("Cast", [f"stored.{name}"], [result], to=TensorProto.FLOAT)]
    if turned:
        nodes.append(node("Transpose", [result], [wanted], perm=[1, 0]))
    return nodes


_TYPES = {torch.float16: TensorProto.FLOAT16, torch.int8: TensorProto.INT8}


def _external(
    entry: str, value: torch.Tensor, place: tuple[int, int], file: str
) -> onnx.TensorProto:
    tensor = onnx.TensorProto(
        name=f"stored.{entry}", dims=value.shape, data_type=_TYPES[value.dtype],
        data_location=TensorProto.EXTERNAL,
    )  # fmt: skip
    for key, field in (("location", file), ("offset", place[0]), ("length", place[1])):
        tensor.external_data.add(key=key, value=str(field))
    return tensor


def _offsets(tensors: Path) -> dict[str, tuple[int, int]]:
    """Where each tensor's bytes lie in the file: (offset, length)."""
    with tensors.open("rb") as file:
        (header_bytes,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(header_bytes))
    start = 8 + header_bytes
    header.pop("__metadata__", None)
    places = {name: entry["data_offsets"] for name, entry in header.items()}
    return {name: (start + begin, end - begin) for name, (begin, end) in places.items()}
