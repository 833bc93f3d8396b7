"""Training run of an evaluator: data, initialization, loop, last regressions, weights."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn import linear_model, pipeline, preprocessing
from torch import Tensor, nn

from evaluator.data import records
from evaluator.data.hard_negatives import Meaning
from evaluator.data.records import JudgementRow, Key
from evaluator.data.relevance_pairs import pairs_of
from evaluator.data.synthetic.build import constructed
from evaluator.data.synthetic.retrieval import needs
from evaluator.errors import DataError
from evaluator.model import t5
from evaluator.model.t5 import EvaluatorModel
from evaluator.model.tokenization import REFLECTION_TOKENS, PairTokenizer
from evaluator.schema import LABELS, TASKS, Task
from evaluator.training import examples
from evaluator.training.examples import Example, TrainOptions, places, summary, validation
from evaluator.training.initialization import beginning, refuse_another_run
from evaluator.training.loop import Log, Schedule, fit

CHECKPOINT = "run.ckpt"
_CHECKED = {"relevance": 100, "support": 40, "utility": 40, "retrieval": 40}
"""Rows a source and task that a validation in mid-training looks at."""
_MEASURED = {"relevance": 400, "support": 200, "utility": 200, "retrieval": 200}
"""The same for the figures kept with the weights."""
_MAX_TOKENS = 300_000  # of labelled, of constructed and of our own rows each, in a regression
_STILL = 1e-4  # a deviation below which a number says nothing, and its weight would overflow
_STRENGTH = 0.003  # inverse of the regularisation
JOINT_RATE = 0.3  # of the learning rate: these layers know much from where they are copied from


def train(data: Path, out: Path, work: Path, options: TrainOptions, log: Log) -> None:
    """Train on `data`, write the weights to `out`, keep checkpoints and caches in `work`.

    The same call after a kill goes on where the last checkpoint stands. DataError, before anything
    is computed, where `work` holds another run.
    """
    torch.manual_seed(options.seed)
    usable = [
        record for record in records.read_folder(data) if record.language in options.languages
    ]
    identity = {"options": asdict(options), "data": records.digests(data)}
    begun, checkpoint = work / "beginning", work / CHECKPOINT
    refuse_another_run(begun, checkpoint, identity)
    key = records.division(usable, options.held_back_percent)
    if key is records.by_passage:
        log("too few titles to divide articles: passages are divided instead")
    known, held = records.split(usable, options.held_back_percent)
    log(f"{len(known)} training and {len(held)} validation records")
    meaning = Meaning(work) if options.init == "minilm" else None
    pairs = pairs_of(known, options.seed, meaning)
    judged, judged_held = judgements(data, options, key)
    log(f"{len(pairs)} pairs and {len(judged)} judgements to train on")
    if not pairs:
        raise DataError(f"{data} gives no pairs for training.")

    network, tokenizer = beginning(known, pairs, meaning, begun, identity, options, log)
    network.config.tasks = taught_tasks(judged)
    log(f"tasks with rows of two labels or more: {', '.join(network.config.tasks)}")
    encoder = PairTokenizer(tokenizer, options.train_length)
    check = examples.of_pairs(pairs_of(held, options.seed, meaning, hard_only=True), encoder)
    check += examples.of_judgements(judged_held, encoder)
    drawn = examples.mixed(judged, options.shares, options.rows, options.seed)
    taught = examples.of_judgements(drawn, encoder)

    learner = JudgementLearner(network, _sampled(check, _CHECKED), options)
    story = fit(learner, taught, _schedule(options), checkpoint, identity, log)
    fit_heads(network, examples.of_judgements(judged, encoder), learner.check, options.seed, log)

    story = {"records": len(known), "rows": len(taught), **story}
    kinds = dict(sorted(Counter(f"{row.task}: {row.kind}" for row in taught).items()))
    network.config.made_by = {**identity, "training": story, "kinds": kinds}
    figures = validation(network, _sampled(check, _MEASURED))
    network.config.made_by["validation"] = figures
    for stale in ("thresholds.json", "measured.json", "model.onnx"):
        (out / stale).unlink(missing_ok=True)  # it belonged to other weights
    t5.save(network, out)
    tokenizer.save(str(out / "tokenizer.json"))
    log(f"validation: {summary(figures)}; weights written to {out}")


def taught_tasks(judged: Sequence[JudgementRow]) -> list[str]:
    """Relevance, and what has rows of two labels or more: nothing is learnt from one alone."""
    labels = {(row.task, row.label) for row in judged}
    counts = Counter(task for task, _ in labels)
    return [task for task in TASKS if task == "relevance" or counts[task] > 1]


def _schedule(options: TrainOptions) -> Schedule:
    pace = options.seed, options.batch_tokens, options.rows, options.minutes
    return Schedule(*pace, check_every=options.check_every)


def judgements(
    data: Path, options: TrainOptions, key: Key = records.by_article
) -> tuple[list[JudgementRow], list[JudgementRow]]:
    """Rows of the other tasks for training and for validation, never of one group on both sides.

    Made from the data's questions and answers, of our own writing, and critic rows if any.
    """
    percent, max_rows = options.held_back_percent, options.judgements
    made = partial(constructed, data, options.seed, key=key)
    train = made(side=lambda group: not records.held_back(group, percent), max_rows=max_rows)
    check = made(side=lambda group: records.held_back(group, percent), max_rows=max_rows // 10)
    critic_rows = records.read_judgements(data)
    more, more_held = records.divided(critic_rows, lambda row: row.group, percent)
    for need in needs(options.languages, options.seed):
        {"train": train, "held": check}.get(need.group, []).append(need)
    return (
        [row for row in train + more if row.language in options.languages],
        [row for row in check + more_held if row.language in options.languages],
    )


@dataclass
class JudgementLearner:
    """What the loop trains: the T5 around settled embeddings and coverage measures."""

    network: EvaluatorModel
    check: Sequence[Example]
    options: TrainOptions

    def __post_init__(self) -> None:
        # What training leaves as it began: measures, and the layers taken over from MiniLM.
        network = self.network
        blocks: Any = network.t5.encoder.block
        settled: list[nn.Module] = [network.words, network.interaction, network.coverage]
        settled += [network.nearness, network.wide]
        if self.options.init == "minilm":
            settled += [network.t5.shared, network.positions, network.meaning]
            settled += blocks[: self.options.own_layers]
        for part in settled:
            part.requires_grad_(False)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.network.to(self._device)

    def groups(self) -> list[dict[str, Any]]:
        learnt = {p for p in self.network.parameters() if p.requires_grad}
        blocks: Any = self.network.t5.encoder.block
        joint = [p for p in blocks[self.options.own_layers :].parameters() if p in learnt]
        rest = [p for p in self.network.parameters() if p in learnt and p not in set(joint)]
        rate = self.options.learning_rate
        return [{"params": joint, "lr": JOINT_RATE * rate}, {"params": rest, "lr": rate}]

    def loss(self, batch: Sequence[Example]) -> Tensor:
        """Cross-entropy over each row's own reflection tokens."""
        ids, mask = (part.to(self._device) for part in examples.batch_tensors(batch))
        foreign = torch.ones(len(batch), len(REFLECTION_TOKENS), dtype=torch.bool)
        for row, example in enumerate(batch):
            foreign[row, places(example.task)] = False
        targets = torch.tensor([places(e.task).start + e.label for e in batch])
        logits = self.network(ids, mask).float().masked_fill(foreign.to(self._device), -1e9)
        return nn.functional.cross_entropy(logits, targets.to(self._device))

    def validation(self) -> tuple[float, str]:
        """The mean figure of the taught tasks, all but relevance."""
        means = summary(validation(self.network, [e for e in self.check if e.task != "relevance"]))
        figure = sum(means.values()) / max(1, len(means))
        return figure, ", ".join(f"{task} {mean:.3f}" for task, mean in means.items())


