"""Folders taken and refused, ONNX against PyTorch, and the authors' form."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, processors
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast, T5Config, T5ForSequenceClassification

from evaluator import torch_backend
from evaluator.errors import WeightsError
from evaluator.export import export
from evaluator.scoring import Row, RowScore, Scorer, load_scorer
from evaluator.settings import EvaluatorSettings
from tests.evaluator.tiny import tiny_folder

PAIRS = [
    ("how long is the river?", "the river is long. 河流很长"),
    ("河流很长？", "河流很长"),
    ("who?", "nobody " * 40),
]


def loaded(folder: Path, backend: str = "torch") -> Scorer:
    return load_scorer(EvaluatorSettings.model_validate({"weights": folder, "backend": backend}))


def scored(scorer: Scorer, pairs: list[tuple[str, str]] = PAIRS) -> list[float]:
    rows = [row for row in scorer.encode("relevance", pairs) if isinstance(row, Row)]
    results = scorer.forward("relevance", rows)
    return [result.score for result in results if isinstance(result, RowScore)]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tiny_folder(tmp_path_factory.mktemp("exported"))
    export(folder)
    return folder


def test_onnx_gives_pytorchs_scores(exported: Path) -> None:
    onnx, pytorch = loaded(exported, "onnx"), loaded(exported)
    assert scored(onnx) == pytest.approx(scored(pytorch), abs=1e-5)
    alone = [scored(onnx, [pair])[0] for pair in PAIRS]
    assert scored(onnx) == pytest.approx(alone, abs=1e-5)
    assert np.ptp(alone) > 1e-3


def test_weights_are_stored_once(exported: Path) -> None:
    graph = (exported / "model.onnx").read_bytes()
    assert b"model.safetensors" in graph
    assert len(graph) < 80_000


def test_serving_on_onnx_imports_no_torch() -> None:
    code = (
        "import sys, evaluator.server, evaluator.client, evaluator.onnx_backend, evaluator.cli\n"
        "sys.exit(any(name.split('.')[0] in ('torch', 'transformers') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.pkl"])
def test_pickled_weights_are_refused_by_name(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"\x80\x04.")
    with pytest.raises(WeightsError, match=name):
        loaded(folder)


@pytest.mark.parametrize("key", ["auto_map", "_attn_implementation_internal"])
def test_configs_that_run_code_are_refused_by_name(folder: Path, key: str) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, key: "x"}), encoding="utf-8")
    with pytest.raises(WeightsError, match=key):
        loaded(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(WeightsError, match=name):
        loaded(folder)


def test_a_missing_export_names_the_command(folder: Path) -> None:
    with pytest.raises(WeightsError, match="export"):
        loaded(folder, "onnx")


def test_wrong_shapes_are_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "d_ff": 25}), encoding="utf-8")
    with pytest.raises(WeightsError, match="does not fit"):
        loaded(folder)


def test_broken_tensors_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(WeightsError, match="safetensors"):
        loaded(folder)


def test_fp16_is_no_choice() -> None:
    with pytest.raises(ValueError, match="precision"):
        EvaluatorSettings.model_validate({"precision": "fp16"})


@pytest.fixture
def authors(tmp_path: Path) -> Path:
    """A tiny T5ForSequenceClassification with a tokenizer that appends T5's end token."""
    words = ["<pad>", "</s>", "<unk>", "how", "long", "river", "is", "the", "[", "SEP", "]", "?"]
    model = WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    ).save_pretrained(tmp_path)
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(words), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, num_labels=1
    )
    config.decoder_start_token_id = 0
    T5ForSequenceClassification(config).save_pretrained(tmp_path)
    return tmp_path


def test_the_authors_form_gives_its_raw_logit(authors: Path) -> None:
    scorer = loaded(authors)
    assert isinstance(scorer, torch_backend.AuthorsScorer)
    model = T5ForSequenceClassification.from_pretrained(authors).eval()
    ids = torch.tensor([[3, 4, 6, 7, 5, 11, 8, 9, 10, 7, 5, 6, 4, 1]])
    with torch.inference_mode():
        logit = model(input_ids=ids).logits[0, 0].item()
    pair = ("how long is the river ?", "the river is long")
    assert scored(scorer, [pair]) == pytest.approx([logit], abs=1e-5)
    assert scored(scorer, [pair, ("how ?", "river")])[0] == pytest.approx(logit, abs=1e-5)


def test_an_end_token_in_a_passage_is_scored_by_the_authors_form(authors: Path) -> None:
    pairs = [("how long ?", "the river"), ("how long ?", "the </s> river </s>")]
    found = scored(loaded(authors), pairs)
    assert len(found) == 2
    assert found[0] == pytest.approx(scored(loaded(authors), pairs[:1])[0], abs=1e-5)
