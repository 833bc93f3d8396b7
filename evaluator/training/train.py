"""Training an evaluator, from a folder of data to a folder of weights, told from top to bottom.

    read the data -> hold some back -> make pairs and judgements -> begin a network
    -> batches of like length -> loss -> step -> validate and keep the best -> write the weights

A killed run goes on from its last checkpoint with the same batches and random states, to the same
loss curve where the rows, not the clock, set the pace. On a GPU the arithmetic is bf16; the
evaluator's is so, too, on a CPU that has it (AVX-512 BF16: three times as fast).
"""

import json
import math
import pickle
import random
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from tokenizers import Tokenizer
from torch import Tensor, nn

from evaluator.data import records
from evaluator.data.calibration_questions import build_questions
from evaluator.data.records import HELD_BACK_PERCENT, USERS, JudgementRow, Key, Record
from evaluator.data.synthetic.build import CONSTRUCTED, constructed
from evaluator.data.synthetic.retrieval import needs
from evaluator.errors import DataError, EvaluatorError
from evaluator.inference.fusion import FARTHEST, FusionWeights, load_weights
from evaluator.inference.scorer import HasIds, RowT, Similarity, best_span, load_similarity, padded
from evaluator.model import t5
from evaluator.model.checkpoint import ENCODER_FOLDER, FUSION_FILE, check_folder
from evaluator.model.t5 import PREFIX, EvaluatorModel, ModelConfig, autocast
from evaluator.model.tokenization import REFLECTION_TOKENS, SEPARATOR, PairTokenizer
from evaluator.schema import ANSWER_MARK, LABELS, TASKS, UTILITY_WEIGHTS, Row, Task
from evaluator.settings import EvaluatorSettings
from evaluator.training.pretrained_encoder import (
    cut_tokenizer,
    everyday_words,
    fill,
    read_source,
    source_path,
)
from evaluator.training.relevance_pairs import TITLE_MARK, Pair, pairs_of
from evaluator.training.temperature import temper

CHECKPOINT = "run.ckpt"
LOG_EVERY = 50  # steps
MAX_DIFFERENCES = 5
EMPHASIZED = ("answer removed", "negated", "roles exchanged")
"""Twins that are hardest to tell: drawn half as often again."""
LABELLED_SHARE = 0.18
"""Of support and utility: rows whose data set labels them. They are many, and of few forms."""
NATURAL = ("positive", "words", "same article", "same passage", "random", "neighbour")
"""Kinds of pairs that are as people wrote them."""
QUESTIONS = 400  # of the held-back records, for the temperature
USERS_POSITIVE = 5.0
"""How much a passage that answers a user's question counts: their negatives are neighbours that
nearly answer, and one threshold has to serve them and encyclopaedic questions."""
MIN_RATE = 0.02  # of the full learning rate, at the end
MAX_GRADIENT = 1.0  # norm; longer ones are clipped
UNKNOWN_PLACE = -100  # of an answer that is somewhere in the passage: cross-entropy passes it over
SUB_BATCHES = 3  # of a batch, each padded to its own longest row
_SORTED_AT_ONCE = 1024  # groups: longer runs pad less, shorter ones shuffle better
_CHECKED = {"relevance": 100, "support": 40, "utility": 40, "retrieval": 30}
"""Rows a source and task that a validation in mid-training looks at; the last one, four times."""

Log = Callable[[str], None]
RowT_contra = TypeVar("RowT_contra", bound=HasIds, contravariant=True)
Figures = dict[str, dict[str, float]]
Part = Literal["relevance", "support", "utility", "evidence", "need"]
"""What rows are drawn by: the tasks, and retrieval's rows with evidence at hand and without."""

SHARES: dict[Part, float] = {
    "relevance": 0.46, "support": 0.34, "utility": 0.16, "evidence": 0.03, "need": 0.01,
}  # fmt: skip


@dataclass(frozen=True)
class TrainOptions:
    """How a run goes; the model card tells what the shipped weights' run was given."""

    seed: int = 1
    minutes: float = 60.0
    rows: int = 200_000
    init: str = "e5"
    """`e5`, `none`, or the folder of an evaluator."""
    layers: int = 12
    vocabulary: int = 48_000
    frozen_layers: int = 0  # lowest ones of the encoder; with any, its embeddings, too
    learning_rate: float = 5e-5
    new_rate: float = 5e-4  # of the parts that begin as nothing
    dropout: float = 0.1
    batch_tokens: int = 4096  # padded
    train_length: int = 384
    group: int = 6  # rows of one question at most, the answering one among them
    span_weight: float = 0.5
    left_out: tuple[str, ...] = ()
    """Sources that choose the best checkpoint and are trained on in no way."""
    languages: tuple[str, ...] = ("en", "zh")
    shares: dict[Part, float] = field(default_factory=lambda: dict(SHARES))
    held_back_percent: int = HELD_BACK_PERCENT
    judgements: int = 50_000
    warmup_steps: int = 100
    check_every: int = 400


