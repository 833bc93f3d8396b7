"""Training on a few made-up records: it learns, and a killed run goes on as if never killed."""

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from evaluator.data.records import JudgementRow, by_passage, division, read_folder, split
from evaluator.data.synthetic.build import CONSTRUCTED
from evaluator.errors import DataError
from evaluator.inference.fusion import FusionWeights
from evaluator.inference.scorer import best_span
from evaluator.model.tokenization import REFLECTION_TOKENS, SEPARATOR, PairTokenizer
from evaluator.schema import ANSWER_MARK, LABELS, TASKS, Row
from evaluator.training.relevance_pairs import Pair
from evaluator.training.train import (
    UNKNOWN_PLACE,
    Evaluating,
    Example,
    Fusion,
    Group,
    TrainOptions,
    evened,
    fit,
    mixed,
    of_judgements,
    of_pairs,
    part_of,
    placed,
    summary,
    taught_tasks,
    train,
    validation,
    write_state,
)
from evaluator.training.train import judgements as prepared
from tests.evaluator.tiny import tiny_network, tiny_tokenizer

OPTIONS = TrainOptions(
    minutes=1000, rows=160, batch_tokens=256, train_length=48, judgements=60, check_every=50,
    learning_rate=3e-3, new_rate=3e-3, init="none", layers=1,
)  # fmt: skip


def pairs(count: int = 60, source: str = "made") -> list[Pair]:
    return [
        Pair(f"ab{n}?", told, relevant, "en", source, kind, n, "c" if relevant else "")
        for n in range(count)
        for told, relevant, kind in (
            (f"xy{n + 31} is d", False, "words"), (f"ab{n} is c", True, "positive"),
        )
    ]  # fmt: skip


def judgements(count: int = 40) -> list[JudgementRow]:
    labels = ("[Retrieval]", "[No Retrieval]")
    return [
        JudgementRow("retrieval", f"{'who' if n % 2 == 0 else 'sum'} {n}", "", labels[n % 2],
                  "en", "own", "made", str(n))
        for n in range(count)
    ]  # fmt: skip


def groups(count: int = 60, source: str = "made") -> list[Group]:
    return of_pairs(pairs(count, source), PairTokenizer(tiny_tokenizer(), 48))


def of_groups(found: list[Group]) -> list[Example]:
    return [row for group in found for row in group]


def test_the_answering_row_comes_first_and_knows_where_its_answer_stands() -> None:
    (right, wrong), *_ = groups()
    assert (right.label, wrong.label) == (0, 1)
    spelt = [tiny_tokenizer().id_to_token(right.ids[i]) for i in range(right.start, right.end + 1)]
    assert spelt == ["▁c"]
    assert right.start > right.ids.index(SEPARATOR)
    assert (wrong.start, wrong.end) == (0, 0)
    (row,) = PairTokenizer(tiny_tokenizer(), 40).encode("answer", [("a b?", "a // b a c")])
    assert isinstance(row, Row)
    assert [tiny_tokenizer().id_to_token(row.ids[i]) for i in placed(row, "a // b a c", "a")] == [
        "▁a",
        "▁a",
    ]
    assert placed(row, "a // b a c", "a")[0] == len(row.ids) - 3  # not in the title
    assert placed(row, "a // b a c", "not there") == (UNKNOWN_PLACE, UNKNOWN_PLACE)
    assert placed(row, "a // b a c", None) == (UNKNOWN_PLACE, UNKNOWN_PLACE)


def test_the_likeliest_span_ends_after_it_begins() -> None:
    spans = np.zeros((5, 2))
    spans[3, 0] = spans[4, 1] = 2.0
    assert best_span(spans) == (3, 4)
    spans[1, 1] = 9.0  # an end before the best start
    assert best_span(spans) == (1, 1)
    spans[0] = 6.0
    assert best_span(spans) == (0, 0)


@pytest.mark.slow
def test_relevance_spans_and_another_task_are_learnt_at_once(tmp_path: Path) -> None:
    torch.manual_seed(0)
    both = [*groups(), *needs()]
    network = tiny_network()
    options = replace(OPTIONS, rows=6000, check_every=1000)
    learner = Evaluating(network, of_groups(both), options)
    fit(learner, both, options, tmp_path / "run.ckpt", {}, lambda _: None)
    means = summary(validation(network, of_groups(both)))
    assert means["relevance"] > 0.9
    assert means["retrieval"] > 0.9
    assert means["span"] > 0.9
    figure, words = learner.validation()
    assert figure == pytest.approx(sum(means.values()) / 3)
    assert f"retrieval own {means['retrieval']:.3f}" in words


def needs() -> list[Group]:
    return of_judgements(judgements(), PairTokenizer(tiny_tokenizer(), 48))


def test_frozen_layers_and_embeddings_are_not_learnt() -> None:
    network = tiny_network()
    learner = Evaluating(network, [], replace(OPTIONS, frozen_layers=1))
    learnt = {id(one) for part in learner.groups() for one in part["params"]}
    encoder = network.t5.encoder
    frozen = [*encoder.embeddings.parameters(), *encoder.encoder.layer[0].parameters()]
    assert learnt.isdisjoint(map(id, frozen))
    assert learnt >= {id(one) for one in encoder.encoder.layer[1:].parameters()}
    assert id(network.head.weight) in learnt


