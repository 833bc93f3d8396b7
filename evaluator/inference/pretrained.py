"""Pretrained models beside the evaluator: rerankers, embedder and compressor, on PyTorch.

Three forms of reranker are known by their config: monoT5 (arXiv 2003.06713), cross-encoders with
one or two labels, and decoders with one label at the last token (RankLLaMA, arXiv 2310.08319).
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from torch import Tensor

from evaluator.errors import EvaluatorError, WeightsError
from evaluator.inference import scorer
from evaluator.inference.torch_scorer import load_network, load_tokenizer, place
from evaluator.model import checkpoint
from evaluator.model.tokenization import CHARS_PER_TOKEN, neutraliser
from evaluator.schema import Row, RowScore, Task
from evaluator.settings import EvaluatorSettings

MAX_TOKENS = 512
"""What rerankers are trained on (the question may take half of it), and an embedder's bound where
its model names none."""
MAX_WINDOW = 1024
"""Tokens of a causal model's forward pass: longer texts are read window by window."""
_OVERLAP = 4  # a window begins with this share, one over it, of what stands before it
_ROWS = 32  # of a batch of texts of MAX_TOKENS; more of shorter ones
_VERDICTS = (("▁false", "▁true"), ("false", "true"))
_VERDICTS_OF_MT5 = (("▁no", "▁yes"),)


@dataclass(frozen=True, slots=True)
class TypedRow(Row):
    """`types` tell the two texts apart where the model wants that."""

    types: tuple[int, ...] = ()


class RerankScorer:
    """What the forms have in common; a form writes the pair and says which number is its score."""

    tasks: tuple[Task, ...] = ("rerank",)

    def __init__(self, folder: Path, network: Any, device: torch.device) -> None:
        self.digest = checkpoint.weights_digest(folder)
        self.name = checkpoint.name_of(folder.absolute().name, self.digest)
        self._network, self._device = network.to(device).eval(), device
        self._tokenizer = tokenizer = load_tokenizer(folder)
        self._neutral = neutraliser({*tokenizer.all_special_tokens, *tokenizer.get_added_vocab()})
        positions = getattr(network.config, "max_position_embeddings", MAX_TOKENS)
        self._length = min(MAX_TOKENS, tokenizer.model_max_length, positions)

    def encode(self, task: Task, pairs: Sequence[tuple[str, str]]) -> list[Row | str]:
        del task  # rerank is the only one
        questions = {question: self._beginning(question) for question, _ in pairs}
        texts = [(questions[question], self._plain(passage)) for question, passage in pairs]
        rows = iter(self._rows([text for text in texts if all(text)]))
        return [next(rows) if all(text) else scorer.NO_TEXT for text in texts]

    def _plain(self, text: str) -> str:
        """Without special tokens, and no longer than can be read."""
        return self._neutral(text.strip()[: self._length * CHARS_PER_TOKEN]).strip()

    def _beginning(self, question: str) -> str:
        """As much of it as leaves half of the room to the passage."""
        read = self._tokenizer(
            self._plain(question), add_special_tokens=False, return_offsets_mapping=True,
            truncation=True, max_length=self._length // 2,
        )  # fmt: skip
        ends = read["offset_mapping"]
        return self._plain(question)[: ends[-1][1]] if ends else ""

    def _rows(self, texts: Sequence[tuple[str, str]]) -> list[Row]:
        """Question and passage together as the form wants them; the passage is cut to fit."""
        if not texts:
            return []
        read = self._tokenizer(
            *map(list, zip(*map(self._prompted, texts), strict=True)),
            truncation="only_second", max_length=self._length,
        )  # fmt: skip
        types = read.get("token_type_ids") or [()] * len(texts)
        return [
            TypedRow(tuple(i), types=tuple(t))
            for i, t in zip(read["input_ids"], types, strict=True)
        ]

    def _prompted(self, texts: tuple[str, str]) -> tuple[str, str]:
        return texts

    @torch.inference_mode()
    def forward(self, task: Task, rows: Sequence[Row]) -> list[RowScore | str]:
        del task
        pad = self._tokenizer.pad_token_id or 0
        ids, mask = (torch.from_numpy(part).to(self._device) for part in scorer.padded(rows, pad))
        scores = self._scores(ids, mask, rows).cpu().tolist()
        return [
            RowScore(score, "", {}) if math.isfinite(score) else scorer.NO_NUMBER
            for score in scores
        ]

    def _scores(self, ids: Tensor, mask: Tensor, rows: Sequence[Row]) -> Tensor:
        """Shape (rows,), float32, higher is better."""
        raise NotImplementedError