@dataclass(frozen=True, slots=True)
class Example:
    """One row; `label` is the place of the right token among LABELS[task].

    `start` and `end` are the answer's first and last token in the row: 0 for no answer.
    """

    ids: tuple[int, ...]
    task: Task
    label: int
    language: str
    source: str
    kind: str
    start: int = UNKNOWN_PLACE
    end: int = UNKNOWN_PLACE
    cosines: tuple[float, float] | None = None
    """As fusion reads the pair; None where the T5 is taught to read alone."""


Group = tuple[Example, ...]
"""Rows that are learnt beside each other: a question's answering row first, if it has one."""


def train(data: Path, out: Path, work: Path, options: TrainOptions, log: Log) -> None:
    """Train on `data`, write the weights to `out`, keep checkpoints and caches in `work`.

    The same call after a kill goes on where the last checkpoint stands. DataError, before anything
    is computed, where `work` holds another run.
    """
    torch.manual_seed(options.seed)
    identity = {"options": asdict(options), "data": records.digests(data)}
    refuse_another_run(work / CHECKPOINT, identity)
    known, held, key = divided_records(data, options, log)
    judged, judged_held = judgements(data, options, key)
    network, tokenizer = beginning(known, options, log)
    before = earlier_runs(network.config.made_by)
    network.config.tasks = taught_tasks(judged)
    rows = PairTokenizer(tokenizer, options.train_length)
    fusion = Fusion.beside(options.init)
    relevance = of_pairs(pairs_of(known, options.seed, varied=True), rows, fusion)
    if not relevance:
        raise DataError(f"{data} gives no pairs for training.")
    others = of_judgements(judged, rows)
    taught = mixed(relevance, others, options)
    check = held_back_rows(held, judged_held, rows, options)
    log(
        f"{len(relevance)} questions and {sum(map(len, others))} judgements, "
        f"{len(check)} rows held back; tasks: {', '.join(network.config.tasks)}"
    )
    check = sampled(check, 2)
    del relevance, others, judged, judged_held  # gigabytes, and training is long
    is_fused = any(row.cosines for group in taught for row in group)
    weights = fusion.weights if fusion and is_fused else None
    learner = Evaluating(network, sampled(check, 1), options, weights)
    story = fit(learner, taught, options, work / CHECKPOINT, identity, log)
    if not is_fused:  # else it was taught beside the cosines as they are weighed now
        story["temperature"] = temper(network, rows, build_questions(held, options.seed, QUESTIONS))

    kinds = Counter(f"{row.task}: {row.kind}" for group in taught for row in group)
    figures = validation(network, check)
    network.config.made_by = {
        **identity,
        "training": {"records": len(known), **story, "before": before},
        "kinds": dict(sorted(kinds.items())),
        "validation": figures,
    }
    for stale in ("thresholds.json", "measured.json", "model.onnx"):
        (out / stale).unlink(missing_ok=True)  # it belonged to other weights
    t5.save(network, out)
    tokenizer.save(str(out / "tokenizer.json"))
    carry_encoder(Path(options.init), out)
    log(f"validation: {summary(figures)}; weights written to {out}")


def carry_encoder(init: Path, out: Path) -> None:
    """Copy what relevance is fused with, if the evaluator that training began with has it."""
    if (init / FUSION_FILE).is_file() and init.resolve() != out.resolve():
        shutil.copy(init / FUSION_FILE, out)
        shutil.copytree(init / ENCODER_FOLDER, out / ENCODER_FOLDER, dirs_exist_ok=True)


# Data


def held_back_rows(
    held: Sequence[Record],
    judged: Sequence[JudgementRow],
    rows: PairTokenizer,
    options: TrainOptions,
) -> list[Example]:
    """The rows of all tasks that a validation reads."""
    groups = of_pairs(pairs_of(held, options.seed), rows) + of_judgements(judged, rows)
    return [row for group in groups for row in group]


def divided_records(
    data: Path, options: TrainOptions, log: Log
) -> tuple[list[Record], list[Record], Key]:
    """Records to train on, and those held back: whole sources, and what the key tells of others."""
    usable = [r for r in records.read_folder(data) if r.language in options.languages]
    if unknown := set(options.left_out) - {record.source for record in usable}:
        raise DataError(f"{data} holds no records of {', '.join(sorted(unknown))} to leave out.")
    left_out = [r for r in usable if r.source.split(",")[0] in options.left_out]
    usable = [r for r in usable if r.source.split(",")[0] not in options.left_out]
    key = records.division(usable, options.held_back_percent)
    if key is records.by_passage:
        log("too few titles to divide articles: passages are divided instead")
    known, held = records.divided(usable, key, options.held_back_percent)
    log(f"{len(known)} training and {len(held) + len(left_out)} validation records")
    return known, held + left_out, key


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
    usable = [row for row in train + more if row.source not in options.left_out]
    return (
        [row for row in usable if row.language in options.languages],
        [row for row in check + more_held if row.language in options.languages],
    )