class Near:
    """Cosines by the length of the passage."""

    def of(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, float]]:
        return [(len(passage) / 50, 0.1 + len(passage) / 40) for _, passage in pairs]

    def needs(self, questions: Sequence[str]) -> Sequence[float | None]:
        return [None] * len(questions)


def test_users_questions_are_learnt_as_fusion_serves_them() -> None:
    weights = FusionWeights(similarity=20, repetition=0.5, doubt=8, scale=0.4, shift=-2)
    tokenizer = PairTokenizer(tiny_tokenizer(), 48)
    both = [*pairs(8, "made, users"), *pairs(8)]
    rows = of_groups(of_pairs(both, tokenizer, Fusion(weights, Near())))
    assert [row.cosines is None for row in rows] == 16 * [False] + 16 * [True]
    learner = Evaluating(tiny_network(), [], OPTIONS, weights)
    read = torch.randn(len(rows), len(REFLECTION_TOKENS), generator=torch.Generator())
    fused = learner._fused(rows, read)
    first, second = map(REFLECTION_TOKENS.index, LABELS["relevance"])
    own, served = (torch.sigmoid(one[:, first] - one[:, second]) for one in (read, fused))
    for row, alone, chance in zip(rows, own.tolist(), served.tolist(), strict=True):
        expected = weights.chance(alone, *row.cosines) if row.cosines else alone
        assert chance == pytest.approx(expected, abs=1e-5)
    assert Fusion.beside("e5") is None


def test_sources_left_out_choose_the_checkpoint() -> None:
    known, out = of_groups(groups(40)), of_groups(groups(40, "other"))
    network = tiny_network()
    figure, _ = Evaluating(network, known + out, replace(OPTIONS, left_out=("other",))).validation()
    figures = validation(network, known + out)
    assert figures["relevance made"] != figures["relevance other"] or figure > 0
    spans = (figures["span made"]["figure"] + figures["span other"]["figure"]) / 2
    assert figure == pytest.approx((figures["relevance other"]["figure"] + spans) / 2, abs=1e-3)


def test_the_mix_keeps_the_shares() -> None:
    rows = PairTokenizer(tiny_tokenizer(), 48)
    evidence = [replace(row, second="it is so") for row in judgements(400)]
    judged = of_judgements([*judgements(400), *evidence], rows)
    assert Counter(map(part_of, of_groups(judged))) == {"need": 400, "evidence": 400}
    shares = {**OPTIONS.shares, "relevance": 0.5, "need": 0.25, "evidence": 0.25}
    drawn = mixed(groups(100), judged, replace(OPTIONS, shares=shares))
    assert Counter(map(part_of, of_groups(drawn))) == {
        "relevance": 200, "need": 100, "evidence": 100,
    }  # fmt: skip


def test_made_answers_of_one_question_are_learnt_beside_each_other_the_best_first() -> None:
    made = [
        JudgementRow("support", f"how long{ANSWER_MARK}{answer}", "it is so", label, "en", "own",
                     f"{CONSTRUCTED}statement", "how long")
        for answer, label in (("it", LABELS["support"][2]), ("so", LABELS["support"][0]))
    ]  # fmt: skip
    natural = [replace(row, kind="natural") for row in made]
    judged = of_judgements([*made, *natural], PairTokenizer(tiny_tokenizer(), 48))
    assert [[row.label for row in group] for group in judged] == [[0, 2], [2], [0]]


def test_sources_are_evened_out_and_a_rare_one_repeated_six_times_at_most() -> None:
    drawn = evened([*groups(900, "large"), *groups(100)], 300, random.Random(1))
    assert Counter(group[0].source for group in drawn) == {"large": 225, "made": 75}
    drawn = evened(groups(10), 400, random.Random(1))
    assert set(Counter(group[0].ids for group in drawn).values()) == {6}


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
    write_state(work / "run.ckpt", {"identity": json.loads(json.dumps(theirs))})
    with pytest.raises(DataError, match=r"left [^ ]*run\.ckpt: .*old\.jsonl is 1 there"):
        train(data, tmp_path / "out", work, OPTIONS, said.append)
    assert said == []


@pytest.mark.slow
def test_a_folder_becomes_weights_and_another_run_is_refused(tmp_path: Path) -> None:
    data = folder_of(tmp_path / "data")
    options = replace(OPTIONS, rows=64)
    train(data, tmp_path / "out", tmp_path / "work", options, lambda _: None)
    config = json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))
    assert config["made_by"]["data"].keys() == {"rivers.jsonl"}
    assert config["made_by"]["validation"]["relevance rivers"]["rows"] > 0
    assert config["tasks"] == ["relevance", "support", "utility", "retrieval"]
    further = replace(options, init=str(tmp_path / "out"), rows=16)
    train(data, tmp_path / "more", tmp_path / "again", further, lambda _: None)
    assert (tmp_path / "more" / "model.safetensors").stat().st_size > 1000
    with pytest.raises(DataError, match="seed is 1 there and 2 here"):
        train(data, tmp_path / "out", tmp_path / "work", replace(options, seed=2), lambda _: None)


def test_a_source_to_leave_out_has_to_be_there(tmp_path: Path) -> None:
    options = replace(OPTIONS, left_out=("roads",))
    with pytest.raises(DataError, match="no records of roads"):
        train(folder_of(tmp_path / "data"), tmp_path / "out", tmp_path, options, lambda _: None)
