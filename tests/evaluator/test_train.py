"""Training on a few made-up records: it learns, and a killed run ends as if never killed."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from evaluator.dataset import Pair
from evaluator.errors import DataError
from evaluator.examples import Example, validation
from evaluator.pairs import PairTokenizer
from evaluator.train import TrainOptions, fit_coverage, teach, train
from tests.evaluator.tiny import tiny_network, tiny_tokenizer

OPTIONS = TrainOptions(
    minutes=1000, pairs=160, batch_tokens=256, train_length=48, coverage_steps=60,
    checkpoint_every=5, learning_rate=3e-3, use_minilm=False,
)  # fmt: skip


def examples() -> list[Example]:
    made = []
    rows = PairTokenizer(tiny_tokenizer(), 48)
    for number in range(60):
        relevant = number % 2 == 0
        question, told = f"ab{number}?", f"ab{number} is c" if relevant else f"xy{number + 31} is d"
        pair = Pair(question, told, relevant, "en", "made", "positive" if relevant else "words")
        (row,) = rows.encode("relevance", [(question, told)])
        assert not isinstance(row, str)
        made.append(Example(row.ids, float(relevant), pair))
    return made


class Killed(Exception):
    pass


def test_a_killed_run_ends_as_if_never_killed(tmp_path: Path) -> None:
    def taught(checkpoint: Path, killed_after: str | None) -> dict[str, torch.Tensor]:
        def say(text: str) -> None:
            if killed_after and text.startswith(killed_after):
                raise Killed

        torch.manual_seed(1)
        network = tiny_network()
        teach(network, examples(), examples(), checkpoint, OPTIONS, say)
        return {name: value.clone() for name, value in network.state_dict().items()}

    whole = taught(tmp_path / "whole.pt", None)
    with pytest.raises(Killed):
        taught(tmp_path / "killed.pt", "step 5")
    resumed = taught(tmp_path / "killed.pt", None)
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_a_checkpoint_of_other_options_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    teach(tiny_network(), examples(), examples(), path, OPTIONS, lambda _: None)
    other = replace(OPTIONS, seed=2)
    with pytest.raises(DataError, match="other options"):
        teach(tiny_network(), examples(), examples(), path, other, lambda _: None)


def test_coverage_learns_to_tell_matches_apart() -> None:
    network = tiny_network()
    torch.nn.init.zeros_(network.head.weight)
    fit_coverage(network, examples(), OPTIONS, lambda _: None)
    assert validation(network, examples())["made"]["auc"] > 0.95


@pytest.mark.slow
def test_a_folder_becomes_weights(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    rows = [
        {
            "question": f"How long is the river Ab{n}?", "answers": [f"{n}77 km"],
            "answerable": True, "title": f"Ab{n}",
            "passage": f"The river Ab{n} is {n}77 km long. Hills stand around it. It is cold.",
        }
        for n in range(120)
    ]  # fmt: skip
    lines = "\n".join(json.dumps(row) for row in rows)
    (data / "rivers.jsonl").write_text(lines, encoding="utf-8")
    options = replace(OPTIONS, pairs=64, coverage_steps=10)
    train(data, tmp_path / "out", tmp_path / "work", options, lambda _: None)
    config = json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))
    assert config["made_by"]["data"].keys() == {"rivers.jsonl"}
    assert config["made_by"]["validation"]["rivers"]["pairs"] > 0
    assert (tmp_path / "out" / "tokenizer.json").is_file()