def _sampled(check: Sequence[Example], max_rows: Mapping[str, int]) -> list[Example]:
    groups: dict[tuple[str, str], list[Example]] = {}
    for example in check:
        groups.setdefault((example.task, example.source), []).append(example)
    rng = random.Random(0)
    return [
        example
        for (task, _), group in groups.items()
        for example in rng.sample(group, min(max_rows[task], len(group)))
    ]


def fit_heads(
    network: EvaluatorModel,
    rows: Sequence[Example],
    check: Sequence[Example],
    seed: int,
    log: Log,
) -> None:
    """Fit `head` and `wide` for every task but relevance, in place, on rows read once each.

    A task for which `check` finds the new step no better keeps its old one.
    """
    network.eval()
    for task in LABELS:
        mine = list({example.ids: example for example in rows if example.task == task}.values())
        mine = _some(mine, random.Random(seed))
        if task == "relevance" or len({example.label for example in mine}) < 2:
            continue
        checked = [example for example in check if example.task == task]
        before, state = _figure(network, checked), network.state_dict()
        last_step = ("head.weight", "head.bias", "wide.weight")
        kept = {name: state[name].clone() for name in last_step}
        _fit(network, task, mine)
        after = _figure(network, checked)
        log(f"last step of {task} fitted on {len(mine)} rows: {before:.3f} became {after:.3f}")
        if after <= before:
            network.load_state_dict(kept, strict=False)


