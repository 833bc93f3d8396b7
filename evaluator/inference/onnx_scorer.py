"""Scores on the CPU with ONNX Runtime; the graph's weights are read out of model.safetensors."""

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnxruntime as ort

from evaluator.errors import WeightsError
from evaluator.inference.scorer import HasIds, judgements, padded
from evaluator.model.checkpoint import check_folder, known_tasks, name_of, weights_digest
from evaluator.model.tokenization import tokenizer_of
from evaluator.schema import Row, RowScore, Task
from evaluator.settings import EvaluatorSettings

_OUTPUTS = ["logits", "spans"]
_REMEDY = "run `selfcrag-evaluator export`, or use the torch backend"


class OnnxScorer:
    """One checkpoint of ours in an ONNX Runtime session, in the arithmetic of its graph."""

    def __init__(self, settings: EvaluatorSettings) -> None:
        folder = settings.weights
        config = check_folder(folder)
        self.tasks = known_tasks(config)
        self.digest = weights_digest(folder)
        self.name = name_of(str(config.get("architecture")), self.digest)
        self._tokenizer = tokenizer_of(folder, config)
        self._graph = Graph(folder / "model.onnx", _OUTPUTS, settings.threads, _REMEDY)

    def encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        return self._tokenizer.encode(task, pairs)

    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        outputs = _OUTPUTS if task == "answer" else _OUTPUTS[:1]
        logits, *spans = self._graph.run(outputs, rows)
        return judgements(task, rows, logits, *spans)


class Graph:
    """An exported graph in an ONNX Runtime session; `run` may be called by several threads."""

    def __init__(self, path: Path, outputs: Sequence[str], threads: int, remedy: str) -> None:
        """Raises WeightsError where the file is missing, damaged or has other outputs."""
        if not path.is_file():
            raise WeightsError(f"{path} is missing: {remedy}.")
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        # Without VNNI, AVX2's products of bytes saturate: this takes the exact, slower ones there.
        options.add_session_config_entry("session.x64quantprecision", "1")
        try:
            self._session = ort.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
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


load = OnnxScorer
