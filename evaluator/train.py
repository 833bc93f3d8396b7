"""Trains an evaluator from a data folder, as a story from top to bottom.

Read and split the records, mine the pairs, build the vocabulary; fit the coverage measures
(seconds); let the T5 learn what they miss (minutes to hours); write the weights. A run that was
killed goes on from its last checkpoint and ends as it would have without the kill.
"""

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from tokenizers import Tokenizer
from torch import Tensor, nn

from evaluator import model as models
from evaluator.dataset import Pair, pairs_of, split
from evaluator.distil import distil
from evaluator.errors import DataError
from evaluator.examples import Example, batches, encoded, margins_of, padded, validation
from evaluator.model import EvaluatorModel, ModelConfig, relevance_margin
from evaluator.neighbours import Meaning
from evaluator.pairs import PairTokenizer
from evaluator.records import Record, digests, read_folder
from evaluator.vocabulary import build_tokenizer, embeddings, idf

BEGINNING = "coverage"
"""Where in the work folder the network lies before the T5 is taught."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class TrainOptions:
    """What decides a run; stored in the weights' config."""

    seed: int = 1
    minutes: float = 60.0
    pairs: int = 150_000
    batch_tokens: int = 2048
    train_length: int = 224
    learning_rate: float = 1e-3
    distil_steps: int = 600
    coverage_steps: int = 1500
    teacher_share: float = 0.5
    held_back_percent: int = 6
    checkpoint_every: int = 1000
    least_count: int = 2
    use_minilm: bool = True


def train(data: Path, out: Path, work: Path, options: TrainOptions, say: Say) -> None:
    """Train on `data`, write the weights to `out`, keep checkpoints and caches in `work`."""
    torch.manual_seed(options.seed)
    records = read_folder(data)
    known, held_back = split(records, options.held_back_percent)
    say(f"{len(known)} training and {len(held_back)} validation records")

    meaning = Meaning(work) if options.use_minilm else None
    train_pairs = pairs_of(known, options.seed, meaning)
    check_pairs = pairs_of(held_back, options.seed, meaning, hard_only=True)
    say(f"{len(train_pairs)} training and {len(check_pairs)} validation pairs")
    if not train_pairs or not check_pairs:
        raise DataError(f"{data} gives no pairs for training or none for validation.")

    network, tokenizer, is_fitted = _begun(known, work, options)
    if not is_fitted:
        steps = {"zh": options.distil_steps // 3, "en": options.distil_steps}
        distil(network, tokenizer, known, meaning, steps, options.seed, say)
    rows = PairTokenizer(tokenizer, options.train_length)
    examples, check = encoded(train_pairs, rows), encoded(check_pairs, rows)
    if not is_fitted:
        fit_coverage(network, examples, options, say)
        _say_validation(network, check, "coverage alone", say)
        models.save(network, work / BEGINNING)
        tokenizer.save(str(work / BEGINNING / "tokenizer.json"))
    examples = _softened(network, examples, options.teacher_share)

    state = teach(network, examples, check, work / "checkpoint.pt", options, say)

    figures = validation(network, check)
    network.config.made_by = {
        "options": asdict(options),
        "data": digests(data),
        "training": {"records": len(known), "pairs": len(train_pairs), **state},
        "validation": figures,
        "kinds": _kinds(train_pairs),
    }
    models.save(network, out)
    tokenizer.save(str(out / "tokenizer.json"))
    say(f"weights written to {out}")


def _begun(
    records: Sequence[Record], work: Path, options: TrainOptions
) -> tuple[EvaluatorModel, Tokenizer, bool]:
    """Network and tokenizer, and whether an earlier run has fitted its coverage already."""
    folder = work / BEGINNING
    if not (folder / "tokenizer.json").exists():
        return *_fresh(records, options), False
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    network = models.load(folder, config)
    _freeze_coverage(network)
    return network, tokenizer, True


def _freeze_coverage(network: EvaluatorModel) -> None:
    for part in (network.t5.shared, network.interaction, network.coverage):
        part.requires_grad_(False)


def _fresh(records: Sequence[Record], options: TrainOptions) -> tuple[EvaluatorModel, Tokenizer]:
    texts = list({record.passage for record in records})
    texts.sort()
    tokenizer, cjk_start = build_tokenizer(texts, options.least_count)
    config = ModelConfig(vocab_size=tokenizer.get_vocab_size(), cjk_start=cjk_start)
    network = EvaluatorModel(config)
    table = embeddings(tokenizer, cjk_start, texts, config.d_model)
    with torch.no_grad():
        network.t5.shared.weight.copy_(torch.from_numpy(table))
        network.interaction.token_weight.copy_(torch.from_numpy(idf(tokenizer, texts)))
    return network, tokenizer


def fit_coverage(
    network: EvaluatorModel, examples: Sequence[Example], options: TrainOptions, say: Say
) -> None:
    """Fit token weights and coverage measures alone, so that the T5 starts from a good score."""
    network.t5.shared.requires_grad_(False)  # settled before, and cheap if left so
    network.interaction.pool_weight.requires_grad_(False)
    first = network.interaction.token_weight.detach().clone()
    matching = network.interaction
    kinds = [*matching.asks.parameters(), *matching.offers.parameters(), matching.ask_weight]
    groups = [
        {"params": [matching.token_weight], "lr": 1e-2},
        {"params": [matching.turn], "lr": 1e-3},
        {"params": kinds, "lr": 5e-3},
        {"params": list(network.coverage.parameters()), "lr": 5e-3},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.0)
    rates = [group["lr"] for group in optimizer.param_groups]
    source = batches(examples, 4 * options.batch_tokens, options.seed)
    running = 0.0
    for step in range(options.coverage_steps):
        batch = next(source)
        ids, _ = padded([example.ids for example in batch])
        target = torch.tensor([example.target for example in batch])
        loss = nn.functional.binary_cross_entropy_with_logits(network.coverage_only(ids), target)
        drift = (network.interaction.token_weight - first).square().mean()
        optimizer.zero_grad()
        _differentiate(loss + 0.3 * drift)  # rare tokens keep the weight their rarity gave them
        optimizer.step()
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * (1 - step / options.coverage_steps)
        running = 0.97 * running + 0.03 * loss.item() if step else loss.item()
        if step % 250 == 249:
            say(f"coverage step {step + 1}: loss {running:.4f}")
    _freeze_coverage(network)


def _softened(network: EvaluatorModel, examples: list[Example], share: float) -> list[Example]:
    """Targets mixed with a teacher's: MiniLM's cosine and coverage, weighed by regression."""
    taught = [example for example in examples if example.pair.cosine is not None]
    if not taught or len({example.target for example in taught}) < 2:
        return examples
    margins = margins_of(taught, lambda ids, _: network.coverage_only(ids))
    cosines = np.array([example.pair.cosine for example in taught])
    evidence = np.stack([cosines, margins], axis=1)
    teacher = LogisticRegression().fit(evidence, [example.target for example in taught])
    said = iter(teacher.predict_proba(evidence)[:, 1])
    return [
        Example(e.ids, (1 - share) * e.target + share * float(next(said)), e.pair)
        if e.pair.cosine is not None
        else e
        for e in examples
    ]


def teach(
    network: EvaluatorModel,
    examples: Sequence[Example],
    check: Sequence[Example],
    checkpoint: Path,
    options: TrainOptions,
    say: Say,
) -> dict[str, float]:
    """Train the T5 on the pairs until their number or the minutes are used up."""
    learnt = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=options.learning_rate, weight_decay=0.01)
    step, seen, spent_s = _resumed(network, optimizer, checkpoint, options, say)
    source = batches(examples, options.batch_tokens, options.seed)
    for _ in range(step):
        next(source)
    started, running = time.monotonic() - spent_s, 0.0
    progress = 0.0
    while progress < 1.0:
        batch = next(source)
        spent_s = time.monotonic() - started
        progress = max(seen / options.pairs, spent_s / (60 * options.minutes))
        for group in optimizer.param_groups:
            group["lr"] = options.learning_rate * min(1.0, (step + 1) / 200, 1.02 - progress)
        loss = _step(network, optimizer, learnt, batch)
        step, seen = step + 1, seen + len(batch)
        running = 0.98 * running + 0.02 * loss if running else loss
        if step % 100 == 0:
            say(f"step {step}: {seen} pairs, {spent_s / 60:.1f} min, loss {running:.4f}")
        if step % options.checkpoint_every == 0:
            _keep(network, optimizer, checkpoint, options, (step, seen, spent_s))
            _say_validation(network, check, f"step {step}", say)
    return {"steps": step, "pairs_seen": seen, "minutes": round(spent_s / 60, 1)}