def taught_tasks(judged: Sequence[JudgementRow]) -> list[str]:
    """Relevance, and what has rows of two labels or more: nothing is learnt from one alone."""
    labels = {(row.task, row.label) for row in judged}
    counts = Counter(task for task, _ in labels)
    return [task for task in TASKS if task == "relevance" or counts[task] > 1]


@dataclass(frozen=True)
class Fusion:
    """What users' questions are learnt with: relevance as it will be served, not the T5's alone.

    A question in a user's own words lies farther from its manual than a heading does, and the T5
    has to make up for that where the encoder falls short.
    """

    weights: FusionWeights
    similarity: Similarity

    @classmethod
    def beside(cls, init: str) -> "Fusion | None":
        """Of the evaluator that training begins with; None for a network that begins anew."""
        folder = Path(init)
        if not (folder / FUSION_FILE).is_file():
            return None
        return cls(load_weights(folder), load_similarity(EvaluatorSettings(weights=folder)))

    def cosines(self, pairs: Sequence[Pair]) -> dict[tuple[str, str], tuple[float, float]]:
        """Of users' pairs, by question and passage."""
        texts = list({(pair.question, pair.passage) for pair in pairs if USERS in pair.source})
        return dict(zip(texts, self.similarity.of(texts), strict=True)) if texts else {}


def of_pairs(
    pairs: Sequence[Pair], tokenizer: PairTokenizer, fusion: Fusion | None = None
) -> list[Group]:
    """Each question's pairs that can be encoded, the answering one first."""
    cosines = fusion.cosines(pairs) if fusion else {}
    rows = tokenizer.encode("answer", [(pair.question, pair.passage) for pair in pairs])
    groups: list[Group] = []
    together = zip(pairs, rows, strict=True)
    for _, of_question in groupby(together, key=lambda each: each[0].group):
        made, cut_off = list[Example](), False
        for pair, row in of_question:
            if isinstance(row, Row):
                place = placed(row, pair.passage, pair.answer)
                cut_off = cut_off or bool(pair.answer and place[0] == UNKNOWN_PLACE)
                label = int(not pair.relevant)
                about = (pair.language, pair.source, pair.kind)
                is_users = USERS in pair.source
                near = cosines.get((pair.question, pair.passage)) if is_users else None
                made.append(Example(row.ids, "relevance", label, *about, *place, near))
        if made and not cut_off:  # an answer beyond the row's end would be learnt as no answer
            groups.append(tuple(sorted(made, key=attrgetter("label"))))
    return groups


def placed(row: Row, passage: str, answer: str | None) -> tuple[int, int]:
    """First and last token of the answer in the row's second text; its title may come first."""
    if answer == "":
        return 0, 0
    begin = passage.find(answer, max(0, passage.find(TITLE_MARK))) if answer else -1
    inside = [
        place
        for place, (start, end) in enumerate(row.offsets)
        if start < begin + len(answer or "") and end > begin
    ]
    if begin < 0 or not inside or row.offsets[inside[-1]][1] < begin + len(answer or ""):
        return UNKNOWN_PLACE, UNKNOWN_PLACE
    return row.begins + inside[0], row.begins + inside[-1]


def of_judgements(judgements: Sequence[JudgementRow], tokenizer: PairTokenizer) -> list[Group]:
    """Rows of the other tasks that can be encoded; made answers of one question stand together."""
    groups: dict[Any, list[Example]] = defaultdict(list)
    for task, labels in LABELS.items():
        mine = [judgement for judgement in judgements if judgement.task == task]
        rows = tokenizer.encode(task, [(judgement.first, judgement.second) for judgement in mine])
        for number, (row, own) in enumerate(zip(rows, mine, strict=True)):
            if isinstance(row, Row):
                question = own.first.partition(ANSWER_MARK)[0]
                compared = task in ("support", "utility") and own.kind.startswith(CONSTRUCTED)
                key = (task, own.source, question) if compared else (task, number)
                groups[key].append(
                    Example(
                        row.ids, task, labels.index(own.label), own.language, own.source, own.kind
                    )
                )
    return [
        tuple(sorted(group, key=lambda row: row.label != best(row.task)))
        for group in groups.values()
    ]


def best(task: Task) -> int:
    """The label of the best answers: the last grade of utility, the first of all else."""
    return len(LABELS[task]) - 1 if task == "utility" else 0


