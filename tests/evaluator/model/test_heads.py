"""The last linear step: what a regression finds in what the network makes of a pair."""

from dataclasses import replace

import torch

from evaluator.data.judgements import Judgement
from evaluator.model.heads import fit_heads
from evaluator.model.tokenization import PairTokenizer
from evaluator.training.examples import Example, of_judgements, padded, places
from tests.evaluator.tiny import tiny_network, tiny_tokenizer

SAID = {"[Retrieval]": "who is {}?", "[No Retrieval]": "hello {}, thanks"}
UTILITY = {"[Utility:1]": "no", "[Utility:3]": "maybe {}", "[Utility:5]": "{} is a river"}


def examples() -> list[Example]:
    rows = PairTokenizer(tiny_tokenizer(), 48)
    names = [f"{a}{b}" for a in "abcdef" for b in "klmnop"]
    made = [
        Judgement("retrieval", text.format(name), "", label, "en", "own", "made", name)
        for name in names
        for label, text in SAID.items()
    ]
    made += [
        Judgement("utility", f"what is {name}?", text.format(name), label, "en", "own", "made", "")
        for name in names
        for label, text in UTILITY.items()
    ]
    return of_judgements(made, rows)


def test_each_task_is_fitted_and_relevance_left_alone() -> None:
    network, said, rows = tiny_network(), list[str](), examples()
    ids, mask = padded([row.ids for row in rows])
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
    wrong = [
        replace(row, target=tuple(reversed(row.target))) for row in rows if row.task == "utility"
    ]
    fit_heads(network, wrong, [row for row in rows if row.task == "utility"], 1, lambda _: None)
    assert torch.equal(before, network.head.weight)


def test_one_label_alone_teaches_nothing() -> None:
    network = tiny_network()
    before = network.head.weight.detach().clone()
    only = [row for row in examples() if row.task == "utility" and row.label == 0]
    fit_heads(network, only, only, 1, lambda _: None)
    assert torch.equal(before, network.head.weight)