class MonoT5(RerankScorer):
    """log p(true) against false, after `Query: … Document: … Relevant:`."""

    def __init__(self, folder: Path, network: Any, device: torch.device) -> None:
        super().__init__(folder, network, device)
        config = network.config
        verdicts = _VERDICTS_OF_MT5 if config.model_type == "mt5" else _VERDICTS
        vocabulary = self._tokenizer.get_vocab()
        known = [pair for pair in verdicts if all(verdict in vocabulary for verdict in pair)]
        if not known:
            required = " or ".join("/".join(pair) for pair in verdicts)
            raise WeightsError(
                f"The tokenizer of {folder} has no tokens {required}: it is not a monoT5 tokenizer."
            )
        self._verdicts = [vocabulary[verdict] for verdict in known[0]]  # the bad one first
        start = config.decoder_start_token_id
        self._start = config.pad_token_id if start is None else start

    def _rows(self, texts: Sequence[tuple[str, str]]) -> list[Row]:
        if not texts:
            return []
        end = self._tokenizer("Relevant:").input_ids
        read = self._tokenizer(
            [f"Query: {question} Document: {passage}" for question, passage in texts],
            add_special_tokens=False, truncation=True, max_length=self._length - len(end),
        )  # fmt: skip
        return [Row((*ids, *end)) for ids in read["input_ids"]]

    def _scores(self, ids: Tensor, mask: Tensor, rows: Sequence[Row]) -> Tensor:
        start = torch.full((len(rows), 1), self._start, device=self._device)
        logits: Tensor = self._network(
            input_ids=ids, attention_mask=mask, decoder_input_ids=start, use_cache=False
        ).logits
        return logits[:, 0, self._verdicts].float().log_softmax(1)[:, 1]


class CrossEncoder(RerankScorer):
    """The raw logit of one label, or the share of the last of two."""

    def _scores(self, ids: Tensor, mask: Tensor, rows: Sequence[Row]) -> Tensor:
        inputs = {"input_ids": ids, "attention_mask": mask}
        if getattr(self._network.config, "type_vocab_size", 0) > 1:
            types = [Row(row.types) for row in rows if isinstance(row, TypedRow) and row.types]
            if len(types) == len(rows):
                padded, _ = scorer.padded(types)
                inputs["token_type_ids"] = torch.from_numpy(padded).to(self._device)
        logits: Tensor = self._network(**inputs).logits.float()
        return logits[:, 0] if logits.shape[1] == 1 else logits.softmax(1)[:, 1]


class LastToken(RerankScorer):
    """The one label of a decoder, read at each row's last token."""

    def _prompted(self, texts: tuple[str, str]) -> tuple[str, str]:
        return f"query: {texts[0]}", f"document: {texts[1]}"

    def _scores(self, ids: Tensor, mask: Tensor, rows: Sequence[Row]) -> Tensor:
        # Not by the model's own head: that looks for the last token that is no padding, and many
        # decoders pad with their end token or have no padding token at all.
        decoder = getattr(self._network, self._network.base_model_prefix)
        states: Tensor = decoder(ids, attention_mask=mask, use_cache=False).last_hidden_state
        last = states[torch.arange(len(rows), device=self._device), mask.sum(1) - 1]
        logits: Tensor = self._network.score(last)
        return logits[:, 0].float()