def mixed(
    questions: Sequence[Group], judged: Sequence[Group], options: TrainOptions
) -> list[Group]:
    """An epoch: as many questions as there are, with some of their rows, and other parts' rows."""
    rng = random.Random(options.seed)
    drawn = evened(questions, len(questions), rng)
    counts = Counter(row.kind for group in questions for row in group)
    chosen = [_some(group, options.group, counts, rng) for group in drawn]
    parts: dict[tuple[Part, bool], list[Group]] = defaultdict(list)
    for group in judged:
        part, is_labelled = part_of(group[0]), group[0].kind.startswith("natural")
        parts[part, is_labelled and part in ("support", "utility")].append(group)
    rows = sum(map(len, chosen)) / options.shares["relevance"]
    for (part, is_labelled), groups in parts.items():
        share = rows * options.shares[part]
        if (part, not is_labelled) in parts:
            share *= LABELLED_SHARE if is_labelled else 1 - LABELLED_SHARE
        drawn = evened(groups, round(share), rng)
        rows_each = sum(map(len, drawn)) / max(1, len(drawn))
        chosen += rng.sample(drawn, min(len(drawn), round(share / rows_each))) if drawn else []
    rng.shuffle(chosen)
    return chosen


def part_of(row: Example) -> Part:
    if row.task in ("relevance", "support", "utility"):
        return row.task
    is_need = row.ids[-3 - PREFIX] == SEPARATOR  # the second text holds nothing
    return "need" if is_need else "evidence"


def _some(group: Group, most: int, counts: Mapping[str, int], rng: random.Random) -> Group:
    """The answering row, two made twins of it if there are, rare kinds more often, and others."""
    chosen, rest = list(group[:1]), list(group[1:])
    for _ in range(2):
        twins = [row for row in rest if row.kind not in NATURAL]
        if twins and len(chosen) + len(rest) > most:
            weights = [(1 + (t.kind in EMPHASIZED) / 2) / counts[t.kind] ** 0.5 for t in twins]
            chosen += rng.choices(twins, weights)
            rest.remove(chosen[-1])
    return (*chosen, *rng.sample(rest, min(most - len(chosen), len(rest))))


def evened(
    groups: Sequence[Group], count: int, rng: random.Random, repeats: int = 6
) -> list[Group]:
    """About `count` groups, of each language as many, of its sources by the root of their sizes.

    A group is drawn `repeats` times at most.
    """
    languages: dict[str, dict[str, list[Group]]] = {}
    for group in groups:
        by_source = languages.setdefault(group[0].language, {})
        by_source.setdefault(group[0].source, []).append(group)
    drawn: list[Group] = []
    for by_source in languages.values():
        whole = len(languages) * sum(len(mine) ** 0.5 for mine in by_source.values())
        for mine in by_source.values():
            draws = min(round(count * len(mine) ** 0.5 / whole), repeats * len(mine))
            times, rest = divmod(draws, len(mine))
            drawn += times * mine + rng.sample(mine, rest)
    return drawn


# The network that training begins with


def earlier_runs(made_by: Mapping[str, Any]) -> list[dict[str, float]]:
    """Rows and minutes of the runs that made the network, first to last; none for a new one."""
    last = made_by.get("training")
    if not last:
        return []
    return [*last.get("before", ()), {name: last[name] for name in ("rows_seen", "minutes")}]


def beginning(
    known: Sequence[Record], options: TrainOptions, log: Log
) -> tuple[EvaluatorModel, Tokenizer]:
    """The pretrained encoder, nothing, or another evaluator, as `options.init` says."""
    if options.init not in ("e5", "none"):
        folder = Path(options.init)
        network: EvaluatorModel = t5.load(folder, check_folder(folder), t5.built)
        network.config.nowhere = 0.0  # else the loss would learn around it
        return network, Tokenizer.from_file(str(folder / "tokenizer.json"))
    source = read_source(source_path())
    texts = sorted({text for record in known for text in (record.passage, record.question)})
    tokenizer = cut_tokenizer(source, [*texts, *everyday_words()], options.vocabulary)
    network = EvaluatorModel(ModelConfig(tokenizer.get_vocab_size(), layers=options.layers))
    if options.init == "e5":
        fill(network, source, tokenizer)
        log(f"{network.config.vocab_size} of the source's {len(source.pieces)} pieces kept")
    return network, tokenizer


# What is learnt


class Learner(Protocol[RowT_contra]):
    """What is trained. Its network decides the device; `loss` moves its own tensors there."""

    @property
    def network(self) -> nn.Module: ...

    def groups(self) -> list[dict[str, Any]]:
        """AdamW's parameter groups, each with its full learning rate as `lr`."""

    def loss(self, batch: Sequence[tuple[RowT_contra, ...]]) -> Tensor:
        """One number with its gradient; under autocast (bf16) on a GPU."""

    def validation(self) -> tuple[float, str]:
        """A figure to maximise and words for the log; called in eval mode, without gradients."""


