"""The paper's recipe on a tiny T5: the folder it leaves is one the worker serves."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from sklearn.metrics import roc_auc_score

from evaluator.data.records import read_folder, split
from evaluator.errors import DataError, WeightsError
from evaluator.inference.torch_scorer import AuthorsScorer
from evaluator.schema import Row, RowScore
from evaluator.settings import EvaluatorSettings
from evaluator.training.crag_recipe import RecipeOptions, train_recipe
from evaluator.training.relevance_pairs import pairs_of
from tests.evaluator.tiny_pretrained import rivers, tiny_bert, tiny_t5

OPTIONS = RecipeOptions(rows=120, batch_tokens=512, held_back_percent=20, check_every=10)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    tiny_t5(folder / "t5")
    rivers(folder / "data")
    return folder


@pytest.fixture(scope="module")
def made_by(place: Path) -> dict[str, Any]:
    return trained(place)


def trained(
    place: Path, options: RecipeOptions = OPTIONS, said: list[str] | None = None
) -> dict[str, Any]:
    say = (said if said is not None else []).append
    return train_recipe(place / "data", place / "t5", place / "out", place / "work", options, say)


def served(folder: Path) -> AuthorsScorer:
    return AuthorsScorer(EvaluatorSettings.model_validate({"weights": folder, "device": "cpu"}))


def test_the_worker_gives_the_trained_scores(place: Path, made_by: dict[str, Any]) -> None:
    _, held_back = split(read_folder(place / "data"), OPTIONS.held_back_percent)
    pairs = pairs_of(held_back, OPTIONS.seed)
    pairs = [pair for pair in pairs if pair.source == "rivers" and pair.kind != "random"]
    pairs = [pair for pair in pairs if pair.language == "en"]
    scorer = served(place / "out")
    encoded = scorer.encode("relevance", [(pair.question, pair.passage) for pair in pairs])
    read = zip(pairs, encoded, strict=True)
    kept = [(p, r) for p, r in read if isinstance(r, Row) and r.ids.count(2) <= 0.1 * len(r.ids)]
    pairs, rows = [pair for pair, _ in kept], [row for _, row in kept]
    found = scorer.forward("relevance", rows)
    scores = [score.score for score in found if isinstance(score, RowScore)]
    figure = made_by["validation"]["rivers"]
    assert figure["pairs"] == len(scores) > 10
    auc = roc_auc_score([pair.relevant for pair in pairs], scores)
    assert auc == pytest.approx(figure["auc"], abs=1e-3)
    before = transformers.T5ForSequenceClassification.from_pretrained(place / "t5", num_labels=1)
    after = transformers.T5ForSequenceClassification.from_pretrained(place / "out")
    assert not torch.equal(before.transformer.shared.weight, after.transformer.shared.weight)


def test_it_reads_as_many_pairs_as_asked(made_by: dict[str, Any]) -> None:
    assert made_by["training"]["rows_seen"] >= OPTIONS.rows
    assert made_by["training"]["stopped_by"] == "rows"
    assert all(loss < 2 for _, loss in made_by["training"]["loss"])


def test_the_folder_tells_how_it_was_made(place: Path, made_by: dict[str, Any]) -> None:
    text = (place / "out" / "made_by.json").read_text(encoding="utf-8")
    assert json.loads(text) == made_by
    assert made_by["recipe"] == "CRAG, section 4.2"
    assert made_by["options"]["learning_rate"] == 1e-4
    assert made_by["options"]["minutes"] is None
    assert made_by["data"].keys() == {"rivers.jsonl"}
    assert len(made_by["t5"]) == 64


def test_what_the_t5_cannot_read_is_left_out_and_counted(made_by: dict[str, Any]) -> None:
    assert made_by["training"]["unreadable"] >= 1


def test_a_finished_run_is_not_repeated_and_another_is_refused(
    place: Path, made_by: dict[str, Any]
) -> None:
    said: list[str] = []
    assert trained(place, said=said) == made_by
    assert any("going on from step" in text for text in said)
    with pytest.raises(DataError, match=r"options\.learning_rate is 0\.0001 there"):
        trained(place, replace(OPTIONS, learning_rate=1e-3))


def test_folders_that_are_no_t5_are_refused(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "data", tmp_path / "data")
    with pytest.raises(WeightsError, match=r"config\.json"):
        trained(tmp_path)
    tiny_bert(tmp_path / "t5")
    with pytest.raises(WeightsError, match="bert where a t5"):
        trained(tmp_path)
