"""The int8 form of an export: the encoder's matrix products over whole numbers, for CPUs.

Weights are stored as whole numbers already, with a scale a row (evaluator/storage.py), and are
multiplied as they are. What they are multiplied with is rounded to 7 bits of a byte by fixed
ranges, seen once on texts of this project: so neither batch mates nor padding move a score, what
lies outside the range still finds room in the eighth bit, and the pairs of products that AVX2 adds
up in 16 bits do not overflow.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from evaluator.errors import WeightsError
from evaluator.need import needs
from evaluator.pairs import PairTokenizer
from evaluator.scoring import Row, check_folder, padded
from evaluator.storage import BYTES, SCALE

LEVELS = 127  # 7 bits
_SEEN = 96  # rows whose activations set the ranges
_TEXTS = 6  # joined to one passage


@dataclass(frozen=True)
class _Product:
    """A product with an encoder weight: its place among the nodes, and the weight's entry."""

    node: onnx.NodeProto
    name: str

    @property
    def read(self) -> str:
        return str(self.node.input[0])


def quantize(folder: Path) -> Path:
    """Write `model.int8.onnx` beside the folder's `model.onnx` and return its path."""
    config = check_folder(folder)
    source, path = folder / "model.onnx", folder / "model.int8.onnx"
    if not source.is_file():
        raise WeightsError(f"{source} is missing: run `selfcrag-evaluator export` first.")
    model = onnx.load(source, load_external_data=False)
    products = list(_products(model.graph))
    if not products:
        raise WeightsError(f"{source} has no products of stored whole numbers.")
    rows = _rows(PairTokenizer.from_folder(folder, int(config["max_length"])))
    ranges = _ranges(model, folder, sorted({product.read for product in products}), rows)
    _rewrite(model.graph, products, ranges)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    path.write_bytes(model.SerializeToString())
    return path


def _products(graph: onnx.GraphProto) -> Iterator[_Product]:
    """Products whose right side is a stored matrix of the encoder, turned."""
    made_by = {output: node for node in graph.node for output in node.output}
    for node in graph.node:
        if node.op_type != "MatMul" or node.input[1] not in made_by:
            continue
        whole = f"{node.input[1]}.whole"
        entry = str(made_by[whole].input[0]) if whole in made_by else ""
        name = entry.removeprefix("stored.").removesuffix(f"|{BYTES}")
        if entry.endswith(f"|{BYTES}") and name.startswith("t5.encoder.block."):
            yield _Product(node, name)


def _rows(tokenizer: PairTokenizer) -> list[Row]:
    """Rows of this project's own texts, both languages, as long as passages are."""
    texts = [row.first for row in needs()]
    step = len(texts) // _SEEN
    pairs = [
        (texts[i], " ".join(texts[i + 1 : i + 1 + _TEXTS])) for i in range(0, _SEEN * step, step)
    ]
    return [row for row in tokenizer.encode("relevance", pairs) if isinstance(row, Row)]


def _ranges(
    model: onnx.ModelProto, folder: Path, names: Sequence[str], rows: Sequence[Row]
) -> dict[str, tuple[float, float]]:
    """The smallest and largest value of each named tensor over the rows."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    for name in names:
        watched.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", str(folder)
    )
    session = ort.InferenceSession(
        watched.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    low, high = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    for row in rows:
        ids, mask = padded([row])
        for name, value in zip(names, session.run(names, {"ids": ids, "mask": mask}), strict=True):
            low[name] = min(low[name], float(value.min()))
            high[name] = max(high[name], float(value.max()))
    return {name: (low[name], high[name]) for name in names}


def _rewrite(
    graph: onnx.GraphProto, products: Sequence[_Product], ranges: dict[str, tuple[float, float]]
) -> None:
    """Put whole-number products in the places of the others; drop what nothing reads then."""
    by_output = {product.node.output[0]: product for product in products}
    nodes: list[onnx.NodeProto] = []
    rounded: set[str] = set()
    for node in graph.node:
        product = by_output.get(node.output[0])
        if product is None:
            nodes.append(node)
            continue
        if product.read not in rounded:
            rounded.add(product.read)
            graph.initializer.extend(_levels(product.read, *ranges[product.read]))
            nodes.append(_rounded(product.read))
        nodes += _whole(product)
    del graph.node[:]
    graph.node.extend(_needed(nodes, [output.name for output in graph.output]))
    kept = {name for node in graph.node for name in node.input}
    initial = [entry for entry in graph.initializer if entry.name in kept]
    del graph.initializer[:]
    graph.initializer.extend(initial)


def _levels(name: str, low: float, high: float) -> list[onnx.TensorProto]:
    step = max(high - low, 1e-6) / LEVELS
    return [
        numpy_helper.from_array(np.array(step, dtype=np.float32), f"{name}.step"),
        numpy_helper.from_array(np.array(round(-low / step), dtype=np.uint8), f"{name}.zero"),
    ]


def _rounded(name: str) -> onnx.NodeProto:
    return helper.make_node(
        "QuantizeLinear", [name, f"{name}.step", f"{name}.zero"], [f"{name}.rounded"]
    )


def _whole(product: _Product) -> list[onnx.NodeProto]:
    """One product over whole numbers, in the old one's place."""
    read, out = product.read, str(product.node.output[0])
    weight, scale = f"stored.{product.name}|{BYTES}", f"stored.{product.name}|{SCALE}"
    return [
        helper.make_node("Transpose", [weight], [f"{out}.weight"], perm=[1, 0]),
        helper.make_node("Cast", [scale], [f"{out}.column"], to=TensorProto.FLOAT),
        helper.make_node("Flatten", [f"{out}.column"], [f"{out}.row"], axis=0),
        helper.make_node("Squeeze", [f"{out}.row"], [f"{out}.scale"]),
        helper.make_node(
            "MatMulIntegerToFloat",
            [f"{read}.rounded", f"{out}.weight", f"{read}.step", f"{out}.scale", f"{read}.zero"],
            [out],
            domain="com.microsoft",
        ),
    ]


def _needed(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> list[onnx.NodeProto]:
    """The nodes that the outputs depend on, in order."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted.update(node.input)
    return kept[::-1]