def _differentiate(loss: Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


def _step(
    network: EvaluatorModel,
    optimizer: torch.optim.Optimizer,
    learnt: Sequence[Tensor],
    batch: Sequence[Example],
) -> float:
    network.train()
    ids, mask = padded([example.ids for example in batch])
    target = torch.tensor([example.target for example in batch])
    margin = relevance_margin(network(ids, mask))
    loss = nn.functional.binary_cross_entropy_with_logits(margin, target)
    optimizer.zero_grad()
    _differentiate(loss)
    nn.utils.clip_grad_norm_(learnt, 1.0)
    optimizer.step()
    return loss.item()


def _keep(
    network: EvaluatorModel,
    optimizer: torch.optim.Optimizer,
    checkpoint: Path,
    options: TrainOptions,
    progress: tuple[int, int, float],
) -> None:
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    state = {
        "model": network.state_dict(),
        "optimizer": optimizer.state_dict(),
        "progress": progress,
        "dice": torch.get_rng_state(),
        "options": asdict(options),
    }
    half_written = checkpoint.with_suffix(".part")
    torch.save(state, half_written)
    half_written.replace(checkpoint)


def _resumed(
    network: EvaluatorModel,
    optimizer: torch.optim.Optimizer,
    checkpoint: Path,
    options: TrainOptions,
    say: Say,
) -> tuple[int, int, float]:
    if not checkpoint.exists():
        return 0, 0, 0.0
    state = torch.load(checkpoint, weights_only=True)
    if state["options"] != asdict(options):
        raise DataError(f"{checkpoint} belongs to a run with other options; remove it or use them.")
    network.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["dice"])
    step, seen, spent_s = state["progress"]
    say(f"going on from step {step}")
    return step, seen, spent_s


def _say_validation(network: EvaluatorModel, check: Sequence[Example], when: str, say: Say) -> None:
    sample = random.Random(0).sample(list(check), min(len(check), 1500))
    figures = validation(network, sample)
    say(f"{when}: AUC " + ", ".join(f"{name} {f['auc']:.3f}" for name, f in figures.items()))


def _kinds(pairs: Sequence[Pair]) -> dict[str, int]:
    return {
        kind: sum(pair.kind == kind for pair in pairs) for kind in sorted({p.kind for p in pairs})
    }
