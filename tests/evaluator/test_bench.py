import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from evaluator.bench import BenchOptions, Texts, bench, table
from evaluator.data.text import is_chinese
from evaluator.errors import WeightsError
from evaluator.settings import EvaluatorSettings
from tests.evaluator.tiny_rerankers import authors_folder

QUICK = BenchOptions(pairs=6, seconds=0.0, batch_tokens=(128, 256))


def on_torch(folder: Path, **more: Any) -> EvaluatorSettings:
    settings = {"weights": folder, "backend": "torch", "device": "cpu", **more}
    return EvaluatorSettings.model_validate(settings)


def test_texts_are_of_both_languages_real_lengths_and_the_same_by_seed() -> None:
    pairs = Texts(3).pairs(200)
    assert pairs == Texts(3).pairs(200)
    assert pairs != Texts(4).pairs(200)
    chinese = [pair for pair in pairs if is_chinese(pair[1])]
    assert 60 < len(chinese) < 140
    assert all(is_chinese(question) for question, _ in chinese)
    words = sorted(len(passage.split()) for pair in pairs if pair not in chinese
                   for passage in pair[1:])  # fmt: skip
    assert 60 < words[len(words) // 2] < 130
    assert words[0] < 60 < 160 < words[-1]


def test_a_checkpoint_is_measured(folder: Path) -> None:
    speed = bench(on_torch(folder), QUICK)
    assert [point.batch_tokens for point in speed.points] == [128, 256]
    assert all(0 <= point.padding < 1 for point in speed.points)
    assert speed.points[0].padding <= speed.points[1].padding
    assert 0 < speed.lone_p50_ms <= speed.lone_p95_ms
    assert json.loads(json.dumps(asdict(speed)))["points"][1]["tokens_per_s"] > 0
    assert "a lone pair takes" in table(speed)


def test_every_pair_can_be_given_one_length(folder: Path) -> None:
    options = BenchOptions(pairs=4, length=12, seconds=0.0, batch_tokens=(1024,))
    assert bench(on_torch(folder), options).points[0].padding == 0
    with pytest.raises(WeightsError, match="at most 96 tokens"):
        bench(on_torch(folder), BenchOptions(length=97))


def test_the_authors_checkpoint_is_measured(tmp_path: Path) -> None:
    assert len(bench(on_torch(authors_folder(tmp_path)), QUICK).points) == 2
