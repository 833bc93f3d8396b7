"""Initialization of a run: vocabulary, embeddings, coverage measures, a transplanted encoder.

Word embeddings are settled first, by their weighted mean: English learns from MiniLM's vectors of
the same texts; Chinese, where MiniLM is blind, from which passage answers which question.
"""

import json
import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from sklearn import linear_model, pipeline, preprocessing
from tokenizers import Tokenizer
from torch import Tensor, nn

from evaluator.data.hard_negatives import Meaning
from evaluator.data.records import Record
from evaluator.data.relevance_pairs import Pair, meaning_text
from evaluator.errors import DataError
from evaluator.model.checkpoint import TENSORS_FILE
from evaluator.model.features import BEST_KINDS
from evaluator.model.t5 import EvaluatorModel, ModelConfig, tensors
from evaluator.model.tokenization import PairTokenizer
from evaluator.training import examples
from evaluator.training.loop import Log, as_json, batches, read_state, refuse_another
from evaluator.training.minilm_transplant import build_tokenizer, embeddings, idf, transplant

_FITTED_ON = 240  # rows for the transplant: some 40,000 tokens
_IDENTITY = "identity.json"
_MAX_PASSES = 100  # of the coverage measures over the rows
_SHARPNESS = 20.0  # inverse temperature of cosines when they compete
_MAX_IDS = 256  # of a text whose embeddings are settled
KINDS = ("positive", "words", "random")
"""Pairs that measures are weighed on. Negatives mined by meaning are left out: chosen for a high
cosine, they would teach distrust of it."""


