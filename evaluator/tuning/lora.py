"""LoRA tuning of a generator, from rows and a model's folder to a folder that servers load.

    read the rows -> hold some back -> the model and its tokenizer -> adapters on all linear layers
    -> steps on the answers alone -> validate and keep the best -> measure -> merge -> write

Adapters are peft's (LoRA, arXiv 2106.09685). The paper's numbers (arXiv 2407.01219, appendix A.5)
are the defaults: three epochs, 1,600 tokens, batches of four such rows, learning rate 5e-5; the
base stays in bf16 on a GPU and fp32 on a CPU, where the paper quantises it to int8.
"""

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from string import Template
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

from evaluator.data.records import HELD_BACK_PERCENT, held_back
from evaluator.data.text import named_sections
from evaluator.errors import DataError, WeightsError
from evaluator.inference.scorer import cut
from evaluator.inference.torch_scorer import load_network, load_tokenizer
from evaluator.model.checkpoint import check_folder, files_digest
from evaluator.training.train import Log, fit, refuse_another_run
from evaluator.tuning.encoding import EncodedRow, TuningTokenizer, batch
from evaluator.tuning.rows import TuningExample, read_examples
from evaluator.tuning.self_rag import TOKENS
from evaluator.tuning.written import WrittenFigures, figures, write

ADAPTER_FOLDER = "adapter"
CARD = named_sections(Path(__file__).with_name("card.txt"))
CHECKPOINT = "tuning.pt"
MADE_BY_FILE = "made_by.json"
NAME = "selfcrag-generator-lora"
_CHECKED_ROWS = 200  # held-back rows whose loss chooses the best step


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """How a run goes; part of a checkpoint's identity. `rows` of 0 are the epochs' rows."""

    seed: int = 1
    epochs: float = 3.0
    minutes: float = math.inf
    rows: int = 0
    batch_tokens: int = 6400  # padded
    learning_rate: float = 5e-5
    rank: int = 16
    alpha: int = 32
    dropout: float = 0.05
    max_length: int = 1600
    held_back_percent: int = HELD_BACK_PERCENT
    warmup_steps: int = 20
    check_every: int = 200
    measured_rows: int = 100  # held-back rows whose written answers are measured


@dataclass(frozen=True, slots=True)
class TunedFolder:
    """What a run gave: mean F1 and coverage on held-back rows, before and after."""

    folder: Path
    before: WrittenFigures
    after: WrittenFigures
    story: dict[str, Any]


def tune(
    rows: Sequence[Path], model: Path, out: Path, work: Path, options: TuneOptions, log: Log
) -> TunedFolder:
    """Tune the causal model or T5 in folder `model` on the files `rows`.

    `out` gets the merged model (safetensors, tokenizer with its chat template, model card) and, in
    `adapter`, the adapters alone. A killed run goes on from its checkpoint in `work`. Raises
    WeightsError for the model, DataError for the rows or a checkpoint of another run.
    """
    check_model(model)
    stored = {n: None if value == math.inf else value for n, value in asdict(options).items()}
    identity = {
        "recipe": NAME,
        "model": files_digest(sorted(model.glob("*.safetensors")) + sorted(model.glob("*.json"))),
        "rows": {path.name: sha256(path.read_bytes()).hexdigest() for path in rows},
        "options": stored,
    }
    refuse_another_run(work / CHECKPOINT, identity)
    examples = [example for path in rows for example in read_examples(path)]
    sides = divided_examples(examples, options.held_back_percent)
    torch.manual_seed(options.seed)
    network, tokenizer = load_generator(model)
    new = adapt(network, tokenizer, examples)
    taught, check = (encoded(tokenizer, side, options.max_length) for side in sides)
    left_out = len(examples) - len(taught) - len(check)
    log(f"{len(taught)} rows to tune on, {len(check)} held back, {left_out} too long")
    if not taught or not check:
        raise DataError(f"No rows of at most {options.max_length} tokens on one of both sides.")
    learner = GeneratorLearner(
        adapters(network, options, new), tokenizer, check[:_CHECKED_ROWS], options
    )
    paced = replace(options, rows=options.rows or math.ceil(options.epochs * len(taught)))
    groups = [(row,) for row in taught]
    story = fit(learner, groups, paced, work / CHECKPOINT, identity, log)
    measured = random.Random(0).sample(sides[1], min(len(sides[1]), options.measured_rows))
    peft_network = learner.network.peft
    with peft_network.disable_adapter():
        before = measured_figures(peft_network, tokenizer, measured)
    after = measured_figures(peft_network, tokenizer, measured)
    log(f"held-back F1 {before.f1:.3f} before, {after.f1:.3f} after ({after.rows} rows)")
    peft_network.save_pretrained(out / ADAPTER_FOLDER, save_embedding_layers=False)
    peft_network.merge_and_unload().save_pretrained(out)
    tokenizer.tokenizer.save_pretrained(out)
    record = {
        **identity,
        "base": model.resolve().name,
        "training": {"rows": len(taught), "held_back": len(check), "too_long": left_out, **story},
        "before": asdict(before),
        "after": asdict(after),
    }
    write_card(out, record)
    log(f"written to {out}")
    return TunedFolder(out, before, after, story)


