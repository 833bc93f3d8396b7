import json
from pathlib import Path

import pytest

from evaluator.errors import WeightsError
from evaluator.model.checkpoint import check_folder, load_thresholds, weights_digest
from evaluator.schema import CalibratedThresholds


def test_thresholds_of_other_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    thresholds = CalibratedThresholds(
        upper=0.5, lower=-0.5, strip_floor=-0.8, evaluator=weights_digest(tmp_path)
    )
    (tmp_path / "thresholds.json").write_text(thresholds.model_dump_json(), encoding="utf-8")
    assert load_thresholds(tmp_path) == thresholds

    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(WeightsError, match="belongs to other weights"):
        load_thresholds(tmp_path)
    assert load_thresholds(tmp_path, allow_foreign=True) == thresholds


def test_missing_thresholds_name_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="calibrate"):
        load_thresholds(tmp_path)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A folder in transformers' form that may be opened."""
    (tmp_path / "config.json").write_text('{"architectures": ["T5"]}', encoding="utf-8")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    check_folder(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json",
     "model.pt", "weights.PKL", "training_args.bin", "old/pytorch_model.bin", "old/deep/x.ckpt"],
)  # fmt: skip
def test_pickled_weights_are_refused_by_name(weights: Path, name: str) -> None:
    path = weights / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x80\x04.")
    with pytest.raises(WeightsError, match=f"{name} is refused: pickled"):
        check_folder(weights)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "old/config.json"])
@pytest.mark.parametrize("key", ["auto_map", "_attn_implementation_internal"])
@pytest.mark.parametrize("nested", [False, True])
def test_configs_that_run_code_are_refused_by_name(
    weights: Path, name: str, key: str, nested: bool
) -> None:
    path = weights / name
    path.parent.mkdir(exist_ok=True)
    config = {"parts": [{"first": {key: {"AutoModel": "code.Model"}}}]} if nested else {key: "x"}
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(WeightsError, match=f"{name} is refused: it sets {key}"):
        check_folder(weights)


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "is not JSON"), ("[1]", "must hold an object"), ("[" * 20_000, "is not JSON")],
)
def test_configs_that_are_none_are_refused(weights: Path, text: str, words: str) -> None:
    (weights / "tokenizer_config.json").write_text(text, encoding="utf-8")
    with pytest.raises(WeightsError, match=rf"tokenizer_config\.json {words}"):
        check_folder(weights)


@pytest.mark.parametrize(
    ("shard", "words"),
    [
        ("gone.safetensors", "gone.safetensors, a shard .* is missing"),
        ("../x.safetensors", "is refused: ../x.safetensors is no"),
        ("pytorch_model.zip", "is refused: pytorch_model.zip is no"),
    ],
)
def test_shards_that_are_missing_or_elsewhere_are_refused(
    weights: Path, shard: str, words: str
) -> None:
    (weights / "model.safetensors").unlink()
    index = {"weight_map": {"shared.weight": shard}}
    (weights / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(WeightsError, match=words):
        check_folder(weights)


def test_our_own_form_is_one_file(weights: Path) -> None:
    (weights / "config.json").write_text("{}", encoding="utf-8")
    (weights / "model.safetensors").rename(weights / "part.safetensors")
    index = {"weight_map": {"head.weight": "part.safetensors"}}
    (weights / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(WeightsError, match=r"model\.safetensors is missing"):
        check_folder(weights)