@dataclass
class Evaluating:
    """Judgements by cross-entropy, a question's rows also against each other, and spans."""

    network: EvaluatorModel
    check: Sequence[Example]
    options: TrainOptions
    fusion: FusionWeights | None = None

    def __post_init__(self) -> None:
        self.network.to("cuda" if torch.cuda.is_available() else "cpu")
        for module in self.network.modules():
            if isinstance(module, nn.Dropout):
                module.p = self.options.dropout
        if self.network.head.weight.device.type == "cpu":  # twice as fast as the fused form
            self.network.t5.set_attn_implementation("eager")

    def groups(self) -> list[dict[str, Any]]:
        network, options = self.network, self.options
        words = network.t5.encoder.get_input_embeddings().weight
        if options.init != "none":  # rows must mean tomorrow what words unseen today mean
            words.requires_grad_(False)
        if options.frozen_layers:
            network.t5.encoder.embeddings.requires_grad_(False)
            network.t5.encoder.encoder.layer[: options.frozen_layers].requires_grad_(False)
        known = [p for p in network.t5.encoder.parameters() if p.requires_grad]
        ids = {*map(id, known), id(words)}
        new = [p for p in network.parameters() if p.requires_grad and id(p) not in ids]
        rate = options.new_rate if options.init in ("e5", "none") else options.learning_rate
        known_rate = options.new_rate if options.init == "none" else options.learning_rate
        return [{"params": known, "lr": known_rate}, {"params": new, "lr": rate}]

    def loss(self, batch: Sequence[Group]) -> Tensor:
        """Cross-entropy over each row's own tokens and over the places of its answer.

        Where a question has an answering row, also over the rows of the question: which answers?
        """
        rows = [row for group in batch for row in group]
        device = self.network.head.weight.device
        logits, spans = self._read(rows)
        own = torch.zeros(len(rows), len(REFLECTION_TOKENS), dtype=torch.bool)
        for number, row in enumerate(rows):
            own[number, places(row.task)] = True
        logits = self._fused(rows, logits.float()).masked_fill(~own.to(device), -1e9)
        right = torch.tensor([places(row.task).start + row.label for row in rows], device=device)
        counted = [USERS_POSITIVE if row.cosines and not row.label else 1.0 for row in rows]
        each = nn.functional.cross_entropy(logits, right, reduction="none")
        judged = (each * torch.tensor(counted, device=device)).mean()
        return judged + self._listwise(batch, logits) + self._spans(rows, spans)

    def _fused(self, rows: Sequence[Example], logits: Tensor) -> Tensor:
        """The logits, relevance fused as it is served where a row has its cosines."""
        mine = [number for number, row in enumerate(rows) if row.cosines]
        if not mine or self.fusion is None:
            return logits
        relevant, irrelevant = map(REFLECTION_TOKENS.index, LABELS["relevance"])
        near, again = torch.tensor([rows[n].cosines for n in mine], device=logits.device).T
        margins = (logits[mine, relevant] - logits[mine, irrelevant]).clamp(-FARTHEST, FARTHEST)
        weights = self.fusion
        more = (again - weights.free).clamp(min=0)
        evidence = margins + weights.similarity * (near - weights.repetition * more)
        evidence = evidence + weights.doubt * margins.clamp(max=0) * more
        fused = logits.clone()
        fused[mine, relevant] = weights.scale * evidence + weights.shift
        fused[mine, irrelevant] = 0.0
        return fused

    def _read(self, rows: Sequence[Example]) -> tuple[Tensor, Tensor]:
        """The network's logits of the rows, on a CPU by parts of like length: padding costs time.

        A question's rows are of all lengths: padded to the longest one, a third would be nothing.
        """
        device = self.network.head.weight.device
        size = len(rows) if device.type == "cuda" else math.ceil(len(rows) / SUB_BATCHES)
        order = sorted(range(len(rows)), key=lambda place: len(rows[place].ids))
        longest_row = max(len(row.ids) for row in rows)
        judged, spanned = [], []
        for first in range(0, len(rows), size):
            part = [rows[place] for place in order[first : first + size]]
            ids, mask = (tensor.to(device) for tensor in batch_tensors(part))
            with autocast(device):
                logits, spans = self.network(ids, mask)
            judged.append(logits)
            beyond = (0, 0, 0, longest_row - spans.shape[1])
            spanned.append(nn.functional.pad(spans, beyond, value=-1e9))
        back = torch.tensor(np.argsort(order), device=device)
        return torch.cat(judged)[back], torch.cat(spanned)[back]

    def _listwise(self, batch: Sequence[Group], logits: Tensor) -> Tensor:
        """Of a question's rows the best one against the others, by the margin of its token."""
        rows = [row for group in batch for row in group]
        tokens = [places(row.task).start + best(row.task) for row in rows]
        right = torch.tensor(tokens, device=logits.device).unsqueeze(1)
        wrong = logits.scatter(1, right, -1e9).logsumexp(1)
        margins = logits.gather(1, right).squeeze(1) - wrong
        beside: list[Tensor] = []
        first = 0
        for group in batch:
            is_best = [row.label == best(row.task) for row in group]
            if is_best[0] and not all(is_best):
                others = [first + i for i, same in enumerate(is_best) if not same]
                beside.append(torch.tensor([first, *others]))
            first += len(group)
        if not beside:
            return logits.sum() * 0
        table = nn.utils.rnn.pad_sequence(beside, True, -1).to(logits.device)
        compared = margins[table].masked_fill(table < 0, -1e9)
        return (compared.logsumexp(1) - compared[:, 0]).mean()

    def _spans(self, rows: Sequence[Example], spans: Tensor) -> Tensor:
        ends = torch.tensor([[row.start, row.end] for row in rows], device=spans.device)
        if not (ends != UNKNOWN_PLACE).any():
            return spans.sum() * 0
        each = nn.functional.cross_entropy(
            spans.float(), ends, ignore_index=UNKNOWN_PLACE, reduction="none"
        ).sum(1)
        placed, nowhere = each[ends[:, 0] > 0], each[ends[:, 0] == 0]
        loss = sum((part.mean() for part in (placed, nowhere) if len(part)), spans.sum() * 0)
        return self.options.span_weight / 4 * loss

    def validation(self) -> tuple[float, str]:
        """The mean figure of the tasks; relevance is that of the sources left out, if any."""
        figures = validation(self.network, self.check)
        out = {f"relevance {source}" for source in self.options.left_out} & figures.keys()
        means = summary(
            {
                name: figure
                for name, figure in figures.items()
                if not out or name in out or not name.startswith("relevance en")
            }
        )
        figure = sum(means.values()) / max(1, len(means))
        return figure, ", ".join(f"{name} {of['figure']:.3f}" for name, of in figures.items())


