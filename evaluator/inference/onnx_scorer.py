"""Scores on the CPU with ONNX Runtime; the graph's weights are read out of model.safetensors."""

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime as ort
from safetensors import safe_open

from evaluator.errors import WeightsError
from evaluator.inference.scorer import HasIds, judgements, padded
from evaluator.model.checkpoint import (
    ARCHITECTURE,
    BLOCK,
    BYTES,
    LOOKED_UP,
    NIBBLES,
    SCALE,
    TENSORS_FILE,
    WORDS,
    check_folder,
    known_tasks,
    name_of,
    weights_digest,
)
from evaluator.model.tokenization import PairTokenizer
from evaluator.schema import Row, RowScore, Task
from evaluator.settings import EvaluatorSettings

Bytes = npt.NDArray[np.int8]
Pairs = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]
_OUTPUTS = ["logits", "spans"]
_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK = 1 << 20
_REMEDY = "run `selfcrag-evaluator export`, or use the torch backend"


class OnnxScorer:
    """One checkpoint of ours in an ONNX Runtime session, in the arithmetic of its graph."""

    def __init__(self, settings: EvaluatorSettings) -> None:
        folder = settings.weights
        config = check_folder(folder)
        if (form := config.get("architecture", ARCHITECTURE)) != ARCHITECTURE:
            raise WeightsError(
                f"{folder} holds weights of the form {form}, and {ARCHITECTURE} alone is read: "
                "train them anew with `selfcrag-evaluator train`."
            )
        self.tasks = known_tasks(config)
        self.digest = weights_digest(folder)
        self.name = name_of(ARCHITECTURE, self.digest)
        self._tokenizer = PairTokenizer.from_folder(folder, int(config["max_length"]))
        self._graph = Graph(folder / "model.onnx", _OUTPUTS, settings.threads, _REMEDY)

    def encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        return self._tokenizer.encode(task, pairs)

    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        outputs = _OUTPUTS if task == "answer" else _OUTPUTS[:1]
        logits, *spans = self._graph.run(outputs, rows)
        return judgements(task, rows, logits, *spans)


@cache
def _has_vnni() -> bool:
    """Whether the CPU is known to add products of bytes exactly (AVX-VNNI, AVX-512 VNNI)."""
    try:
        return "_vnni" in Path("/proc/cpuinfo").read_text("utf-8", errors="replace")
    except OSError:
        return False


class Graph:
    """An exported graph in an ONNX Runtime session; `run` may be called by several threads."""

    def __init__(
        self,
        path: Path,
        outputs: Sequence[str],
        threads: int,
        remedy: str,
        words: Path | None = None,
    ) -> None:
        """Raises WeightsError where the file is missing, damaged or has other outputs.

        `words` is the file of the word table, where the graph's own tensors hold none.
        """
        if not path.is_file():
            raise WeightsError(f"{path} is missing: {remedy}.")
        _return_large_blocks()
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        if not _has_vnni():
            # AVX2's products of bytes saturate: this takes exact ones, which are slower.
            options.add_session_config_entry("session.x64quantprecision", "1")
        try:
            made = _made_bytes(path.with_name(TENSORS_FILE)) | _word_table(words)
            options.add_external_initializers(list(made), list(made.values()))
            self._session = ort.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
            self._made = made  # the session reads them where they lie
        except Exception as error:  # its exceptions have no base of their own
            raise WeightsError(f"{path} cannot be loaded: {error}") from error
        if [entry.name for entry in self._session.get_outputs()] != list(outputs):
            raise WeightsError(f"{path} is of another version: {remedy}.")
        self._options = ort.RunOptions()  # gives a batch's memory back, not kept for the next one
        self._options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        if sys.platform == "linux":  # the C library, if glibc, gives back what loading has freed
            trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
            if trim is not None:
                trim(0)

    def run(self, outputs: Sequence[str], rows: Sequence[HasIds]) -> list[Any]:
        """The named outputs for one padded batch."""
        ids, mask = padded(rows)
        feed = {"ids": ids, "mask": mask}
        values: list[Any] = self._session.run(list(outputs), feed, self._options)
        return values


def _return_large_blocks() -> None:
    """Blocks of 1 MB or more go back to the system when they are freed, in all of the process.

    glibc itself raises that bound to the largest block that was freed, and keeps what lies below
    it: batches of all sizes then fill its arenas with holes. Nothing without glibc.
    """
    if sys.platform == "linux" and (choose := getattr(ctypes.CDLL(None), "mallopt", None)):
        choose(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


def _made_bytes(tensors: Path) -> dict[str, ort.OrtValue]:
    """Matrices stored at four bits as bytes with a scale a row, by the names of the graph's inputs.

    Matrix after matrix, so that little memory is taken at once.
    """
    made: dict[str, ort.OrtValue] = {}
    with safe_open(tensors, "numpy") as stored:
        for name in stored.keys():  # noqa: SIM118 (it is no dict)
            entry, _, form = name.partition("|")
            if form == NIBBLES and not entry.endswith(LOOKED_UP):
                pairs, scales = stored.get_tensor(name), stored.get_tensor(f"{entry}|{SCALE}")
                whole, scale = _by_row(pairs, scales)
                made[f"made.{entry}|{BYTES}"] = ort.OrtValue.ortvalue_from_numpy(whole)
                made[f"made.{entry}|{SCALE}"] = ort.OrtValue.ortvalue_from_numpy(scale)
    return made


def _word_table(tensors: Path | None) -> dict[str, ort.OrtValue]:
    if tensors is None:
        return {}
    with safe_open(tensors, "numpy") as stored:
        names = [name for name in stored.keys() if name.partition("|")[0] == WORDS]  # noqa: SIM118
        return {
            f"stored.{name}": ort.OrtValue.ortvalue_from_numpy(stored.get_tensor(name))
            for name in names
        }


def _by_row(pairs: Pairs, scales: Floats) -> tuple[Bytes, Floats]:
    """Of blocks of 32 steps from -8, low nibbles first: bytes (rows, width), scales (rows, 1)."""
    blocks = pairs.reshape(len(pairs), -1, BLOCK // 2)
    steps = np.concatenate([blocks & 15, blocks >> 4], axis=2).astype(np.float32) - 8
    values = (steps * scales.astype(np.float32)[:, :, None]).reshape(len(pairs), -1)
    scale = np.maximum(np.abs(values).max(1, keepdims=True) * np.float32(1 / 127), np.float32(1e-6))
    return np.round(values / scale).astype(np.int8), scale


load = OnnxScorer
