"""Training on a few made-up records: it learns, and a killed run goes on as if never killed."""

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from evaluator.data.records import JudgementRow, by_passage, division, read_folder, split
from evaluator.data.relevance_pairs import Pair
from evaluator.errors import DataError
from evaluator.model.tokenization import PairTokenizer
from evaluator.schema import TASKS
from evaluator.training.examples import (
    Example,
    Part,
    TrainOptions,
    evened,
    mixed,
    of_judgements,
    of_pairs,
    summary,
    validation,
)
from evaluator.training.initialization import fit_coverage
from evaluator.training.loop import fit, write_state
from evaluator.training.train import JudgementLearner, _schedule, taught_tasks, train
from evaluator.training.train import judgements as prepared
from tests.evaluator.tiny import tiny_network, tiny_tokenizer

OPTIONS = TrainOptions(
    minutes=1000, rows=160, batch_tokens=256, train_length=48, coverage_steps=60, judgements=60,
    check_every=5, learning_rate=3e-3, init="none",
)  # fmt: skip


def pairs(count: int = 60) -> list[Pair]:
    made = []
    for number in range(count):
        relevant = number % 2 == 0
        question, told = f"ab{number}?", f"ab{number} is c" if relevant else f"xy{number + 31} is d"
        kind = "positive" if relevant else "words"
        made.append(Pair(question, told, relevant, "en", "made", kind))
    return made


def judgements(count: int = 40) -> list[JudgementRow]:
    labels = ("[Retrieval]", "[No Retrieval]")
    return [
        JudgementRow("retrieval", f"{'who' if n % 2 == 0 else 'sum'} {n}", "", labels[n % 2],
                  "en", "own", "made", str(n))
        for n in range(count)
    ]  # fmt: skip


def examples() -> list[Example]:
    return of_pairs(pairs(), PairTokenizer(tiny_tokenizer(), 48))


def test_coverage_learns_to_tell_matches_apart() -> None:
    network = tiny_network()
    torch.nn.init.zeros_(network.head.weight)
    fit_coverage(network, examples(), OPTIONS, lambda _: None)
    assert validation(network, examples())["relevance made"]["figure"] > 0.95


@pytest.mark.slow
def test_one_decoder_step_learns_two_tasks_at_once(tmp_path: Path) -> None:
    rows = PairTokenizer(tiny_tokenizer(), 48)
    grades = [
        JudgementRow("utility", f"what is ab{n}?", f"ab{n} is c" if n % 2 else "no", label, "en",
                     "own", "made", str(n))
        for n in range(40)
        for label in ("[Utility:5]" if n % 2 else "[Utility:1]",)
    ]  # fmt: skip
    both = of_judgements([*judgements(), *grades], rows)
    network = tiny_network()
    options = replace(OPTIONS, rows=1100, check_every=1000)
    learner = JudgementLearner(network, both, options)
    fit(learner, both, _schedule(options), tmp_path / "run.ckpt", {}, lambda _: None)
    means = summary(validation(network, both))
    assert means["utility"] > 0.9
    assert means["retrieval"] > 0.9
    figure, words = learner.validation()
    assert figure == pytest.approx((means["utility"] + means["retrieval"]) / 2)
    assert words == f"retrieval {means['retrieval']:.3f}, utility {means['utility']:.3f}"


def test_settled_parts_stay_as_they_are(tmp_path: Path) -> None:
    network = tiny_network()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    rows = of_judgements(judgements(), PairTokenizer(tiny_tokenizer(), 48))
    learner = JudgementLearner(network, rows, OPTIONS)
    fit(learner, rows, _schedule(OPTIONS), tmp_path / "run.ckpt", {}, lambda _: None)
    after = network.state_dict()
    same = {name.split(".")[0] for name in before if torch.equal(before[name], after[name])}
    assert {"words", "interaction", "coverage"} <= same
    assert not torch.equal(before["head.weight"], after["head.weight"])


def test_the_mix_keeps_the_shares() -> None:
    evidence = [replace(row, second="it is so") for row in judgements(100)]
    shares: dict[Part, float] = {"evidence": 0.75, "need": 0.25, "utility": 1.0}
    drawn = mixed([*judgements(100), *evidence], shares, 400, seed=1)
    assert Counter(bool(row.second) for row in drawn) == {True: 300, False: 100}


