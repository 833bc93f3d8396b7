import torch

from evaluator.data.relevance_records import Record
from evaluator.training.distillation import distil
from tests.evaluator.tiny import tiny_network, tiny_tokenizer


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