def _figure(network: EvaluatorModel, check: Sequence[Example]) -> float:
    return sum(summary(validation(network, check)).values())


def _some(rows: Sequence[Example], rng: random.Random) -> list[Example]:
    """As many as the tokens allow of those a data set labels, of made ones, and of our own."""
    read: Counter[str] = Counter()
    chosen: list[Example] = []
    for example in rng.sample(rows, len(rows)):
        part = "own" if example.source == "own" else example.kind.partition(" ")[0]
        read[part] += len(example.ids)
        if read[part] <= _MAX_TOKENS:
            chosen.append(example)
    return chosen


def _fit(network: EvaluatorModel, task: Task, rows: Sequence[Example]) -> None:
    device = network.head.weight.device

    def features(ids: Tensor, mask: Tensor) -> Tensor:
        inputs, decoded, _ = network.considered(ids.to(device), mask.to(device))
        return torch.cat([inputs, decoded], dim=1)

    labels = np.array([example.label for example in rows])
    model = pipeline.make_pipeline(
        preprocessing.StandardScaler(), linear_model.LogisticRegression(C=_STRENGTH, max_iter=500)
    )
    scaler, fitted = model.fit(examples.computed(rows, features), labels)
    coefficients, offsets = _a_row_a_class(fitted)
    still = scaler.scale_ < _STILL
    weights = np.where(still, 0.0, coefficients / np.where(still, 1.0, scaler.scale_))
    biases = offsets - weights @ scaler.mean_
    outputs = [places(task).start + label for label in fitted.classes_]
    known = network.wide.in_features
    with torch.no_grad():
        network.wide.weight[outputs] = torch.from_numpy(weights[:, :known]).float().to(device)
        network.head.weight[outputs] = torch.from_numpy(weights[:, known:]).float().to(device)
        network.head.bias[outputs] = torch.from_numpy(biases).float().to(device)


def _a_row_a_class(fitted: linear_model.LogisticRegression) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (classes, features) and offsets; of two classes the regression keeps one row."""
    if len(fitted.classes_) > 2:
        return fitted.coef_, fitted.intercept_
    halves = np.array([[-0.5], [0.5]])
    return halves * fitted.coef_, halves[:, 0] * fitted.intercept_