def check_model(folder: Path) -> dict[str, Any]:
    """The config of a model that can be tuned. Raises WeightsError."""
    if not (folder / "config.json").is_file():
        raise WeightsError(f"No model in {folder}: config.json is missing.")
    return check_folder(folder, "generator")


def load_generator(folder: Path) -> tuple[Any, TuningTokenizer]:
    """Network and tokenizer on the GPU, if there is one. Raises WeightsError."""
    is_seq2seq = bool(check_model(folder).get("is_encoder_decoder"))
    form = AutoModelForSeq2SeqLM if is_seq2seq else AutoModelForCausalLM
    on_gpu = torch.cuda.is_available()
    precision = torch.bfloat16 if on_gpu else torch.float32
    description = "a T5" if is_seq2seq else "a causal language model"
    network = load_network(form, folder, description, precision)
    tokenizer = TuningTokenizer(load_tokenizer(folder), is_seq2seq=is_seq2seq)
    return network.to("cuda" if on_gpu else "cpu"), tokenizer


def adapt(network: Any, tokenizer: TuningTokenizer, examples: Sequence[TuningExample]) -> list[int]:
    """Give the network Self-RAG's tokens where the rows hold them; their ids, [] otherwise."""
    if not any(token in example.text for example in examples for token in TOKENS):
        return []
    new = tokenizer.add_reflection_tokens()
    size = len(tokenizer.tokenizer)
    if size > network.get_input_embeddings().num_embeddings:
        network.resize_token_embeddings(size)
    return new


def adapters(network: Any, options: TuneOptions, new: Sequence[int]) -> "AdaptedNetwork":
    """The network with LoRA on every linear layer but its head, and `new` tokens to be learnt."""
    config = LoraConfig(
        task_type="SEQ_2_SEQ_LM" if network.config.is_encoder_decoder else "CAUSAL_LM",
        r=options.rank,
        lora_alpha=options.alpha,
        lora_dropout=options.dropout,
        target_modules="all-linear",
        trainable_token_indices={name: list(new) for name in _vocabulary(network)} if new else None,
    )
    return AdaptedNetwork(get_peft_model(network, config))


def _vocabulary(network: Any) -> Iterator[str]:
    """Names of the layers that have a row a token; a tied head follows the embeddings."""
    embeddings, head = network.get_input_embeddings(), network.get_output_embeddings()
    for name, layer in network.named_modules():
        if layer is embeddings or (layer is head and head.weight is not embeddings.weight):
            yield name


