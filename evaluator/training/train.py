"""Training, told from top to bottom: data, beginning, teacher, loop, weights."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from tokenizers import Tokenizer
from torch import Tensor, nn

from evaluator.data.file_formats import read_judgements
from evaluator.data.hard_negatives import Meaning
from evaluator.data.judgements import Judgement, held_back, split_judgements
from evaluator.data.relevance_pairs import division, pairs_of, split
from evaluator.data.relevance_records import (
    Key,
    Record,
    by_article,
    by_passage,
    digests,
    read_folder,
)
from evaluator.data.synthetic.build import constructed
from evaluator.data.synthetic.retrieval import needs
from evaluator.errors import DataError
from evaluator.model import t5 as models
from evaluator.model.heads import fit_heads
from evaluator.model.t5 import EvaluatorModel
from evaluator.model.tokenization import REFLECTION_TOKENS, PairTokenizer
from evaluator.schema import TASKS
from evaluator.training import loop, teacher
from evaluator.training.examples import (  # fmt: skip
    Example,
    computed,
    mixed,
    of_judgements,
    of_pairs,
    padded,
    places,
    summary,
    validation,
)
from evaluator.training.initialization import beginning, refuse_another_run
from evaluator.training.loop import Say, Schedule
from evaluator.training.options import TrainOptions

_CHECKED = {"relevance": 100, "support": 40, "utility": 40, "retrieval": 40}
"""Rows a source and task that a validation in mid-training looks at."""
_MEASURED = {"relevance": 400, "support": 200, "utility": 200, "retrieval": 200}
"""The same for the figures kept with the weights."""
JOINT_RATE = 0.3  # of the learning rate: these layers know much from where they are copied from


def taught_by(teacher: Path, options: TrainOptions) -> TrainOptions:
    """The options with a cross-encoder as teacher: the decoder learns relevance too, from it."""
    shares = {"relevance": 0.4, **{part: 0.6 * share for part, share in options.shares.items()}}
    return replace(options, teacher=str(teacher), teacher_share=0.5, shares=shares)


def train(data: Path, out: Path, work: Path, options: TrainOptions, say: Say) -> None:
    """Train on `data`, write the weights to `out`, keep checkpoints and caches in `work`.

    The same call after a kill goes on where the last checkpoint stands. DataError, before anything
    is computed, where `work` holds another run.
    """
    torch.manual_seed(options.seed)
    records = _records(data, options)
    identity = {"options": asdict(options), "data": digests(data)}
    begun, checkpoint = work / "beginning", work / "run.ckpt"
    refuse_another_run(begun, checkpoint, identity)
    key = division(records, options.held_back_percent)
    known, held = _divided(records, key, options, say)
    meaning = Meaning(work) if options.init == "minilm" else None
    pairs = pairs_of(known, options.seed, meaning, mined=options.negatives == "mined")
    judged, judged_held = judgements(data, options, key)
    say(f"{len(pairs)} pairs and {len(judged)} judgements to train on")
    if not pairs:
        raise DataError(f"{data} gives no pairs for training.")

    network, tokenizer = beginning(known, pairs, meaning, begun, identity, options, say)
    network.config.tasks = taught_tasks(judged)
    say(f"tasks with rows of two labels or more: {', '.join(network.config.tasks)}")
    rows = PairTokenizer(tokenizer, options.train_length)
    check = of_pairs(pairs_of(held, options.seed, meaning, hard_only=True), rows)
    check += of_judgements(judged_held, rows)
    pairs, drawn = mixed(pairs, judged, options.shares, options.rows, options.seed)
    examples = softened(network, of_pairs(pairs, rows), work, options)
    examples += of_judgements(drawn, rows)

    learner = Learner(network, _sampled(check, _CHECKED), options)
    story = loop.fit(learner, examples, _schedule(options), checkpoint, identity, say)
    fit_heads(network, of_judgements(judged, rows), learner.check, options.seed, say)

    story = {"records": len(known), "rows": len(examples), **story}
    network.config.made_by = {**identity, "training": story, "kinds": _counted(examples)}
    figures = validation(network, _sampled(check, _MEASURED))
    network.config.made_by["validation"] = figures
    write(network, tokenizer, out)
    say(f"validation: {summary(figures)}; weights written to {out}")


def _counted(examples: Sequence[Example]) -> dict[str, int]:
    kinds = Counter(f"{example.task}: {example.kind}" for example in examples)
    return dict(sorted(kinds.items()))


def write(network: EvaluatorModel, tokenizer: Tokenizer, out: Path) -> None:
    """The checkpoint's files; what belonged to weights that stood in the folder goes."""
    for stale in ("thresholds.json", "thresholds.png", "measured.json", "model.onnx"):
        (out / stale).unlink(missing_ok=True)
    models.save(network, out)
    tokenizer.save(str(out / "tokenizer.json"))


