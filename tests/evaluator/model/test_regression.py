"""The weighing of measures: learnt in English, blind in Chinese, told apart by the text."""

import torch

from evaluator.model.matching import BEST_KINDS
from evaluator.model.regression import fit_nearness
from evaluator.model.tokenization import PairTokenizer
from evaluator.training.examples import Example, computed, of_pairs
from tests.evaluator.tiny import tiny_network, tiny_tokenizer
from tests.evaluator.training.test_train import pairs


def examples() -> list[Example]:
    return of_pairs(pairs(), PairTokenizer(tiny_tokenizer(), 48))


def test_weighed_measures_tell_matches_apart() -> None:
    network, said = tiny_network(), list[str]()
    fit_nearness(network, examples(), said.append)
    measures = torch.from_numpy(computed(examples(), network.measures)).float()
    margins = network.margin(measures)[:, 0]
    right = torch.tensor([example.label == 0 for example in examples()])
    assert margins[right].min() > margins[~right].max()
    assert said == ["measures weighed on 60 English pairs"]


def test_the_kind_of_the_best_word_is_not_weighed() -> None:
    network = tiny_network()
    torch.nn.init.ones_(network.nearness.weight)
    fit_nearness(network, examples(), lambda _: None)
    weights = network.nearness.weight[0]
    assert weights[list(BEST_KINDS)].count_nonzero() == 0
    assert weights.count_nonzero() > 0


def test_a_chinese_question_is_left_to_its_coverage() -> None:
    network = tiny_network()
    fit_nearness(network, examples(), lambda _: None)
    rows = PairTokenizer(tiny_tokenizer(), 48)
    (row,) = rows.encode("relevance", [("河流很长", "河流很长 abc")])
    assert not isinstance(row, str)
    ids = torch.tensor([row.ids])
    measures = network.measures(ids, torch.ones_like(ids))
    assert torch.allclose(network.margin(measures), network.coverage_only(ids)[:, None], atol=1e-5)


def test_one_class_alone_teaches_nothing() -> None:
    network, said = tiny_network(), list[str]()
    fit_nearness(network, [e for e in examples() if e.label == 0], said.append)
    assert not said
