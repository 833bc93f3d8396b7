"""LoRA tuning: what the loss counts, a run that was killed, and the folder that servers load."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from evaluator.errors import DataError, WeightsError
from evaluator.tuning.encoding import MASKED, TuningTokenizer
from evaluator.tuning.lora import ADAPTER_FOLDER, TuneOptions, load_generator, tune
from evaluator.tuning.rows import TuningExample, TuningPassage, TuningRow, write_rows
from evaluator.tuning.self_rag import TOKENS
from evaluator.tuning.written import figures, token_f1, write
from tests.evaluator.tuning.tiny_generators import tiny_llama, tiny_t5, word_llama

REFLECTED = (
    "[Retrieval]<paragraph>Tower\n87 m</paragraph>[Relevant]It is high.[Fully supported]"
    "[Retrieval]<paragraph>\nBread</paragraph>[Irrelevant]It stands.[Utility:5]"
)
OPTIONS = TuneOptions(
    epochs=3, learning_rate=1e-2, rank=4, batch_tokens=600, held_back_percent=30, warmup_steps=2,
    check_every=3, measured_rows=4, dropout=0.2,
)  # fmt: skip


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama(tmp_path_factory.mktemp("llama"))


def rows_file(path: Path, *, reflected: bool = False, count: int = 24) -> Path:
    write_rows(
        path,
        [
            {"instruction": f"Tower {n}?", "output": REFLECTED, "group": str(n)}
            if reflected
            else TuningRow(f"Is {n} high?", (TuningPassage("", f"{n}."),), "yes", group=str(n))
            for n in range(count)
        ],
    )
    return path


def quiet(text: str) -> None:
    del text


def test_the_loss_counts_what_the_generator_writes_alone(llama: Path, tmp_path: Path) -> None:
    _, tokenizer = load_generator(llama)
    tokenizer.add_reflection_tokens()
    row = tokenizer.encode(TuningExample("### Instruction:\nHow?\n\n", REFLECTED, (), ""))
    counted = tokenizer.tokenizer.decode([token for token in row.targets if token != MASKED])
    chat = ({"role": "user", "content": "How high?"},)
    talked = tokenizer.encode(TuningExample(chat, "87 m", (), ""))

    assert counted == (
        "[Retrieval]<paragraph></paragraph>[Relevant]It is high.[Fully supported]"
        "[Retrieval]<paragraph></paragraph>[Irrelevant]It stands.[Utility:5]</s>"
    )
    assert tokenizer.tokenizer.decode(row.ids).endswith(f"{REFLECTED}</s>")
    single = [tokenizer.tokenizer.decode([token]) for token in row.ids if token >= 258]
    assert "".join(single) == re.sub(
        "|".join(["Tower\n87 m", "It is high.", "\nBread", "It stands."]), "", REFLECTED
    )
    begun = len(tokenizer.prompt_ids(chat))
    assert talked.ids[:begun] == tuple(tokenizer.prompt_ids(chat))
    assert set(talked.targets[:begun]) == {MASKED}
    assert tokenizer.tokenizer.decode(talked.targets[begun:]) == "87 m</s>"


@pytest.mark.parametrize(("make", "reflected"), [(tiny_llama, True), (tiny_t5, False)])
def test_the_merged_folder_writes_what_the_adapted_network_wrote(
    make: Callable[[Path], Path], reflected: bool, tmp_path: Path
) -> None:
    model, rows = make(tmp_path / "model"), rows_file(tmp_path / "rows.jsonl", reflected=reflected)
    made = tune([rows], model, tmp_path / "out", tmp_path / "work", OPTIONS, quiet)
    network, tokenizer = load_generator(made.folder)
    base, _ = load_generator(model)
    adapter = load_file(made.folder / ADAPTER_FOLDER / "adapter_model.safetensors")
    card = (made.folder / "README.md").read_text(encoding="utf-8")
    told = json.loads((made.folder / "made_by.json").read_text(encoding="utf-8"))

    assert not [p for p in made.folder.rglob("*") if p.suffix in {".bin", ".pt", ".pkl"}]
    if reflected:
        added = [base.get_input_embeddings().num_embeddings + n for n in range(len(TOKENS))]
        assert tokenizer.tokenizer.convert_tokens_to_ids(list(TOKENS)) == added
        assert network.get_output_embeddings().weight.shape[0] == added[-1] + 1
    assert any("lora_A" in name for name in adapter)
    assert told["rows"].keys() == {"rows.jsonl"}
    assert f"{told['training']['rows']}" in card
    assert "$" not in card
    changed = [
        not torch.equal(parameter, dict(base.named_parameters())[name])
        for name, parameter in network.named_parameters()
        if parameter.shape == dict(base.named_parameters())[name].shape
    ]
    assert any(changed)
    assert not all(changed)
    assert tokenizer.is_seq2seq == (make is tiny_t5)
    assert bool(tokenizer.tokenizer.chat_template) != tokenizer.is_seq2seq


class Killed(Exception): ...


def test_a_killed_run_goes_on_to_the_same_weights(llama: Path, tmp_path: Path) -> None:
    rows = rows_file(tmp_path / "rows.jsonl")
    whole = tune([rows], llama, tmp_path / "whole", tmp_path / "work1", OPTIONS, quiet)

    def kill(text: str) -> None:
        if text.startswith("step 6:") and "a token" in text:
            raise Killed

    with pytest.raises(Killed):
        tune([rows], llama, tmp_path / "out", tmp_path / "work2", OPTIONS, kill)
    told: list[str] = []
    again = tune([rows], llama, tmp_path / "out", tmp_path / "work2", OPTIONS, told.append)

    assert any("going on from step 3" in line for line in told)
    assert again.story["loss"] == whole.story["loss"]
    first, second = (load_file(made.folder / "model.safetensors") for made in (whole, again))
    assert all(torch.equal(first[name], second[name]) for name in first)
    rows_file(rows, count=20)
    with pytest.raises(DataError, match=r"rows\.jsonl"):
        tune([rows], llama, tmp_path / "out", tmp_path / "work2", OPTIONS, quiet)


@pytest.mark.slow
def test_the_loss_falls_and_held_back_answers_get_better(tmp_path: Path) -> None:
    rows = rows_file(tmp_path / "rows.jsonl", count=120)
    model = word_llama(tmp_path / "model", [rows.read_text(encoding="utf-8")])
    options = TuneOptions(
        epochs=12, learning_rate=6e-3, rank=8, batch_tokens=600, held_back_percent=20,
        check_every=50, measured_rows=20, dropout=0.0,
    )  # fmt: skip
    made = tune([rows], model, tmp_path / "out", tmp_path / "work", options, quiet)

    losses = [loss for _, loss in made.story["loss"]]
    assert losses[-1] < 0.6 * losses[0]  # the frozen head of the tiny model bounds it from below
    assert made.before.f1 < 0.1
    assert made.after.f1 > 0.9


def test_what_cannot_be_tuned_is_told(llama: Path, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"config\.json"):
        load_generator(tmp_path)
    rows = rows_file(tmp_path / "rows.jsonl", count=1)
    with pytest.raises(DataError, match="held back"):
        tune([rows], llama, tmp_path / "out", tmp_path / "work", OPTIONS, quiet)


def test_figures_know_both_languages() -> None:
    told = figures(["It is 87 m [1].", "塔高八十米"], [("87 m",), ("八十米", "80米")])
    assert told.coverage == 1.0
    assert token_f1("塔高八十米", "八十米") == pytest.approx(0.75)
    assert token_f1("The bread", "87 m") == 0.0


def test_texts_come_in_the_order_asked(llama: Path) -> None:
    network, tokenizer = load_generator(llama)
    examples: list[Any] = [
        TuningExample(text, "", (), "") for text in ("a longer prompt than the next", "b", "see")
    ]
    together = write(network, tokenizer, examples, 8)
    alone = [write(network, tokenizer, [each], 8)[0] for each in examples]
    assert isinstance(tokenizer, TuningTokenizer)
    assert together == alone
