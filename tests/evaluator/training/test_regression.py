"""Regressions on what the network makes of a pair: the last step, and the relevance weighing."""

from dataclasses import replace

import torch

from evaluator.data.records import JudgementRow
from evaluator.model.features import BEST_KINDS
from evaluator.model.tokenization import PairTokenizer
from evaluator.training.examples import (
    Example,
    batch_tensors,
    computed,
    of_judgements,
    of_pairs,
    places,
)
from evaluator.training.initialization import fit_nearness
from evaluator.training.train import fit_heads
from tests.evaluator.tiny import tiny_network, tiny_tokenizer
from tests.evaluator.training.test_train import pairs

SAID = {"[Retrieval]": "who is {}?", "[No Retrieval]": "hello {}, thanks"}
UTILITY = {"[Utility:1]": "no", "[Utility:3]": "maybe {}", "[Utility:5]": "{} is a river"}


def examples() -> list[Example]:
    rows = PairTokenizer(tiny_tokenizer(), 48)
    names = [f"{a}{b}" for a in "abcdef" for b in "klmnop"]
    made = [
        JudgementRow("retrieval", text.format(name), "", label, "en", "own", "made", name)
        for name in names
        for label, text in SAID.items()
    ]
    made += [
        JudgementRow(
            "utility", f"what is {name}?", text.format(name), label, "en", "own", "made", ""
        )
        for name in names
        for label, text in UTILITY.items()
    ]
    return of_judgements(made, rows)


def test_each_task_is_fitted_and_relevance_left_alone() -> None:
    network, said, rows = tiny_network(), list[str](), examples()
    ids, mask = batch_tensors(rows)
    with torch.no_grad():
        before = network(ids, mask)
    fit_heads(network, rows, rows, 1, said.append)
    with torch.no_grad():
        after = network(ids, mask)
    assert torch.equal(before[:, places("relevance")], after[:, places("relevance")])
    assert torch.equal(before[:, places("support")], after[:, places("support")])
    for task in ("retrieval", "utility"):
        mine = [number for number, row in enumerate(rows) if row.task == task]
        labels = torch.tensor([rows[number].label for number in mine])
        likeliest = after[mine][:, places(task)].argmax(1)
        assert (likeliest == labels).float().mean() > 0.9
    assert torch.isfinite(network.wide.weight.half()).all()  # as it is stored
    assert [line.split(":")[0] for line in said] == [
        "last step of utility fitted on 108 rows",
        "last step of retrieval fitted on 72 rows",
    ]


def test_a_step_that_is_no_better_is_not_kept() -> None:
    network, rows = tiny_network(), examples()
    fit_heads(network, rows, rows, 1, lambda _: None)
    before = network.head.weight.detach().clone()
    wrong = [replace(row, label=4 - row.label) for row in rows if row.task == "utility"]
    fit_heads(network, wrong, [row for row in rows if row.task == "utility"], 1, lambda _: None)
    assert torch.equal(before, network.head.weight)


def test_one_label_alone_teaches_nothing() -> None:
    network = tiny_network()
    before = network.head.weight.detach().clone()
    only = [row for row in examples() if row.task == "utility" and row.label == 0]
    fit_heads(network, only, only, 1, lambda _: None)
    assert torch.equal(before, network.head.weight)


def pair_examples() -> list[Example]:
    return of_pairs(pairs(), PairTokenizer(tiny_tokenizer(), 48))


def test_weighed_measures_tell_matches_apart() -> None:
    network, said = tiny_network(), list[str]()
    fit_nearness(network, pair_examples(), said.append)
    measures = torch.from_numpy(computed(pair_examples(), network.measures)).float()
    margins = network.margin(measures)[:, 0]
    right = torch.tensor([example.label == 0 for example in pair_examples()])
    assert margins[right].min() > margins[~right].max()
    assert said == ["measures weighed on 60 English pairs"]


def test_the_kind_of_the_best_word_is_not_weighed() -> None:
    network = tiny_network()
    torch.nn.init.ones_(network.nearness.weight)
    fit_nearness(network, pair_examples(), lambda _: None)
    weights = network.nearness.weight[0]
    assert weights[list(BEST_KINDS)].count_nonzero() == 0
    assert weights.count_nonzero() > 0


def test_a_chinese_question_is_left_to_its_coverage() -> None:
    network = tiny_network()
    fit_nearness(network, pair_examples(), lambda _: None)
    rows = PairTokenizer(tiny_tokenizer(), 48)
    (row,) = rows.encode("relevance", [("河流很长", "河流很长 abc")])
    assert not isinstance(row, str)
    ids = torch.tensor([row.ids])
    measures = network.measures(ids, torch.ones_like(ids))
    assert torch.allclose(network.margin(measures), network.coverage_only(ids)[:, None], atol=1e-5)


def test_one_class_alone_weighs_nothing() -> None:
    network, said = tiny_network(), list[str]()
    fit_nearness(network, [e for e in pair_examples() if e.label == 0], said.append)
    assert not said
