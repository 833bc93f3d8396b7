"""ONNX export: a checkpoint's graph in int8, whose weights stay in model.safetensors.

Large matrices are multiplied as bytes (MatMulIntegerToFloat): the weights with one scale an output,
as they are stored or, of those stored at four bits, as made when the graph is loaded; the
activations with one scale a token, found as they come, so that neither batch mates nor padding
move a score. Attention, norms and heads compute in float32. The graph's initialisers point into
the safetensors file by offset: weights are stored once.
"""

import json
import struct
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel

from evaluator.errors import WeightsError
from evaluator.model import t5
from evaluator.model.checkpoint import (
    BLOCK,
    BYTES,
    NIBBLES,
    SCALE,
    TENSORS_FILE,
    check_folder,
    known_tasks,
)
from evaluator.model.tokenization import SEPARATOR, SPECIAL_TOKENS

_SMALL = 256  # constants of fewer elements stay inside the graph
_TYPES = {
    torch.float16: TensorProto.FLOAT16,
    torch.int8: TensorProto.INT8,
    torch.uint8: TensorProto.UINT8,
}
_OWN = "com.microsoft"
"""ONNX Runtime's own operations."""
_FREE, _ROWS = {0: "batch", 1: "length"}, {0: "batch"}
_CONSTANTS: dict[str, Any] = {
    "quantize.full": np.float32(1 / 127),
    "quantize.least": np.float32(1e-12),
    "quantize.one": np.float32(1),
    "quantize.zero": np.uint8(128),
    "quantize.axis": np.array([-1]),
    "nibbles.mask": np.uint8(15),
    "nibbles.shift": np.uint8(4),
    "nibbles.eight": np.float32(8),
    "nibbles.blocks": np.array([0, 0, -1, BLOCK // 2]),
    "nibbles.row": np.array([0, 0, -1]),
}


def export(folder: Path) -> Path:
    """Write `model.onnx` beside the folder's tensors and return its path."""
    config = check_folder(folder)
    known_tasks(config)
    outputs = {"logits": _ROWS, "spans": _FREE}
    return write_graph(t5.load(folder, config), outputs, folder / "model.onnx")


def write_graph(
    network: Any,
    outputs: Mapping[str, dict[int, str]],
    path: Path,
    words: Mapping[str, Tensor] | None = None,
) -> Path:
    """Write the network's graph; what lies beside it in model.safetensors are its weights.

    `words` is the word table, where another folder stores it.
    """
    model = _traced(network, outputs)
    _Quantizer(model.graph, path.with_name(TENSORS_FILE), words or {}).rewrite()
    model.opset_import.append(helper.make_opsetid(_OWN, 1))
    part = path.with_suffix(".part")
    part.write_bytes(model.SerializeToString())
    part.replace(path)
    return path


def _traced(network: Any, outputs: Mapping[str, dict[int, str]]) -> onnx.ModelProto:
    for part in network.modules():
        if isinstance(part, PreTrainedModel):
            part.set_attn_implementation("eager")  # the fused form fixes the length
    ids = torch.full((2, 90), len(SPECIAL_TOKENS) + 1)
    ids[:, 0], ids[:, 9] = t5.FIRST_TASK, SEPARATOR
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
            dynamic_axes={"ids": _FREE, "mask": _FREE, **outputs},
            input_names=["ids", "mask"],
            output_names=list(outputs),
        )
        return onnx.load(graph)


class _Quantizer:
    """Rewrites a traced graph to read the stored bytes and to multiply by them."""

    def __init__(self, graph: onnx.GraphProto, tensors: Path, words: Mapping[str, Tensor]) -> None:
        self._graph, self._file = graph, tensors.name
        self._stored, self._offsets = {**words, **load_file(tensors)}, _offsets(tensors)
        self._floats = {n: value.numpy() for n, value in t5.unpacked(self._stored).items()}
        self._weights: dict[str, tuple[str, bool]] = {}
        self._used, self._floats_made = set[str](), set[str]()
        self._nodes: list[onnx.NodeProto] = []
        self._quantized: dict[str, tuple[str, str]] = {}
        self._made: list[onnx.TensorProto] = []

    def rewrite(self) -> None:
        initializers = []
        for initial in self._graph.initializer:
            value = numpy_helper.to_array(initial)
            if value.size < _SMALL:
                initializers.append(initial)
            else:
                self._weights[initial.name] = self._stored_as(value, initial.name)
        initializers += [numpy_helper.from_array(value, name) for name, value in _CONSTANTS.items()]
        for node in self._graph.node:
            if not self._replaces(node):
                self._nodes.append(node)
        initializers += [self._external(entry) for entry in sorted(self._used)] + self._made
        del self._graph.initializer[:], self._graph.node[:]
        self._graph.initializer.extend(initializers)
        self._graph.node.extend(self._nodes)

    def _replaces(self, node: onnx.NodeProto) -> bool:
        """Compute the node by the stored bytes; where that cannot be, its weights become floats."""
        for name in self._weights.keys() & set(node.input):
            entry, turned = self._weights[name]
            whole, halves = (f"{entry}|{form}" in self._stored for form in (BYTES, NIBBLES))
            if (whole or halves) and node.op_type == "MatMul" and node.input[1] == name:
                self._multiply(node, entry, turned)
                return True
            if whole and node.op_type == "Gather" and node.input[0] == name and not turned:
                self._look_up(node, entry)
                return True
            if halves and node.op_type == "Gather":
                self._look_up_nibbles(node, entry)
                return True
            if name not in self._floats_made:
                self._nodes += self._as_float(entry, name, turned)
                self._floats_made.add(name)
        return False

    def _multiply(self, node: onnx.NodeProto, entry: str, turned: bool) -> None:
        """x W as (bytes of x)(bytes of W), times both scales."""
        out = node.output[0]
        is_whole = f"{entry}|{BYTES}" in self._stored
        whole, scale = self._parts(entry) if is_whole else self._requantized(entry)
        x, x_scale = self._bytes_of(node.input[0])
        if turned:  # stored as (outputs, inputs)
            self._add("Transpose", [whole], [f"{out}.turned"], perm=[1, 0])
            whole = f"{out}.turned"
        self._add("Cast", [scale], [f"{out}.scales"], to=TensorProto.FLOAT)
        self._add("Reshape", [f"{out}.scales", "quantize.axis"], [f"{out}.row"])
        sums = [x, whole, "quantize.one", "quantize.one", "quantize.zero"]
        self._add("MatMulIntegerToFloat", sums, [f"{out}.sums"], domain=_OWN)
        self._add("Mul", [f"{out}.sums", x_scale], [f"{out}.scaled"])
        self._add("Mul", [f"{out}.scaled", f"{out}.row"], [out])

    def _bytes_of(self, x: str) -> tuple[str, str]:
        """Bytes around 128 and the scale a token; once for all that multiply them."""
        if x not in self._quantized:
            self._add("Abs", [x], [f"{x}.abs"])
            self._add("ReduceMax", [f"{x}.abs", "quantize.axis"], [f"{x}.most"], keepdims=1)
            self._add("Max", [f"{x}.most", "quantize.least"], [f"{x}.safe"])
            self._add("Mul", [f"{x}.safe", "quantize.full"], [f"{x}.scale"])
            self._add("Flatten", [x], [f"{x}.rows"], axis=-1)
            self._add("Reshape", [f"{x}.scale", "quantize.axis"], [f"{x}.scales"])
            self._add("Shape", [f"{x}.scales"], [f"{x}.count"])
            self._add("Expand", ["quantize.zero", f"{x}.count"], [f"{x}.zeros"])
            steps = [f"{x}.rows", f"{x}.scales", f"{x}.zeros"]
            self._add("QuantizeLinear", steps, [f"{x}.steps"], axis=0)
            self._add("Shape", [x], [f"{x}.shape"])
            self._add("Reshape", [f"{x}.steps", f"{x}.shape"], [f"{x}.bytes"])
            self._quantized[x] = f"{x}.bytes", f"{x}.scale"
        return self._quantized[x]

    def _look_up(self, node: onnx.NodeProto, entry: str) -> None:
        """Rows of bytes and of scales, so that the table stays small in memory."""
        whole, scale = self._parts(entry)
        (out,), ids = node.output, node.input[1]
        for part, name in ((whole, "bytes"), (scale, "scale")):
            self._add("Gather", [part, ids], [f"{out}.{name}"])
            self._add("Cast", [f"{out}.{name}"], [f"{out}.{name}.float"], to=TensorProto.FLOAT)
        self._add("Mul", [f"{out}.bytes.float", f"{out}.scale.float"], [out])

    def _look_up_nibbles(self, node: onnx.NodeProto, entry: str) -> None:
        """The same for blocks of four bits: (batch, length, blocks, 32) values, then rows."""
        names = [f"{entry}|{NIBBLES}", f"{entry}|{SCALE}"]
        self._used.update(names)
        (out,), ids = node.output, node.input[1]
        self._add("Gather", [f"stored.{names[0]}", ids], [f"{out}.pairs"])
        self._add("Reshape", [f"{out}.pairs", "nibbles.blocks"], [f"{out}.blocks"])
        self._add("BitwiseAnd", [f"{out}.blocks", "nibbles.mask"], [f"{out}.low"])
        self._add(
            "BitShift", [f"{out}.blocks", "nibbles.shift"], [f"{out}.high"], direction="RIGHT"
        )
        self._add("Concat", [f"{out}.low", f"{out}.high"], [f"{out}.whole"], axis=3)
        self._add("Cast", [f"{out}.whole"], [f"{out}.raw"], to=TensorProto.FLOAT)
        self._add("Sub", [f"{out}.raw", "nibbles.eight"], [f"{out}.steps"])
        self._add("Gather", [f"stored.{names[1]}", ids], [f"{out}.scale"])
        self._add("Cast", [f"{out}.scale"], [f"{out}.scales"], to=TensorProto.FLOAT)
        self._add("Unsqueeze", [f"{out}.scales", "quantize.axis"], [f"{out}.column"])
        self._add("Mul", [f"{out}.steps", f"{out}.column"], [f"{out}.values"])
        self._add("Reshape", [f"{out}.values", "nibbles.row"], [out])

    def _requantized(self, entry: str) -> tuple[str, str]:
        """Bytes and a scale a row, made of the blocks of four bits when the graph is loaded."""
        rows, half = self._stored[f"{entry}|{NIBBLES}"].shape
        for part, dims, kind in (
            (BYTES, (rows, 2 * half), TensorProto.INT8),
            (SCALE, (rows, 1), TensorProto.FLOAT),
        ):
            tensor = onnx.TensorProto(name=f"made.{entry}|{part}", dims=dims, data_type=kind)
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="made")
            self._made.append(tensor)
        return f"made.{entry}|{BYTES}", f"made.{entry}|{SCALE}"

    def _as_float(self, entry: str, output: str, turned: bool) -> Iterator[onnx.NodeProto]:
        """The operations of `t5.unpacked`, computed when the session loads."""
        result = f"{output}.untransposed" if turned else output
        if f"{entry}|{BYTES}" in self._stored:
            whole, scale = self._parts(entry)
            for part, name in ((whole, "whole"), (scale, "scale")):
                yield helper.make_node("Cast", [part], [f"{output}.{name}"], to=TensorProto.FLOAT)
            yield helper.make_node("Mul", [f"{output}.whole", f"{output}.scale"], [result])
        else:
            self._used.add(entry)
            yield helper.make_node("Cast", [f"stored.{entry}"], [result], to=TensorProto.FLOAT)
        if turned:
            yield helper.make_node("Transpose", [result], [output], perm=[1, 0])

    def _parts(self, entry: str) -> tuple[str, str]:
        names = f"{entry}|{BYTES}", f"{entry}|{SCALE}"
        self._used.update(names)
        return f"stored.{names[0]}", f"stored.{names[1]}"

    def _add(self, operation: str, inputs: list[str], outputs: list[str], **more: Any) -> None:
        self._nodes.append(helper.make_node(operation, inputs, outputs, **more))

    def _stored_as(self, value: np.ndarray, constant: str) -> tuple[str, bool]:
        for name, tensor in self._floats.items():
            if tensor.shape == value.shape and np.array_equal(tensor, value):
                return name, False
            if tensor.ndim == 2 and np.array_equal(tensor.T, value):
                return name, True
        raise WeightsError(
            f"The graph's constant {constant} {value.shape} is not among the stored tensors."
        )

    def _external(self, entry: str) -> onnx.TensorProto:
        value: Tensor = self._stored[entry]
        tensor = onnx.TensorProto(
            name=f"stored.{entry}", dims=value.shape, data_type=_TYPES[value.dtype],
            data_location=TensorProto.EXTERNAL,
        )  # fmt: skip
        if entry not in self._offsets:  # a table of another folder, given when the graph is loaded
            tensor.external_data.add(key="location", value="made")
            return tensor
        offset, length = self._offsets[entry]
        for key, field in (("location", self._file), ("offset", offset), ("length", length)):
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