def beginning(
    records: Sequence[Record],
    pairs: Sequence[Pair],
    meaning: Meaning | None,
    folder: Path,
    identity: dict[str, Any],
    options: examples.TrainOptions,
    log: Log,
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
    distil(network, tokenizer, records, meaning, steps, options.seed, log)
    rows = PairTokenizer(tokenizer, options.train_length)
    fit_coverage(network, examples.of_pairs(pairs, rows), options, log)
    if options.init == "minilm":
        encoded = rows.encode("relevance", [(r.question, r.passage) for r in fitted_on(records)])
        ids, mask = examples.batch_tensors([row for row in encoded if not isinstance(row, str)])
        missed = ", ".join(f"{share:.3f}" for share in transplant(network, tokenizer, ids, mask))
        log(f"transplanted; of the teacher's variance, half-layer by half-layer, missed: {missed}")
        sample = examples.evened(pairs, options.nearness_rows, random.Random(options.seed))
        fit_nearness(network, examples.of_pairs(sample, rows), log)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = json.dumps(asdict(network.config))
    (folder / "config.json").write_text(config, encoding="utf-8")
    save_file(tensors(network), folder / TENSORS_FILE)
    (folder / _IDENTITY).write_text(json.dumps(identity), encoding="utf-8")  # now it is whole
    return network, tokenizer


def refuse_another_run(begun: Path, checkpoint: Path, identity: dict[str, Any]) -> None:
    """DataError, naming all that a run of another `identity` has left, before the work begins."""
    ours, theirs = as_json(identity), dict[Path, Any]()
    if (begun / _IDENTITY).exists():
        theirs[begun] = json.loads((begun / _IDENTITY).read_text(encoding="utf-8"))
    if checkpoint.exists():
        stored = read_state(checkpoint)["identity"]  # the loop adds its own to it
        theirs[checkpoint] = {name: stored[name] for name in stored.keys() & ours}
    others = [path for path, made_of in theirs.items() if made_of != ours]
    if others:
        refuse_another(others, theirs[others[0]], ours)


def kept(folder: Path) -> tuple[EvaluatorModel, Tokenizer]:
    """Network and tokenizer of a beginning that an earlier call has left."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    network = EvaluatorModel(ModelConfig(**config))
    network.load_state_dict(load_file(folder / TENSORS_FILE), strict=False)
    return network, Tokenizer.from_file(str(folder / "tokenizer.json"))


def _fresh(
    records: Sequence[Record], options: examples.TrainOptions
) -> tuple[EvaluatorModel, Tokenizer]:
    texts = sorted({record.passage for record in records})
    tokenizer, cjk_start = build_tokenizer(texts, options.min_count)
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
    network: EvaluatorModel,
    rows: Sequence[examples.Example],
    options: examples.TrainOptions,
    log: Log,
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
    source, running = batches(rows, options.coverage_tokens, options.seed), 0.0
    a_pass = math.ceil(sum(len(row.ids) for row in rows) / options.coverage_tokens)
    steps = min(options.coverage_steps, _MAX_PASSES * a_pass)
    for step in range(steps):
        batch = next(source)
        ids, _ = examples.batch_tensors(batch)
        target = torch.tensor([1.0 - example.label for example in batch])
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
            log(f"coverage step {step + 1}: loss {running:.4f}")


def fitted_on(records: Sequence[Record]) -> list[Record]:
    """The rows the transplant is fitted on: English, as MiniLM is, or others where none is."""
    relevant = [record for record in records if record.question and record.relevant]
    chosen = [record for record in relevant if record.language == "en"] or relevant
    return random.Random(0).sample(chosen, min(_FITTED_ON, len(chosen)))


class _Side:
    """One language's questions and passages as token ids, with the teacher's vectors if any."""

    def __init__(self, records: Sequence[Record], tokenizer: Tokenizer, meaning: Meaning | None):
        questions = [r.question for r in records]
        passages = [meaning_text(r) for r in records]
        self.questions, self.passages = _ids(tokenizer, questions), _ids(tokenizer, passages)
        places: dict[str, int] = {}
        self.place = [places.setdefault(text, len(places)) for text in passages]
        self.teacher: tuple[Tensor, Tensor] | None = None
        if meaning is not None:
            of_questions = torch.from_numpy(meaning.vectors(questions))
            self.teacher = (of_questions, torch.from_numpy(meaning.vectors(passages)))


def _ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Tensor]:
    encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return [torch.tensor(encoding.ids[:_MAX_IDS] or [0]) for encoding in encodings]


def distil(
    network: EvaluatorModel,
    tokenizer: Tokenizer,
    records: Sequence[Record],
    meaning: Meaning | None,
    steps: dict[str, int],
    seed: int,
    log: Log,
) -> None:
    """Train embeddings and pooling weights in place; `steps` by language, batches of 192."""
    loud = network.config.d_words**0.5
    table = nn.Parameter(network.words.weight.detach() / loud)
    first = network.interaction.token_weight.detach().abs().clamp(min=0.02)
    weight = nn.Parameter(first.log())
    for language, count in steps.items():
        mine = [r for r in records if r.language == language and r.question and r.relevant]
        # MiniLM, which reads 128 word pieces, must see the passage.
        taught = [r for r in mine if language == "zh" or r.title or len(r.passage) < 300]
        if len(taught) < 2:
            continue
        side = _Side(taught, tokenizer, meaning if language == "en" else None)
        loss = _settle(table, weight, side, count, seed)
        log(f"embeddings, {language}: {len(taught)} pairs, {count} steps, loss {loss:.3f}")
    with torch.no_grad():
        network.words.weight.copy_(table * loud)
        network.interaction.pool_weight.copy_(weight.exp())


def _settle(table: Tensor, weight: Tensor, side: _Side, steps: int, seed: int) -> float:
    optimizer = torch.optim.Adam(
        [{"params": [table], "lr": 1e-3}, {"params": [weight], "lr": 1e-2}]
    )
    rng, size, running = random.Random(seed), min(192, len(side.questions)), 0.0
    for step in range(steps):
        numbers = rng.sample(range(len(side.questions)), size)
        questions = _means(table, weight, [side.questions[i] for i in numbers])
        passages = _means(table, weight, [side.passages[i] for i in numbers])
        loss = _loss(questions, passages, side, numbers)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        for group, rate in zip(optimizer.param_groups, (1e-3, 1e-2), strict=True):
            group["lr"] = rate * (1 - step / steps)
        running = 0.95 * running + 0.05 * loss.item() if step else loss.item()
    return running


def _means(table: Tensor, weight: Tensor, rows: Sequence[Tensor]) -> Tensor:
    flat = torch.cat(list(rows))
    starts = torch.tensor([0, *(len(row) for row in rows[:-1])]).cumsum(0)
    shares = weight[flat].exp()
    summed = nn.functional.embedding_bag(flat, table, starts, mode="sum", per_sample_weights=shares)
    return nn.functional.normalize(summed, dim=-1)


def _loss(questions: Tensor, passages: Tensor, side: _Side, numbers: list[int]) -> Tensor:
    close = questions @ passages.T
    if side.teacher is None:
        places = torch.tensor([side.place[i] for i in numbers])
        twin = (places[:, None] == places) & ~torch.eye(len(numbers), dtype=torch.bool)
        own = torch.arange(len(numbers))
        competing = (close * _SHARPNESS).masked_fill(twin, -1e9)
        return nn.functional.cross_entropy(competing, own)
    question_vectors, passage_vectors = (vectors[numbers] for vectors in side.teacher)
    wanted = question_vectors @ passage_vectors.T
    apart = (
        (close - wanted).square().mean()
        + (questions @ questions.T - question_vectors @ question_vectors.T).square().mean()
        + (passages @ passages.T - passage_vectors @ passage_vectors.T).square().mean()
    )
    choice = nn.functional.kl_div(
        (close * _SHARPNESS).log_softmax(1), (wanted * _SHARPNESS).softmax(1), reduction="batchmean"
    )
    return 10 * apart + choice


def weighable(width: int) -> list[int]:
    """Places of the measures that the weighing reads, of `width`.

    Not the best words' kinds: nearly all pairs hold a word of the kind asked for, and a line
    through the few others is so steep that it throws out short passages that answer.
    """
    return [place for place in range(width) if place not in BEST_KINDS]


def weighing(measures: Any, relevant: Sequence[bool], sources: Sequence[str]) -> pipeline.Pipeline:
    """Logistic regression over standardised measures (pairs, measures).

    Every source weighs the same. Linear, as a network over the same measures was no better on data
    sets left out of training (benchmarks/evaluator.md).
    """
    counts = Counter(sources)
    alike = [len(sources) / len(counts) / counts[source] for source in sources]
    model = pipeline.make_pipeline(
        preprocessing.StandardScaler(), linear_model.LogisticRegression(C=0.3, max_iter=3000)
    )
    model.fit(measures, relevant, logisticregression__sample_weight=alike)
    return model


def fit_nearness(network: EvaluatorModel, rows: Sequence[examples.Example], log: Log) -> None:
    """Weigh the network's measures on the English rows of KINDS; one class alone: no change."""
    english = [e for e in rows if e.language == "en" and e.kind in KINDS]
    relevant = [example.label == 0 for example in english]
    if len(set(relevant)) < 2:
        return
    measures = examples.computed(english, network.measures)
    places = weighable(measures.shape[1])
    scaler, fitted = weighing(measures[:, places], relevant, [e.source for e in english])
    weights = fitted.coef_[0] / scaler.scale_
    with torch.no_grad():
        network.nearness.weight.zero_()
        network.nearness.weight[0, places] = torch.from_numpy(weights).float()
        network.nearness.bias.fill_(float(fitted.intercept_[0] - weights @ scaler.mean_))
    log(f"measures weighed on {len(english)} English pairs")
