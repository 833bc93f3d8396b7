"""The beginning of a run: data of any language is enough for MiniLM's layers."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from evaluator.data.records import Record
from evaluator.data.relevance_pairs import pairs_of
from evaluator.errors import DataError
from evaluator.training.examples import TrainOptions
from evaluator.training.initialization import beginning, distil, fitted_on
from tests.evaluator.tiny import tiny_network, tiny_tokenizer

OPTIONS = TrainOptions(
    own_layers=1, joint_layers=1, distil_steps=2, coverage_steps=2, train_length=48
)
TEXTS = {
    "en": ("How long is river {}?", "River {} is {} km long. It is cold."),
    "zh": ("{}河有多长？", "{}河长{}公里。河水很冷，岸边是山。"),
}


def records(language: str) -> list[Record]:
    question, passage = TEXTS[language]
    return [
        Record(
            "made", language, question.format(n), (str(n),), True, f"Ab{n}", passage.format(n, n)
        )
        for n in range(100, 130)
    ]


def test_the_transplant_is_fitted_on_english_where_there_is_any() -> None:
    chinese, english = records("zh"), records("en")
    assert {record.language for record in fitted_on(chinese + english)} == {"en"}
    assert sorted(record.title for record in fitted_on(chinese)) == [r.title for r in chinese]
    unlike = [replace(record, relevant=False) for record in english]
    assert {record.language for record in fitted_on(chinese + unlike)} == {"zh"}


@pytest.mark.slow
@pytest.mark.parametrize("language", ["zh", "en"])
def test_one_language_is_enough_for_minilms_layers(language: str, tmp_path: Path) -> None:
    said: list[str] = []
    known = records(language)
    pairs = pairs_of(known, 1, None)
    network, _ = beginning(known, pairs, None, tmp_path, {}, OPTIONS, said.append)
    assert all(torch.isfinite(weights).all() for weights in network.state_dict().values())
    assert any(text.startswith("transplanted") for text in said)


@pytest.mark.parametrize("language", ["zh", "en"])
def test_no_relevant_record_is_told_before_the_work(language: str, tmp_path: Path) -> None:
    said: list[str] = []
    known = [replace(record, relevant=False) for record in records(language)]
    with pytest.raises(DataError, match="no relevant passage"):
        beginning(known, pairs_of(known, 1, None), None, tmp_path, {}, OPTIONS, said.append)
    assert not said


def rivers() -> list[Record]:
    names = ["ab", "cd", "ef", "gh", "ij", "kl"]
    return [Record("made", "en", f"{n}?", (n,), True, n, f"{n} {n} long") for n in names]


def test_questions_move_towards_their_passages() -> None:
    network, said = tiny_network(), list[str]()
    with torch.no_grad():  # words much alike: everything is still to be learnt
        network.words.weight.add_(4 * network.words.weight.std())
    before = network.words.weight.clone()
    for steps in (5, 80):
        distil(network, tiny_tokenizer(), rivers(), None, {"en": steps}, 1, said.append)
    losses = [float(text.rsplit(" ", 1)[1]) for text in said]
    assert losses[1] < losses[0]
    assert not torch.equal(before, network.words.weight)
    assert network.interaction.pool_weight.min() > 0


def test_a_language_without_pairs_is_passed_over() -> None:
    network = tiny_network()
    before = network.words.weight.clone()
    distil(network, tiny_tokenizer(), rivers(), None, {"zh": 5}, 1, lambda _: None)
    assert torch.allclose(before, network.words.weight, atol=1e-5)