class SentenceEmbedder:
    """A sentence-transformers model: unit vectors; bf16 on a GPU, fp32 on a CPU."""

    def __init__(self, folder: Path, settings: EvaluatorSettings) -> None:
        _check_modules(folder)
        device, precision = place(settings)
        library = import_module("sentence_transformers")  # seconds to import, for this part alone
        try:
            self._model = library.SentenceTransformer(
                str(folder),
                device=str(device),
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs={"dtype": precision, "use_safetensors": True},
            ).eval()
        except (OSError, RuntimeError, ValueError, KeyError, ImportError, SafetensorError) as error:
            raise WeightsError(f"The embedder in {folder} cannot be loaded: {error}") from error
        # Of all that decides a vector: tensors, tokenizer and configs.
        files = [path for path in folder.rglob("*") if path.suffix in {".safetensors", ".json"}]
        digest = checkpoint.files_digest(sorted(files))
        self.name = checkpoint.name_of(folder.resolve().name, digest)
        self._length = int(self._model.max_seq_length or MAX_TOKENS)
        self._model.max_seq_length = self._length
        self.dimensions = len(self._model.encode("warm", show_progress_bar=False))

    def embed(
        self, texts: Sequence[str], input_type: scorer.InputType | None
    ) -> tuple[scorer.Vectors, int]:
        model = self._model
        encode = {"query": model.encode_query, "passage": model.encode_document, None: model.encode}
        cut = [text[: self._length * CHARS_PER_TOKEN] for text in texts]
        read = model.tokenizer(cut, truncation=True, max_length=self._length)["input_ids"]
        vectors: Any = encode[input_type](
            cut,
            batch_size=max(1, _ROWS * MAX_TOKENS // max(map(len, read))),
            normalize_embeddings=True,
            show_progress_bar=False,
        )
        return vectors.astype("float32"), sum(map(len, read))


def _check_modules(folder: Path) -> None:
    """Refuses what would run other code than the library's or reach out of the folder."""
    checkpoint.check_folder(folder, "embedder")
    listed = folder / "modules.json"
    try:
        modules = json.loads(listed.read_text(encoding="utf-8"))
        parts = [(str(module["type"]), str(module["path"])) for module in modules]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WeightsError(f"{listed} is needed of a sentence-transformers folder.") from error
    for kind, path in parts:
        if not kind.startswith("sentence_transformers."):
            raise WeightsError(f"{listed} is refused: it names {kind}, which can run code.")
        if not (folder / path).resolve().is_relative_to(folder.resolve()):
            raise WeightsError(f"{listed} is refused: {path} lies outside of its folder.")


class CausalModel:
    """A causal language model: each token's self-information; bf16 on a GPU, fp32 on a CPU."""

    def __init__(self, folder: Path, network: Any, device: torch.device) -> None:
        self.name = folder.resolve().name
        self._network, self._device = network.to(device).eval(), device
        self._tokenizer = load_tokenizer(folder)
        if not self._tokenizer.is_fast:
            raise WeightsError(
                f"The tokenizer of {folder} tells no places: tokenizer.json is needed."
            )
        longest = getattr(network.config, "max_position_embeddings", None) or MAX_WINDOW
        self._length = min(MAX_WINDOW, longest)
        starts = (self._tokenizer.bos_token_id, self._tokenizer.eos_token_id, 0)
        self._start = next(number for number in starts if number is not None)

    def tokens(self, text: str, before: str = "") -> list[scorer.ScoredToken]:
        read = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids, places = read["input_ids"], read["offset_mapping"]
        lead = self._tokenizer(before, add_special_tokens=False)["input_ids"] if before else []
        # What stands right before the text counts most; the text gets at least half of the room.
        lead = [self._start, *lead[-(self._length // 2 - 1) :]]
        room = self._length - len(lead)
        step = max(1, room - room // _OVERLAP)
        nats: list[float] = []
        while len(nats) < len(ids):
            done = len(nats)
            start = max(0, done - room // _OVERLAP)
            end = min(len(ids), done + step if start else room)
            nats += self._nats([*lead, *ids[start:end]])[len(lead) - 1 + done - start :]
        pairs = zip(places, nats, strict=True)
        return [scorer.ScoredToken(start, end, value) for (start, end), value in pairs]

    @torch.inference_mode()
    def _nats(self, ids: list[int]) -> list[float]:
        """-log p of each but the first."""
        row = torch.tensor([ids], device=self._device)
        logits: Tensor = self._network(input_ids=row, use_cache=False).logits[0, :-1].float()
        nats = torch.nn.functional.cross_entropy(logits, row[0, 1:], reduction="none")
        if not bool(nats.isfinite().all()):
            raise EvaluatorError("The compressor's model gave no number for this text.")
        return [float(value) for value in nats.cpu()]


def load_reranker(folder: Path, settings: EvaluatorSettings) -> scorer.Scorer:
    """The folder in the form its config names. Raises WeightsError."""
    form = _architecture(folder, "reranker")
    device, precision = place(settings)
    if form in ("T5ForConditionalGeneration", "MT5ForConditionalGeneration"):
        t5 = load_network(transformers.AutoModelForSeq2SeqLM, folder, "a monoT5", precision)
        return MonoT5(folder, t5, device)
    if not form.endswith("ForSequenceClassification") or "T5" in form:
        raise WeightsError(
            f"{folder / 'config.json'} describes no reranker: it names {form or 'no architecture'}"
            " where T5ForConditionalGeneration (monoT5) or a ForSequenceClassification, as of"
            " BERT or Llama, is needed."
        )
    kind = transformers.AutoModelForSequenceClassification
    network = load_network(kind, folder, "a reranker", precision)
    is_decoder = hasattr(network, "score")  # what transformers calls the head of every decoder
    max_labels = 1 if is_decoder else 2
    labels = network.config.num_labels
    if not 1 <= labels <= max_labels:
        required = "one is" if is_decoder else "one or two are"
        raise WeightsError(f"{folder} has {labels} labels where {required} needed.")
    return (LastToken if is_decoder else CrossEncoder)(folder, network, device)


def load_compressor(folder: Path, settings: EvaluatorSettings) -> scorer.LanguageModel:
    """A causal language model. Raises WeightsError."""
    form = _architecture(folder, "compressor")
    if not form.endswith(("ForCausalLM", "LMHeadModel")):
        raise WeightsError(
            f"{folder / 'config.json'} describes no causal language model: it names "
            f"{form or 'no architecture'}."
        )
    device, precision = place(settings)
    kind = transformers.AutoModelForCausalLM
    return CausalModel(
        folder, load_network(kind, folder, "a causal language model", precision), device
    )


def load_image_embedder(folder: Path, settings: EvaluatorSettings) -> scorer.ImageEmbedder:
    """A CLIP model; what reads its images is imported for it alone. Raises WeightsError."""
    from evaluator.inference.clip import ClipEmbedder  # noqa: PLC0415

    return ClipEmbedder(folder, settings)


def _architecture(folder: Path, part: str) -> str:
    config = checkpoint.check_folder(folder, part)
    return str(next(iter(config.get("architectures") or []), ""))


LOADERS = {
    "reranker": load_reranker,
    "embedder": SentenceEmbedder,
    "compressor": load_compressor,
    "image_embedder": load_image_embedder,
}
"""By the setting that names the folder."""