def _records(data: Path, options: TrainOptions) -> list[Record]:
    return [record for record in read_folder(data) if record.language in options.languages]


def _divided(
    records: Sequence[Record], key: Key, options: TrainOptions, say: Say
) -> tuple[list[Record], list[Record]]:
    if key is by_passage:
        say("too few titles to divide articles: passages are divided instead")
    known, held = split(records, options.held_back_percent)
    say(f"{len(known)} training and {len(held)} validation records")
    return known, held


def taught_tasks(judged: Sequence[Judgement]) -> list[str]:
    """Relevance, and what has rows of two labels or more: nothing is learnt from one alone."""
    labels = {(row.task, row.label) for row in judged}
    counts = Counter(task for task, _ in labels)
    return [task for task in TASKS if task == "relevance" or counts[task] > 1]


def _schedule(options: TrainOptions) -> Schedule:
    return Schedule(
        seed=options.seed, batch_tokens=options.batch_tokens, most_rows=options.rows,
        minutes=options.minutes, check_every=options.check_every, patience=options.patience,
        precision=options.precision,
    )  # fmt: skip


def judgements(
    data: Path, options: TrainOptions, key: Key = by_article
) -> tuple[list[Judgement], list[Judgement]]:
    """Rows of the other tasks for training and for validation, never of one group on both sides.

    Made from the data's questions and answers, of our own writing, and critic rows if any.
    """
    percent, most = options.held_back_percent, options.judgements
    made = partial(constructed, data, options.seed, key=key)
    train = made(side=lambda group: not held_back(group, percent), most=most)
    check = made(side=lambda group: held_back(group, percent), most=most // 10)
    more, more_held = split_judgements(read_judgements(data), percent)
    for need in needs(options.languages, options.seed):
        {"train": train, "held": check}.get(need.group, []).append(need)
    return (
        [row for row in train + more if row.language in options.languages],
        [row for row in check + more_held if row.language in options.languages],
    )


@dataclass
class Learner:
    """What the loop trains: the T5 around settled embeddings and coverage measures."""

    network: EvaluatorModel
    check: Sequence[Example]
    options: TrainOptions

    def __post_init__(self) -> None:
        self.network.config.relevance_taught = "relevance" in self.options.shares
        for part in self._settled():
            part.requires_grad_(False)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.network.to(self._device)

    def _settled(self) -> list[nn.Module]:
        """What training leaves as it began: measures, and the layers a teacher has filled."""
        network = self.network
        settled: list[nn.Module] = [network.words, network.interaction, network.coverage]
        settled += [network.nearness, network.wide]
        if self.options.init == "minilm":
            blocks: Any = network.t5.encoder.block
            settled += [network.t5.shared, network.positions, network.meaning]
            settled += blocks[: self.options.own_layers]
        return settled

    def groups(self) -> list[dict[str, Any]]:
        learnt = {p for p in self.network.parameters() if p.requires_grad}
        joint = [p for p in self._joint() if p in learnt]
        rest = [p for p in self.network.parameters() if p in learnt and p not in set(joint)]
        rate = self.options.learning_rate
        return [{"params": joint, "lr": JOINT_RATE * rate}, {"params": rest, "lr": rate}]

    def _joint(self) -> list[nn.Parameter]:
        blocks: Any = self.network.t5.encoder.block
        return list(blocks[self.options.own_layers :].parameters())

    def loss(self, batch: Sequence[Example]) -> Tensor:
        """Cross-entropy over each row's own reflection tokens."""
        ids, mask = (part.to(self._device) for part in padded([e.ids for e in batch]))
        wanted = torch.zeros(len(batch), len(REFLECTION_TOKENS))
        foreign = torch.ones_like(wanted, dtype=torch.bool)
        for row, example in enumerate(batch):
            wanted[row, places(example.task)] = torch.tensor(example.target)
            foreign[row, places(example.task)] = False
        logits = self.network(ids, mask).float().masked_fill(foreign.to(self._device), -1e9)
        return -(wanted.to(self._device) * nn.functional.log_softmax(logits, 1)).sum(1).mean()

    def validation(self) -> tuple[float, str]:
        """The taught tasks' mean figure, relevance counted as much as the others together."""
        taught = self.network.config.relevance_taught
        means = summary(
            validation(self.network, [e for e in self.check if taught or e.task != "relevance"])
        )
        others = [figure for task, figure in means.items() if task != "relevance"]
        both = [sum(others) / len(others)] if others else []
        both += [means["relevance"]] if "relevance" in means else []
        return sum(both) / max(1, len(both)), ", ".join(f"{t} {f:.3f}" for t, f in means.items())


def _sampled(check: Sequence[Example], most: Mapping[str, int]) -> list[Example]:
    groups: dict[tuple[str, str], list[Example]] = {}
    for example in check:
        groups.setdefault((example.task, example.source), []).append(example)
    dice = random.Random(0)
    return [
        example
        for (task, _), found in groups.items()
        for example in dice.sample(found, min(most[task], len(found)))
    ]


def softened(
    network: EvaluatorModel, examples: list[Example], work: Path, options: TrainOptions
) -> list[Example]:
    """Relevance targets mixed with a teacher's: a cross-encoder's where one is given.

    Without one, what MiniLM's cosine and the coverage measures say together, by regression.
    """
    share = options.teacher_share
    if not share:
        return examples
    said = _cross_encoded(examples, work, options) if options.teacher else _said(network, examples)
    return [
        replace(e, target=_between(e.target, said[id(e)], share)) if id(e) in said else e
        for e in examples
    ]


def _between(target: tuple[float, ...], said: float, share: float) -> tuple[float, float]:
    relevant = (1 - share) * target[0] + share * said
    return relevant, 1 - relevant


def _said(network: EvaluatorModel, examples: Sequence[Example]) -> dict[int, float]:
    known = [e for e in examples if e.pair is not None and e.pair.cosine is not None]
    if len({example.label for example in known}) < 2:
        return {}
    margins = computed(known, lambda ids, _: network.coverage_only(ids))
    evidence = np.stack([np.array([e.pair.cosine for e in known if e.pair]), margins], axis=1)
    labels = [example.label == 0 for example in known]
    said = LogisticRegression().fit(evidence, labels).predict_proba(evidence)[:, 1]
    return {id(e): float(p) for e, p in zip(known, said, strict=True)}


def _cross_encoded(
    examples: Sequence[Example], work: Path, options: TrainOptions
) -> dict[int, float]:
    asked = [(e, e.pair) for e in examples if e.pair is not None and e.language == "en"]
    pairs = [(pair.question, pair.passage) for _, pair in asked]
    said = teacher.teacher_scores(Path(options.teacher), pairs, work)
    return {id(e): p for (e, _), p in zip(asked, said, strict=True)}
