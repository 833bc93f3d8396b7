"""Where training begins: vocabulary, embeddings, coverage measures, a transplanted encoder."""

import json
import math
import random
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import nn

from evaluator.data.hard_negatives import Meaning
from evaluator.data.relevance_pairs import Pair
from evaluator.data.relevance_records import Record
from evaluator.errors import DataError
from evaluator.model.regression import fit_nearness
from evaluator.model.t5 import EvaluatorModel, ModelConfig, tensors
from evaluator.model.tokenization import PairTokenizer
from evaluator.training import checkpoints
from evaluator.training.distillation import distil
from evaluator.training.examples import Example, mixed, of_pairs, padded
from evaluator.training.loop import Say, batches
from evaluator.training.minilm_transplant import transplant
from evaluator.training.options import TrainOptions
from evaluator.training.vocabulary import build_tokenizer, embeddings, idf

_FITTED_ON = 240  # rows for the transplant: some 40,000 tokens
_IDENTITY = "identity.json"
_MOST_PASSES = 100  # of the coverage measures over the rows


def beginning(
    records: Sequence[Record],
    pairs: Sequence[Pair],
    meaning: Meaning | None,
    folder: Path,
    identity: dict[str, Any],
    options: TrainOptions,
    say: Say,
) -> tuple[EvaluatorModel, Tokenizer]:
    """The network before the T5 is taught, kept in `folder` and read from there a second time.

    The folder holds no beginning of another run (`refuse_another_run`). DataError when MiniLM's
    layers are wanted, but no record is relevant to fit them on.
    """
    if (folder / _IDENTITY).exists():
        return kept(folder)
    if options.init == "minilm" and not fitted_on(records):
        raise DataError("Training has no relevant passage to fit MiniLM's layers on.")
    network, tokenizer = _fresh(records, options)
    steps = {"zh": options.distil_steps // 3, "en": options.distil_steps}
    distil(network, tokenizer, records, meaning, steps, options.seed, say)
    rows = PairTokenizer(tokenizer, options.train_length)
    fit_coverage(network, of_pairs(pairs, rows), options, say)
    if options.init == "minilm":
        _transplanted(network, tokenizer, records, rows, say)
        sample, _ = mixed(pairs, [], {"relevance": 1.0}, options.nearness_rows, options.seed)
        fit_nearness(network, of_pairs(sample, rows), say)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = json.dumps(asdict(network.config))
    (folder / "config.json").write_text(config, encoding="utf-8")
    save_file(tensors(network), folder / "model.safetensors")
    (folder / _IDENTITY).write_text(json.dumps(identity), encoding="utf-8")  # now it is whole
    return network, tokenizer


def refuse_another_run(begun: Path, checkpoint: Path, identity: dict[str, Any]) -> None:
    """DataError, naming all that a run of another `identity` has left, before the work begins."""
    ours, theirs = json.loads(json.dumps(identity)), dict[Path, Any]()
    if (begun / _IDENTITY).exists():
        theirs[begun] = json.loads((begun / _IDENTITY).read_text(encoding="utf-8"))
    if checkpoint.exists():
        found = checkpoints.read(checkpoint)["identity"]  # the loop adds its own to it
        theirs[checkpoint] = {name: found[name] for name in found.keys() & ours}
    others = [path for path, made_of in theirs.items() if made_of != ours]
    if others:
        checkpoints.refuse_another(others, theirs[others[0]], ours)


def kept(folder: Path) -> tuple[EvaluatorModel, Tokenizer]:
    """Network and tokenizer of a beginning that an earlier call has left."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    network = EvaluatorModel(ModelConfig(**config))
    network.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    return network, Tokenizer.from_file(str(folder / "tokenizer.json"))


def _fresh(records: Sequence[Record], options: TrainOptions) -> tuple[EvaluatorModel, Tokenizer]:
    texts = sorted({record.passage for record in records})
    tokenizer, cjk_start = build_tokenizer(texts, options.least_count)
    network = EvaluatorModel(
        ModelConfig(
            tokenizer.get_vocab_size(), cjk_start, own_layers=options.own_layers,
            joint_layers=options.joint_layers,
        )
    )  # fmt: skip
    table = embeddings(tokenizer, cjk_start, texts, network.config.d_words)
    with torch.no_grad():
        network.words.weight.copy_(torch.from_numpy(table))
        network.interaction.token_weight.copy_(torch.from_numpy(idf(tokenizer, texts)))
    return network, tokenizer


def fit_coverage(
    network: EvaluatorModel, examples: Sequence[Example], options: TrainOptions, say: Say
) -> None:
    """Fit token weights and coverage measures alone, so that the T5 starts from a good score."""
    matching = network.interaction
    first = matching.token_weight.detach().clone()
    kinds = [*matching.asks.parameters(), *matching.offers.parameters(), matching.ask_weight]
    optimizer = torch.optim.AdamW(
        [
            {"params": [matching.token_weight], "lr": 1e-2},
            {"params": [matching.turn], "lr": 1e-3},
            {"params": kinds, "lr": 5e-3},
            {"params": list(network.coverage.parameters()), "lr": 5e-3},
        ],
        weight_decay=0.0,
    )
    rates = [group["lr"] for group in optimizer.param_groups]
    network.words.requires_grad_(False)  # settled before, and cheap if left so
    source, running = batches(examples, options.coverage_tokens, options.seed), 0.0
    steps = _coverage_steps(examples, options)
    for step in range(steps):
        batch = next(source)
        ids, _ = padded([example.ids for example in batch])
        target = torch.tensor([example.target[0] for example in batch])
        loss = nn.functional.binary_cross_entropy_with_logits(network.coverage_only(ids), target)
        drift = (matching.token_weight - first).square().mean()
        optimizer.zero_grad()
        # Rare tokens keep the weight their rarity gave them.
        (loss + 0.3 * drift).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * (1 - step / steps)
        running = 0.97 * running + 0.03 * loss.item() if step else loss.item()
        if step % 250 == 249:
            say(f"coverage step {step + 1}: loss {running:.4f}")


def _coverage_steps(examples: Sequence[Example], options: TrainOptions) -> int:
    """Few records are seen _MOST_PASSES times, many as often as the options' steps allow."""
    tokens = sum(len(example.ids) for example in examples)
    a_pass = math.ceil(tokens / options.coverage_tokens)
    return min(options.coverage_steps, _MOST_PASSES * a_pass)


def fitted_on(records: Sequence[Record]) -> list[Record]:
    """The rows the transplant is fitted on: English, as MiniLM is, or others where none is."""
    relevant = [record for record in records if record.question and record.relevant]
    asked = [record for record in relevant if record.language == "en"] or relevant
    return random.Random(0).sample(asked, min(_FITTED_ON, len(asked)))


def _transplanted(
    network: EvaluatorModel,
    tokenizer: Tokenizer,
    records: Sequence[Record],
    rows: PairTokenizer,
    say: Say,
) -> None:
    encoded = rows.encode("relevance", [(r.question, r.passage) for r in fitted_on(records)])
    ids, mask = padded([row.ids for row in encoded if not isinstance(row, str)])
    missed = ", ".join(f"{share:.3f}" for share in transplant(network, tokenizer, ids, mask))
    say(f"transplanted; of the teacher's variance, half-layer by half-layer, missed: {missed}")