def batch_tensors(rows: Sequence[Any]) -> tuple[Tensor, Tensor]:
    """Token ids and mask, both (rows, longest)."""
    ids, mask = padded(rows)
    return torch.from_numpy(ids), torch.from_numpy(mask)


def places(task: Task) -> slice:
    """Where the task's labels stand among REFLECTION_TOKENS."""
    first = REFLECTION_TOKENS.index(LABELS[task][0])
    return slice(first, first + len(LABELS[task]))


def sampled(check: Sequence[Example], times: int) -> list[Example]:
    """Some rows of each source and task, `times` as many as a validation on the way reads.

    Of relevance no random passages: they would make every evaluator look good.
    """
    by_source: dict[tuple[str, str], list[Example]] = defaultdict(list)
    for example in check:
        if example.kind != "random":
            by_source[example.task, example.source].append(example)
    rng = random.Random(0)
    return [
        example
        for (task, _), mine in by_source.items()
        for example in rng.sample(mine, min(times * _CHECKED[task], len(mine)))
    ]


def validation(network: EvaluatorModel, check: Sequence[Example]) -> Figures:
    """Figures by `task source`: AUC for relevance, support and utility, accuracy for retrieval.

    Support tells full from no support, utility the grade by its expectation; rows of retrieval
    are right where the likeliest token is. `span source` is the share of answers found to the
    token, rows without an answer included. Without rows there are no figures.
    """
    network.eval()
    device = network.head.weight.device
    judged: dict[tuple[str, str], list[tuple[Example, Any]]] = defaultdict(list)
    hits: dict[tuple[str, str], list[bool]] = defaultdict(list)
    ordered = sorted(check, key=lambda row: len(row.ids))
    with torch.inference_mode():
        for first in range(0, len(ordered), 32):
            rows = ordered[first : first + 32]
            ids, mask = (part.to(device) for part in batch_tensors(rows))
            with autocast(device):
                outputs = network(ids, mask)
            logits, spans = (part.float().cpu().numpy() for part in outputs)
            for row, own, span in zip(rows, logits, spans, strict=True):
                judged[row.task, row.source].append((row, own[places(row.task)]))
                if row.start != UNKNOWN_PLACE:
                    hits["span", row.source].append(best_span(span) == (row.start, row.end))
    figures: Figures = {}
    for (task, source), of_source in sorted(judged.items()):
        labels = np.array([row.label for row, _ in of_source])
        figure = _figure(task, labels, np.stack([logits for _, logits in of_source]))
        if figure is not None:
            figures[f"{task} {source}"] = {"figure": round(figure, 4), "rows": len(of_source)}
    for (_, source), own in sorted(hits.items()):
        figures[f"span {source}"] = {"figure": round(sum(own) / len(own), 4), "rows": len(own)}
    return figures


