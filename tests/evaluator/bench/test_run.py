import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import T5ForSequenceClassification
from typer.testing import CliRunner

from evaluator import cli
from evaluator.bench.flops import flops
from evaluator.bench.plot import draw
from evaluator.bench.run import BenchOptions, bench, table
from evaluator.bench.workload import Texts
from evaluator.errors import WeightsError
from evaluator.model.t5 import EvaluatorModel, ModelConfig
from evaluator.model.text import is_chinese
from evaluator.model.tokenization import SPECIAL_TOKENS
from evaluator.schema import TASKS
from evaluator.settings import EvaluatorSettings
from tests.evaluator.test_authors import authors_folder

QUICK = BenchOptions(pairs=6, seconds=0.0, batch_tokens=(128, 256))


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """So that the threads of several test runs do not wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def on_torch(folder: Path, **more: Any) -> EvaluatorSettings:
    asked = {"weights": folder, "backend": "torch", "device": "cpu", **more}
    return EvaluatorSettings.model_validate(asked)


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
    asked = Texts(3).asked()
    assert (len(asked.passages), len(asked.strips)) == (10, 30)


@pytest.mark.parametrize("one_step", [False, True])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_authors_operations_are_those_pytorch_counts(tmp_path: Path, one_step: bool) -> None:
    folder = authors_folder(tmp_path)
    network: Any = T5ForSequenceClassification.from_pretrained(folder).eval()
    network.set_attn_implementation("eager")  # the counter does not see into the fused form
    ids = torch.full((1, 40), 5)
    ids[0, -1] = 1
    with torch.inference_mode(), FlopCounterMode(display=False) as counted:
        if one_step:
            states = network.transformer(input_ids=ids, decoder_input_ids=ids[:, :1])
            network.classification_head(states.last_hidden_state)
        else:
            network(input_ids=ids)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert flops(config, "relevance", 40, one_step=one_step) == counted.get_total_flops()


@pytest.mark.parametrize("task", ["relevance", "support"])
def test_our_operations_are_nearly_those_pytorch_counts(task: Any) -> None:
    size = len(SPECIAL_TOKENS) + 9
    config = ModelConfig(size, size - 1, own_layers=2, joint_layers=1)
    network = EvaluatorModel(config).eval()
    network.t5.set_attn_implementation("eager")
    ids = torch.full((1, 100), size - 2)
    mark = SPECIAL_TOKENS.index(f"[task:{TASKS[0]}]")
    ids[0, [0, 9, 10, -1]] = torch.tensor([mark, 3, mark, 1])
    with torch.inference_mode(), FlopCounterMode(display=False) as counted:
        (network.relevance if task == "relevance" else network)(ids, torch.ones_like(ids))
    assert flops(asdict(config), task, 100) == pytest.approx(counted.get_total_flops(), rel=0.05)


def test_a_checkpoint_is_measured_and_drawn(folder: Path, tmp_path: Path) -> None:
    speed = bench(on_torch(folder), QUICK)
    (variant,) = speed.variants
    assert [point.batch_tokens for point in variant.points] == [128, 256]
    assert all(0 <= point.padding < 1 for point in variant.points)
    assert all(0 < point.peak_share < 1 for point in variant.points)
    assert variant.points[0].padding <= variant.points[1].padding
    assert 0 < variant.lone_p50_ms <= variant.lone_p95_ms
    assert json.loads(json.dumps(speed.figures()))["variants"][0]["points"][1]["tokens_per_s"] > 0
    assert "as stored" in table(speed)
    draw(speed, tmp_path / "speed.png")
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")


def test_every_pair_can_be_given_one_length(folder: Path) -> None:
    options = BenchOptions(pairs=4, length=64, seconds=0.0, batch_tokens=(1024,))
    speed = bench(on_torch(folder), options)
    assert speed.variants[0].points[0].padding == 0
    with pytest.raises(WeightsError, match="at most 96 tokens, not 97"):
        bench(on_torch(folder), BenchOptions(length=97))


def test_a_shape_is_measured_with_and_without_the_one_step_head(tmp_path: Path) -> None:
    file = tmp_path / "speed.json"
    arguments = ["bench", "--shape", "small", "--backend", "torch", "--device", "cpu"]
    arguments += ["--pairs", "4", "--length", "32", "--seconds", "0", "--batch-tokens", "128"]
    result = CliRunner().invoke(cli.app, [*arguments, "--json", str(file)])
    assert result.exit_code == 0, result.output
    stored, one_step = json.loads(file.read_text(encoding="utf-8"))["variants"]
    assert (stored["name"], one_step["name"]) == ("as stored", "one step")
    assert one_step["flops_per_pair"] < 0.7 * stored["flops_per_pair"]
    assert stored["points"][0]["padding"] == 0


def test_the_authors_checkpoint_is_measured(tmp_path: Path) -> None:
    speed = bench(on_torch(authors_folder(tmp_path)), QUICK)
    assert len(speed.variants[0].points) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shape", "huge", "--backend", "torch"], "small, t5-small, t5-base, t5-large"),
        (["--shape", "small"], "--backend torch"),
        (["--precision", "fp16"], "fp16 is refused"),
    ],
)
def test_what_cannot_be_measured_is_one_line(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(cli.app, ["bench", *arguments])
    assert isinstance(result.exception, cli.EvaluatorError)
    assert words in str(result.exception)