def test_sources_are_evened_out_and_a_rare_one_repeated_six_times_at_most() -> None:
    many = [replace(pair, source="large") for pair in pairs(900)] + pairs(100)
    drawn = evened(many, 300, random.Random(1))
    assert Counter(pair.source for pair in drawn) == {"large": 225, "made": 75}
    drawn = evened(pairs(10), 400, random.Random(1))
    assert set(Counter(pair.question for pair in drawn).values()) == {6}


def folder_of(data: Path) -> Path:
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
    return data


def feedback(data: Path) -> Path:
    """Pairs whose label says whether the passage answers, and nothing of an answer's support."""
    data.mkdir()
    asked = [("How long is river {}?", "River {} is 9 km long."), ("{}河多长？", "{}河长九公里。")]
    rows = [
        {"question": question.format(n), "passage": passage.format(n + n % 2), "label": 1 - n % 2}
        for n in range(40)
        for question, passage in asked
    ]
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (data / "feedback.jsonl").write_text(lines, encoding="utf-8")
    return data


def test_only_what_has_rows_of_two_labels_is_taught(tmp_path: Path) -> None:
    pairs, records = feedback(tmp_path / "pairs"), folder_of(tmp_path / "records")
    assert taught_tasks(prepared(pairs, OPTIONS)[0]) == ["relevance", "retrieval"]
    assert taught_tasks(prepared(records, OPTIONS)[0]) == list(TASKS)
    assert taught_tasks([row for row in judgements() if row.label == "[Retrieval]"]) == [
        "relevance"
    ]


def test_few_titles_in_two_languages_leave_no_side_without_rows(tmp_path: Path) -> None:
    asked = [
        ("Handbook", "How long is river {}?", "{} km", "River {0} is {0} km long. It is cold."),
        ("手册", "{}河多长？", "{}公里", "{0}河长{0}公里。河水很冷，岸边是山。"),
    ]
    rows = [
        {"question": question.format(n), "answers": [answer.format(n)], "answerable": True,
         "title": title, "passage": passage.format(n)}
        for n in range(100, 220)
        for title, question, answer, passage in asked
    ]  # fmt: skip
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (tmp_path / "handbooks.jsonl").write_text(lines, encoding="utf-8")
    records = read_folder(tmp_path)
    assert division(records, OPTIONS.held_back_percent) is by_passage
    known, held = split(records, OPTIONS.held_back_percent)
    assert {record.language for record in known} == {record.language for record in held}
    judged = prepared(tmp_path, OPTIONS, by_passage)
    for side, made in zip((known, held), judged, strict=True):
        groups = {row.group for row in made if row.source == "handbooks"}
        assert groups
        assert groups <= {record.passage for record in side}


@pytest.mark.parametrize("made", [folder_of, feedback])  # English; Chinese too
def test_all_that_another_run_has_left_is_named_before_the_work(
    made: Callable[[Path], Path], tmp_path: Path
) -> None:
    data, work, said = made(tmp_path / "data"), tmp_path / "work", list[str]()
    theirs = {"options": asdict(OPTIONS), "data": {"old.jsonl": "1"}}
    (work / "beginning").mkdir(parents=True)
    (work / "beginning" / "identity.json").write_text(json.dumps(theirs), encoding="utf-8")
    state = {"identity": {**json.loads(json.dumps(theirs)), "schedule": {}, "rows": 3}}
    write_state(work / "run.ckpt", state)
    with pytest.raises(DataError, match=r"beginning and .*run\.ckpt: .*old\.jsonl is 1 there"):
        train(data, tmp_path / "out", work, OPTIONS, said.append)
    (work / "beginning" / "identity.json").unlink()
    with pytest.raises(DataError, match=r"left [^ ]*run\.ckpt: .*old\.jsonl is 1 there"):
        train(data, tmp_path / "out", work, OPTIONS, said.append)
    assert said == []


@pytest.mark.slow
def test_a_folder_becomes_weights_and_another_run_is_refused(tmp_path: Path) -> None:
    data = folder_of(tmp_path / "data")
    options = replace(OPTIONS, rows=64, coverage_steps=10, distil_steps=10)
    train(data, tmp_path / "out", tmp_path / "work", options, lambda _: None)
    config = json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))
    assert config["made_by"]["data"].keys() == {"rivers.jsonl"}
    assert config["made_by"]["validation"]["relevance rivers"]["rows"] > 0
    assert config["tasks"] == ["relevance", "support", "utility", "retrieval"]
    with pytest.raises(DataError, match="seed is 1 there and 2 here"):
        train(data, tmp_path / "out", tmp_path / "work", replace(options, seed=2), lambda _: None)
