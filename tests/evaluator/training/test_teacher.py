"""The teacher on a tiny BERT: trained, asked, its judgements kept."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from evaluator.errors import WeightsError
from evaluator.inference.torch_scorer import load_tokenizer
from evaluator.training.teacher import TeacherOptions, teacher_scores, train_from
from tests.evaluator.tiny_pretrained import rivers, tiny_bert, tiny_t5

PAIRS = [
    ("How long is the river ab 7?", "The river ab 7 is 777 km long."),
    ("How long is the river ab 7?", "Hills stand around it. " * 9),
    ("How?", "It is [SEP] cold."),
]


def test_a_bert_becomes_a_teacher_of_english_pairs(tmp_path: Path) -> None:
    options = TeacherOptions(
        pairs=120, batch_tokens=512, held_back_percent=20, check_every=5, max_length=64,
        use_minilm=False,
    )  # fmt: skip
    data, work = rivers(tmp_path / "data"), tmp_path / "work"
    folder = train_from(tiny_bert(tmp_path / "bert"), data, work, options, lambda _: None)
    assert folder.is_relative_to(work)
    found = teacher_scores(folder, PAIRS, work)
    assert all(0 < p < 1 for p in found)
    assert len(set(found)) == 3


@pytest.mark.parametrize("labels", [1, 2])
def test_probabilities_are_the_models_own(tmp_path: Path, labels: int) -> None:
    folder = tiny_bert(tmp_path / "bert", labels)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    read = load_tokenizer(folder)(*PAIRS[0], return_tensors="pt")
    assert read["token_type_ids"].sum() > 0
    with torch.inference_mode():
        logits = model(**read).logits[0]
    expected = logits.sigmoid()[0] if labels == 1 else logits.softmax(0)[1]
    found = teacher_scores(folder, PAIRS, tmp_path)
    assert found[0] == pytest.approx(float(expected), abs=1e-6)
    assert teacher_scores(folder, PAIRS[:1], tmp_path / "alone") == pytest.approx(found[:1])


def test_judgements_are_kept_by_the_teachers_digest(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "bert", 1)
    found = teacher_scores(folder, PAIRS[:2], tmp_path)
    (kept,) = tmp_path.glob("teacher-*.sqlite")
    assert teacher_scores(folder, [*PAIRS, *PAIRS], tmp_path)[:2] == found
    written = kept.stat().st_mtime_ns
    assert teacher_scores(folder, PAIRS[::-1], tmp_path)[::-1][:2] == found
    assert kept.stat().st_mtime_ns == written
    teacher_scores(tiny_bert(tmp_path / "other", 2), PAIRS, tmp_path)
    assert len(list(tmp_path.glob("teacher-*.sqlite"))) == 2
    assert teacher_scores(folder, [], tmp_path) == []


def test_folders_that_cannot_judge_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="3 labels"):
        teacher_scores(tiny_bert(tmp_path / "three", 3), PAIRS, tmp_path)
    with pytest.raises(WeightsError, match=r"lack classif.*"):
        teacher_scores(tiny_bert(tmp_path / "headless"), PAIRS, tmp_path)
    with pytest.raises(WeightsError, match="safetensors"):
        teacher_scores(tmp_path / "nowhere", PAIRS, tmp_path)
    with pytest.raises(WeightsError, match="classification_head"):
        teacher_scores(tiny_t5(tmp_path / "t5"), PAIRS, tmp_path)
