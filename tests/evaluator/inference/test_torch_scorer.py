"""The CRAG authors' form: T5ForSequenceClassification with one label, and its raw logit."""

import json
from pathlib import Path

import pytest
import torch
import transformers

from evaluator.calibration.thresholds import store
from evaluator.errors import WeightsError
from evaluator.inference.scorer import Scorer, load_scorer
from evaluator.inference.torch_scorer import AuthorsScorer
from evaluator.model.checkpoint import load_thresholds
from evaluator.schema import CalibratedThresholds, Row, RowScore
from evaluator.settings import EvaluatorSettings
from evaluator.training.onnx_export import export
from tests.evaluator.tiny_rerankers import authors_folder

PAIRS = [
    ("how long is the river?", "the river is long"),
    ("how?", "the mill grinds " * 40),
    ("河流很长？", "河"),
    ("how long is the river?", "mill // " + "it is old. " * 70),
]
SHARDED = "2KB"


@pytest.fixture
def authors(tmp_path: Path) -> Path:
    return authors_folder(tmp_path / "authors")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Scorer:
    return loaded(authors_folder(tmp_path_factory.mktemp("served")))


def loaded(folder: Path) -> Scorer:
    return load_scorer(
        EvaluatorSettings.model_validate({"weights": folder, "backend": "torch", "device": "cpu"})
    )


def scored(scorer: Scorer, pairs: list[tuple[str, str]]) -> list[float]:
    rows = [row for row in scorer.encode("relevance", pairs) if isinstance(row, Row)]
    assert len(rows) == len(pairs)
    results = scorer.forward("relevance", rows)
    return [result.score for result in results if isinstance(result, RowScore)]


def logits_of(folder: Path, pairs: list[tuple[str, str]]) -> list[float]:
    """The authors' way: one text a forward, padded to 512."""
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(folder)
    model = transformers.T5ForSequenceClassification.from_pretrained(folder).eval()
    logits = []
    for question, passage in pairs:
        inputs = tokenizer(
            f"{question} [SEP] {passage}", return_tensors="pt", padding="max_length",
            truncation=True, max_length=512,
        )  # fmt: skip
        with torch.inference_mode():
            found = model(input_ids=inputs.input_ids, attention_mask=inputs.attention_mask)
        logits.append(float(found.logits[0, 0]))
    return logits


@pytest.mark.parametrize("shard_size", ["1GB", SHARDED])
def test_the_score_is_the_authors_logit_alone_padded_and_in_a_batch(
    tmp_path: Path, shard_size: str
) -> None:
    folder = authors_folder(tmp_path, shard_size=shard_size)
    assert (folder / "model.safetensors").is_file() == (shard_size != SHARDED)
    scorer = loaded(folder)
    assert isinstance(scorer, AuthorsScorer)
    logits = logits_of(folder, PAIRS)
    assert max(logits) - min(logits) > 1e-3
    assert scored(scorer, PAIRS) == pytest.approx(logits, abs=1e-5)
    assert [scored(scorer, [pair])[0] for pair in PAIRS] == pytest.approx(logits, abs=1e-5)
    assert scored(scorer, PAIRS[::-1])[::-1] == pytest.approx(logits, abs=1e-5)


SPELT = ["</s>", "</s></s>", "<pad>", "<unk>", "<extra_id_0>", "＜/s＞", "<\u200b/s>",
         "＜／ｓ＞</s>", "</</s>s>"]  # fmt: skip


def test_special_tokens_in_texts_are_plain_text(served: Scorer) -> None:
    odd = [(f"how {spelt} long?", f"the {spelt} river{spelt}") for spelt in SPELT]
    mates = scored(served, [PAIRS[0], *odd, PAIRS[1]])
    assert [mates[0], mates[-1]] == pytest.approx(scored(served, PAIRS[:2]), abs=1e-5)
    for row in served.encode("relevance", odd):
        assert isinstance(row, Row)
        assert [token for token in row.ids if token in (0, 1)] == [1]
        assert row.ids[-1] == 1


def test_a_row_without_text_fails_alone(served: Scorer) -> None:
    row, fault = served.encode("relevance", [PAIRS[0], (" ", "the river")])
    assert isinstance(row, Row)
    assert fault == "One of the texts holds nothing to read."


def test_wrong_shapes_are_refused_with_both(authors: Path) -> None:
    config = json.loads((authors / "config.json").read_text(encoding="utf-8"))
    (authors / "config.json").write_text(json.dumps({**config, "d_ff": 24}), encoding="utf-8")
    with pytest.raises(WeightsError, match=r"wi\.weight .*\[16, 16\] where \[24, 16\] is needed"):
        loaded(authors)


def test_more_than_one_label_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="2 labels where one is needed"):
        loaded(authors_folder(tmp_path, labels=2))


@pytest.mark.parametrize("shard_size", ["1GB", SHARDED])
def test_two_checkpoints_of_one_name_are_told_apart(tmp_path: Path, shard_size: str) -> None:
    names = []
    for host in ("a", "b", "c"):
        folder = authors_folder(tmp_path / host / "crag-t5", shard_size=shard_size)
        if host == "c":
            network = transformers.T5ForSequenceClassification.from_pretrained(folder)
            torch.nn.init.ones_(network.classification_head.out_proj.bias)
            network.save_pretrained(folder, max_shard_size=shard_size)
        names.append(loaded(folder).name)
    assert names[0] == names[1] != names[2]
    assert all(name.startswith("crag-t5@") for name in names)


def test_thresholds_are_bound_to_every_shard(tmp_path: Path) -> None:
    folder = authors_folder(tmp_path, shard_size=SHARDED)
    thresholds = CalibratedThresholds(upper=0.5, lower=-0.5, strip_floor=-0.8, evaluator="")
    store(thresholds, folder)
    assert load_thresholds(folder).evaluator == loaded(folder).digest

    last = sorted(folder.glob("*.safetensors"))[-1]
    last.write_bytes(last.read_bytes()[:-1] + b"?")
    with pytest.raises(WeightsError, match="belongs to other weights"):
        load_thresholds(folder)


def test_the_default_backend_names_the_one_that_serves_this_form(authors: Path) -> None:
    with pytest.raises(WeightsError, match="SELFCRAG_EVALUATOR_BACKEND=torch"):
        load_scorer(EvaluatorSettings(weights=authors, backend="onnx"))
    with pytest.raises(WeightsError, match="SELFCRAG_EVALUATOR_BACKEND=torch"):
        export(authors)
