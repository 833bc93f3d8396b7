"""What the backends make of a folder, and ONNX against PyTorch."""

import ctypes
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from evaluator.errors import WeightsError
from evaluator.inference.scorer import Scorer, answer_place, load_scorer
from evaluator.model.tokenization import END, SEPARATOR
from evaluator.schema import TASKS, Row, RowScore, Span, Task
from evaluator.settings import EvaluatorSettings

PAIRS = [
    ("how long is the river?", "the river is long. 河流很长"),
    ("河流很长？", "河流很长"),
    ("who?", "nobody " * 40),
]


def loaded(folder: Path, backend: str = "torch") -> Scorer:
    return load_scorer(EvaluatorSettings.model_validate({"weights": folder, "backend": backend}))


def scored(
    scorer: Scorer, pairs: list[tuple[str, str]] = PAIRS, task: Task = "relevance"
) -> list[float]:
    rows = [row for row in scorer.encode(task, pairs) if isinstance(row, Row)]
    results = scorer.forward(task, rows)
    return [result.score for result in results if isinstance(result, RowScore)]


@pytest.mark.parametrize("task", TASKS)
def test_onnx_gives_pytorchs_scores(exported: Path, task: Task) -> None:
    runtime, pytorch = loaded(exported, "onnx"), loaded(exported)
    in_bytes = pytest.approx(scored(pytorch, task=task), abs=0.05)
    assert scored(runtime, task=task) == in_bytes
    alone = [scored(runtime, [pair], task)[0] for pair in PAIRS]
    assert scored(runtime, task=task) == pytest.approx(alone, abs=1e-5)
    assert np.ptp(alone) > 1e-4


LARGE = """
import ctypes, sys
from pathlib import Path
import numpy as np
from evaluator.inference.scorer import load_scorer
from evaluator.settings import EvaluatorSettings

class Held(ctypes.Structure):
    _fields_ = [(f"field_{n}", ctypes.c_size_t) for n in range(10)]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Held
scorer = load_scorer(EvaluatorSettings(weights=Path(sys.argv[1]), backend="onnx"))
np.ones(3_750_000)  # 30 MB, after which glibc by itself keeps smaller blocks
blocks = [np.ones(250_000) for _ in range(100)]
print(libc.mallinfo2().field_3)  # blocks that go back to the system when they are freed
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="glibc's")
def test_large_blocks_go_back_when_they_are_freed(exported: Path) -> None:
    command = [sys.executable, "-c", LARGE, str(exported)]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(told.stdout) >= 100


def test_answer_tells_the_place_beside_relevance(exported: Path) -> None:
    found = [judged(loaded(exported, backend)) for backend in ("onnx", "torch")]
    for backend, rows in zip(("onnx", "torch"), found, strict=True):
        relevance = scored(loaded(exported, backend))
        assert [2 * row.score - 1 for row in rows] == pytest.approx(relevance, abs=1e-4)
        for (_, passage), row in zip(PAIRS, rows, strict=True):
            assert row.span
            assert passage[row.span.start : row.span.end].strip()
            assert 0 < row.span.probability <= 1
    spans = [[(row.span.start, row.span.end) for row in rows if row.span] for rows in found]
    assert spans[0] == spans[1]


def judged(scorer: Scorer) -> list[RowScore]:
    rows = [row for row in scorer.encode("answer", PAIRS) if isinstance(row, Row)]
    return [row for row in scorer.forward("answer", rows) if isinstance(row, RowScore)]


def test_where_nowhere_is_likeliest_there_is_no_place() -> None:
    row = Row((4, 30, SEPARATOR, 4, 31, 32, END), offsets=((0, 1), (2, 4)), begins=4)
    logits = np.full((7, 2), -1e9, dtype=np.float32)
    logits[[0, 4, 5]] = [[0, 0], [2, -1], [-1, 3]]
    assert answer_place(row, logits) == Span(start=0, end=4, probability=0.789994)
    logits[0] = 9
    assert answer_place(row, logits) is None


def test_an_export_of_another_version_is_refused(exported: Path, tmp_path: Path) -> None:
    folder = tmp_path / "older"
    shutil.copytree(exported, folder)
    model = onnx.load(exported / "model.onnx", load_external_data=False)
    del model.graph.output[1]
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(WeightsError, match="another version: run `selfcrag-evaluator export`"):
        loaded(folder, "onnx")


@pytest.mark.parametrize(
    ("name", "content", "backend", "words"),
    [
        ("config.json", None, "torch", r"config\.json"),
        ("model.safetensors", None, "torch", r"model\.safetensors"),
        ("model.safetensors", b"no tensors", "torch", "safetensors"),
        ("tokenizer.json", None, "torch", r"tokenizer\.json"),
        ("model.onnx", None, "onnx", "export"),
        ("model.onnx", b"no graph", "onnx", r"model\.onnx cannot be loaded"),
    ],
)
def test_what_is_missing_or_broken_is_named(
    folder: Path, name: str, content: bytes | None, backend: str, words: str
) -> None:
    (folder / name).unlink(missing_ok=True)
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(WeightsError, match=words):
        loaded(folder, backend)


def test_wrong_shapes_are_refused_by_name(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "d_ff": 26}), encoding="utf-8")
    with pytest.raises(WeightsError, match=r"t5\..* \(.*24.*\) .* \(.*26.*\)"):
        loaded(folder)


def test_no_more_is_read_than_the_checkpoint_can(exported: Path) -> None:
    scorer = loaded(exported, "onnx")
    rows = scorer.encode("relevance", [("a" * 90, "河流很长" * 90), ("河流很长" * 90, "a" * 90)])
    assert [len(row.ids) for row in rows if isinstance(row, Row)] == [96, 96]


def test_serving_on_onnx_imports_no_torch() -> None:
    code = (
        "import sys, evaluator.serving.app, evaluator.client\n"
        "import evaluator.inference.onnx_scorer, evaluator.commands\n"
        "sys.exit(any(name.split('.')[0] in ('torch', 'transformers') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
