"""MiniLM's layers in T5's form read a text nearly as MiniLM does."""

import pytest
import torch
import transformers

from evaluator.data.hard_negatives import minilm_folder
from evaluator.model.t5 import EvaluatorModel, ModelConfig, sides_of
from evaluator.model.tokenization import PairTokenizer
from evaluator.training.minilm_transplant import MEAN, build_tokenizer, transplant
from evaluator.training.train import batch_tensors

RIVERS = [
    "The river rises in the northern hills and reaches the sea after three hundred kilometres.",
    "A mayor is chosen every four years by those who have lived in the town for a year.",
    "Bread keeps longer when the dough has rested overnight in a cool place.",
    "The engine was built in two workshops and shown for the first time in spring.",
    "Whoever borrows a book may keep it for a month; nobody pays for the first week after that.",
    "Snow fell early that year, and the pass stayed closed until the end of May.",
]


def rows_of(texts: list[str], tokens: PairTokenizer) -> tuple[torch.Tensor, torch.Tensor]:
    asked = [(f"What is said of {text.split()[1]}?", text) for text in texts]
    found = tokens.encode("relevance", asked)
    return batch_tensors([row for row in found if not isinstance(row, str)])


@pytest.mark.slow
def test_the_first_layer_follows_its_teacher() -> None:
    torch.manual_seed(0)
    chinese = ["河流很长，河流很深。"]
    tokenizer, cjk_start = build_tokenizer(chinese)
    config = ModelConfig(tokenizer.get_vocab_size(), cjk_start, layers=1)
    network = EvaluatorModel(config).eval()
    many = [f"{left} {right}" for left in RIVERS for right in RIVERS[:5]]
    tokens = PairTokenizer(tokenizer, 96)
    missed = transplant(network, tokenizer, chinese, *rows_of(many, tokens))
    assert len(missed) == 2
    assert max(missed) < 0.1

    ids, mask = rows_of([" ".join(RIVERS[2:4])], tokens)
    bert = transformers.AutoModel.from_pretrained(minilm_folder()).eval()
    words = (minilm_folder() / "vocab.txt").read_text(encoding="utf-8").splitlines()
    place = {word: number for number, word in enumerate(words)}
    pieces = [tokenizer.id_to_token(int(i)) for i in ids[0]]
    named = {"[task:relevance]": "[CLS]", "</s>": "[SEP]"}
    theirs = torch.tensor([[place[named.get(piece, piece)] for piece in pieces]])
    with torch.no_grad():
        read = bert(input_ids=theirs, output_hidden_states=True).hidden_states[1]
        norm = bert.encoder.layer[0].output.LayerNorm
        wanted = (read - norm.bias) / norm.weight
        found = network.encoded(ids, sides_of(ids), mask)
        found = found - found.mean(-1, keepdim=True)  # the mean carries biases alone
        alike = torch.nn.functional.cosine_similarity(found, wanted, dim=-1)
    assert MEAN == 1
    assert alike.mean() > 0.9