class AdaptedNetwork(nn.Module):
    """A network with adapters whose state is that of the adapters alone."""

    def __init__(self, peft_network: Any) -> None:
        super().__init__()
        self.peft = peft_network

    def forward(self, **inputs: Tensor) -> Any:
        return self.peft(**inputs)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:  # type: ignore[override]
        del args, kwargs
        state: dict[str, Tensor] = get_peft_model_state_dict(self.peft, save_embedding_layers=False)
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        del args, kwargs
        return set_peft_model_state_dict(self.peft, dict(state_dict))


class GeneratorLearner:
    """Teaches a generator its answers; its figure is minus the mean loss a held-back token."""

    def __init__(
        self,
        network: AdaptedNetwork,
        tokenizer: TuningTokenizer,
        check: Sequence[EncodedRow],
        options: TuneOptions,
    ) -> None:
        self.network = network
        self._tokenizer, self._options = tokenizer, options
        self._check = sorted(check, key=lambda row: len(row.ids))

    def groups(self) -> list[dict[str, Any]]:
        learnt = [each for each in self.network.parameters() if each.requires_grad]
        return [{"params": learnt, "lr": self._options.learning_rate, "weight_decay": 0.0}]

    def loss(self, batch: Sequence[tuple[EncodedRow, ...]]) -> Tensor:
        loss, _ = self._loss([row for group in batch for row in group])
        return loss

    def validation(self) -> tuple[float, str]:
        total, tokens = 0.0, 0
        for rows in cut(self._check, self._options.batch_tokens):
            loss, count = self._loss(rows)
            total, tokens = total + float(loss) * count, tokens + count
        mean = total / max(1, tokens)
        return -mean, f"loss {mean:.4f} a token"

    def _loss(self, rows: Sequence[EncodedRow]) -> tuple[Tensor, int]:
        """The mean over the tokens that count, and their number."""
        device = next(self.network.parameters()).device
        inputs = batch(rows, self._tokenizer.pad)
        loss: Tensor = self.network(**{name: t.to(device) for name, t in inputs.items()}).loss
        return loss, int((inputs["labels"] >= 0).sum())


def divided_examples(
    examples: Sequence[TuningExample], percent: int
) -> tuple[list[TuningExample], list[TuningExample]]:
    """Rows to tune on and held-back ones, divided by their groups."""
    sides: tuple[list[TuningExample], list[TuningExample]] = ([], [])
    for example in examples:
        sides[held_back(example.group, percent)].append(example)
    if not sides[0] or not sides[1]:
        raise DataError(
            f"Of {len(examples)} rows {len(sides[1])} are held back: both sides need rows of"
            " groups of their own."
        )
    return sides


def encoded(
    tokenizer: TuningTokenizer, examples: Sequence[TuningExample], max_length: int
) -> list[EncodedRow]:
    """The rows of at most `max_length` tokens that teach anything."""
    rows = map(tokenizer.encode, examples)
    return [
        row
        for row in rows
        if max(len(row.ids), len(row.targets)) <= max_length and any(t >= 0 for t in row.targets)
    ]


def measured_figures(
    network: Any, tokenizer: TuningTokenizer, examples: Sequence[TuningExample]
) -> WrittenFigures:
    network.eval()
    texts = write(network, tokenizer, examples)
    return figures(texts, [example.answers or (example.text,) for example in examples])


def write_card(out: Path, record: Mapping[str, Any]) -> None:
    """made_by.json and README.md."""
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
    (out / MADE_BY_FILE).write_text(text + "\n", encoding="utf-8")
    options, training = record["options"], record["training"]
    losses = training["loss"]
    values = {
        **options,
        **training,
        **{f"{when}_{name}": v for when in ("before", "after") for name, v in record[when].items()},
        "base": record["base"],
        "model": record["model"][:12],
        "files": "\n".join(
            f"- {name} (sha256 {digest[:12]})" for name, digest in record["rows"].items()
        ),
        "first_loss": f"{losses[0][1]:.3f}",
        "last_loss": f"{losses[-1][1]:.3f}",
    }
    card = Template(CARD["card"]).substitute(values)
    (out / "README.md").write_text(card + "\n", encoding="utf-8")