def _figure(task: str, labels: Any, logits: Any) -> float | None:
    if task == "retrieval":
        return float((logits.argmax(1) == labels).mean())
    shares = np.exp(logits - logits.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    if task == "utility":
        score, right, wrong = shares @ np.array(UTILITY_WEIGHTS), labels >= 3, labels <= 1
    else:
        last = shares.shape[1] - 1
        score, right, wrong = shares[:, 0] - shares[:, last], labels == 0, labels == last
    clear = right | wrong
    if not right.any() or not wrong.any():
        return None
    return float(roc_auc_score(right[clear], score[clear]))


def summary(figures: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """The mean figure of each task over its sources."""
    tasks: dict[str, list[float]] = defaultdict(list)
    for name, of_source in figures.items():
        tasks[name.split()[0]].append(of_source["figure"])
    return {task: round(sum(values) / len(values), 4) for task, values in tasks.items()}


# The loop


def batches(
    groups: Sequence[tuple[RowT, ...]], tokens: int, seed: int
) -> Iterator[list[tuple[RowT, ...]]]:
    """Endless batches of like length, at most `tokens` padded; epoch after epoch, seeded.

    The groups may not be empty.
    """
    epoch = 0
    while True:
        rng = random.Random(f"{seed} {epoch}")
        order = rng.sample(groups, len(groups))
        epoch_batches: list[list[tuple[RowT, ...]]] = []
        for first in range(0, len(order), _SORTED_AT_ONCE):
            rows = 0
            for group in sorted(order[first : first + _SORTED_AT_ONCE], key=longest):
                if not rows or (rows + len(group)) * longest(group) > tokens:
                    epoch_batches.append([])
                    rows = 0
                epoch_batches[-1].append(group)
                rows += len(group)
        rng.shuffle(epoch_batches)
        yield from epoch_batches
        epoch += 1


def longest(group: Sequence[HasIds]) -> int:
    return max(len(row.ids) for row in group)


@dataclass
class Progress:
    """How far the run is, over all its lives."""

    step: int = 0
    rows: int = 0
    spent_s: float = 0.0
    checked_step: int = 0
    best: float | None = None
    best_step: int | None = None
    losses: list[float] = field(default_factory=list)  # not in the history yet
    history: list[tuple[int, float]] = field(default_factory=list)


def fit(
    learner: Learner[RowT],
    groups: Sequence[tuple[RowT, ...]],
    options: Any,
    checkpoint: Path,
    identity: dict[str, Any],
    log: Log,
) -> dict[str, Any]:
    """Train the learner's network, leave the best one found in it, return the run's figures.

    `options` has seed, batch_tokens, rows, minutes, warmup_steps and check_every. Figures: steps,
    rows_seen, minutes, best, best_step, loss ([step, mean since the last]), stopped_by (rows or
    minutes). Raises DataError for a checkpoint of another run, EvaluatorError, naming the step,
    when loss or gradient is no number.
    """
    if not groups:
        raise DataError("There are no rows to train on.")
    run = _Run(learner, options, checkpoint, as_json(identity), log)
    at = run.at
    source = islice(batches(groups, options.batch_tokens, options.seed), at.step, None)
    learner.network.train()
    # Adam's moments of rare tokens fade into numbers so small that a CPU computes them slowly.
    torch.set_flush_denormal(True)
    try:
        while at.rows < options.rows and at.spent_s < 60 * options.minutes:
            run.learn(next(source))
            if at.step % LOG_EVERY == 0:
                run.log_loss()
            if at.step % options.check_every == 0:
                run.check()
    finally:
        torch.set_flush_denormal(False)
    stopped_by = "rows" if at.rows >= options.rows else "minutes"
    run.log_loss()
    if at.checked_step != at.step or not checkpoint.exists():
        run.check()
    learner.network.eval()
    if run.at.best is not None:
        learner.network.load_state_dict(run.best)
    return {
        "steps": at.step,
        "rows_seen": at.rows,
        "minutes": round(at.spent_s / 60, 2),
        "best": at.best,
        "best_step": at.best_step,
        "loss": [[step, round(loss, 6)] for step, loss in at.history],
        "stopped_by": stopped_by,
    }


class _Run(Generic[RowT]):
    """One learner's run, from its checkpoint on where there is one."""

    def __init__(
        self, learner: Learner[RowT], options: Any, checkpoint: Path, identity: Any, log: Log
    ) -> None:
        self.at, self.best = Progress(), dict[str, Tensor]()
        self._learner, self._options, self._log = learner, options, log
        self._checkpoint, self._identity = checkpoint, identity
        parts = learner.groups()
        self._rates = [part["lr"] for part in parts]
        self._learnt = [parameter for part in parts for parameter in part["params"]]
        self._optimizer = torch.optim.AdamW(parts, weight_decay=0.01, fused=True)
        if checkpoint.exists():
            self._resume()
        self._on_gpu = self._learnt[0].is_cuda
        self._began = time.monotonic() - self.at.spent_s
        self._logged, self._logged_rows = time.monotonic(), self.at.rows
        self._pending: list[Tensor] = []

    def _resume(self) -> None:
        refuse_another_run(self._checkpoint, self._identity)
        state = read_state(self._checkpoint)
        self._learner.network.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        if state["cuda"] and torch.cuda.is_available():
            torch.cuda.set_rng_state_all(state["cuda"])
        self.at, self.best = Progress(**state["progress"]), state["best"]
        self._log(f"going on from step {self.at.step} of {self._checkpoint}")

    def learn(self, batch: Sequence[tuple[RowT, ...]]) -> None:
        """One step; its loss is read later, so that a GPU need not be waited for."""
        options, at = self._options, self.at
        used = max(at.rows / options.rows, at.spent_s / (60 * options.minutes))
        falling = 1 - (1 - MIN_RATE) * min(1.0, used)
        share = min(falling, (at.step + 1) / max(1, options.warmup_steps))
        for part, rate in zip(self._optimizer.param_groups, self._rates, strict=True):
            part["lr"] = rate * share
        with torch.autocast("cuda", torch.bfloat16) if self._on_gpu else nullcontext():
            loss = self._learner.loss(batch)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(self._learnt, MAX_GRADIENT)
        self._optimizer.step()
        self._pending.append(torch.stack([loss.detach().float(), norm.float()]))
        at.step, at.rows = at.step + 1, at.rows + sum(map(len, batch))
        at.spent_s = time.monotonic() - self._began

    def log_loss(self) -> None:
        """The mean loss since the last time: into the history and the log."""
        self._read_losses()
        at, now = self.at, time.monotonic()
        if at.losses:
            mean = sum(at.losses) / len(at.losses)
            at.history.append((at.step, mean))
            speed = (at.rows - self._logged_rows) / max(1e-9, now - self._logged)
            self._logged, self._logged_rows, at.losses = now, at.rows, []
            done = f"{at.rows} rows, {at.spent_s / 60:.1f} min"
            self._log(f"step {at.step}: {done}, loss {mean:.4f}, {speed:.0f} rows/s")

    def _read_losses(self) -> None:
        if not self._pending:
            return
        first = self.at.step - len(self._pending) + 1
        for step, (loss, norm) in enumerate(torch.stack(self._pending).tolist(), first):
            if not math.isfinite(loss) or not math.isfinite(norm):
                raise EvaluatorError(
                    f"Training broke at step {step}: loss {loss}, gradient norm {norm}. Try a "
                    f"lower learning rate; {self._checkpoint} holds the last good state, if any."
                )
            self.at.losses.append(loss)
        self._pending = []

    def check(self) -> None:
        """Validate, keep the network if it is the best so far, write the checkpoint."""
        self._read_losses()
        network, at = self._learner.network, self.at
        network.eval()
        with torch.no_grad():
            figure, words = self._learner.validation()
        network.train()
        self._log(f"step {at.step}: {figure:.4f}; {words}")
        at.checked_step = at.step
        if figure > (-math.inf if at.best is None else at.best):
            at.best, at.best_step = figure, at.step
            self.best = {n: t.detach().cpu().clone() for n, t in network.state_dict().items()}
        at.spent_s = time.monotonic() - self._began
        state = {
            "model": network.state_dict(),
            "best": self.best,
            "optimizer": self._optimizer.state_dict(),
            "progress": asdict(at),
            "random": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if self._on_gpu else [],
            "identity": self._identity,
        }
        write_state(self._checkpoint, state)


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Replace the file at once; a kill in mid-writing leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    torch.save(state, part)
    part.replace(path)


def read_state(path: Path) -> dict[str, Any]:
    """A state on the CPU, whatever device it was written from; DataError when it is unreadable."""
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise DataError(
            f"{path} cannot be read as a checkpoint; remove it to start anew: {error}"
        ) from error
    if not isinstance(state, dict) or "identity" not in state:
        raise DataError(f"{path} is no checkpoint of this loop; remove it to start anew.")
    return state


def refuse_another_run(checkpoint: Path, identity: dict[str, Any]) -> None:
    """DataError, naming what differs, where the checkpoint belongs to a run of another identity."""
    if not checkpoint.exists():
        return
    theirs, ours = read_state(checkpoint)["identity"], as_json(identity)
    differences = list(_differences(theirs, ours, ""))
    if differences:
        listed = "; ".join(differences[:MAX_DIFFERENCES])
        more = len(differences) - MAX_DIFFERENCES
        listed += f"; and {more} more" if more > 0 else ""
        raise DataError(
            f"Another run has left {checkpoint}: {listed}. Remove that, name another folder with "
            "--work, or go on with what it was made of."
        )


def _differences(theirs: Any, ours: Any, name: str) -> Iterator[str]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted({*theirs, *ours}):
            below = f"{name}.{key}" if name else key
            yield from _differences(theirs.get(key, "absent"), ours.get(key, "absent"), below)
    elif theirs != ours:
        there, here = (value[:20] + "…" * (len(value) > 20) for value in map(str, (theirs, ours)))
        yield f"{name} is {there} there and {here} here"


def as_json(identity: dict[str, Any]) -> dict[str, Any]:
    """What decides a run, as JSON gives it back."""
    read: dict[str, Any] = json.loads(json.dumps(identity))
    return read
