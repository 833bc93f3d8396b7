"""Embedder export: multilingual-e5-small in a folder of its own.

The encoder is the one that `train` begins from, untrained, with its whole vocabulary or, from a
data folder, with the pieces that its texts use, beside what an evaluator's fusion needs: the centre
of their vectors, and the layer that tells from a question's whether it needs retrieval. Tensors and
graph are stored as an evaluator's are.
"""

import json
import random
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from sklearn.linear_model import LogisticRegression
from tokenizers import Tokenizer
from torch import Tensor

from evaluator.data.records import (
    CHUNK_CHARS,
    HELD_BACK_PERCENT,
    Record,
    in_turn,
    read_folder,
    split,
)
from evaluator.data.synthetic.retrieval import needs
from evaluator.errors import DataError
from evaluator.inference.onnx_embedder import OnnxEmbedder
from evaluator.model import t5
from evaluator.model.checkpoint import (
    CENTRE_FILE,
    E5_ARCHITECTURE,
    EMBEDDER_FILE,
    NEED_FILE,
    TENSORS_FILE,
    TOKENIZER_FILE,
)
from evaluator.schema import LABELS
from evaluator.settings import read_settings
from evaluator.training.onnx_export import write_graph
from evaluator.training.pretrained_encoder import (
    cut_tokenizer,
    everyday_words,
    read_source,
    source_path,
    untrained,
)

CENTRED_ON = 100
"""Passages a language, from all sources in turn."""
VOCABULARY = 48_000
NEED_C, NEED_WEIGHTS = 3.0, {"en": 1.5, "zh": 3.0}
"""Inverse regularisation, and the weight of a question that needs retrieval, by its language."""
_SIZES = ("d_model", "heads", "layers", "d_ff", "vocab_size", "max_length")


def build(
    out: Path, data: Path | None = None, tokenizer: Tokenizer | None = None, seed: int = 1
) -> Path:
    """Write the embedder to the new folder `out`; DataError where it holds something.

    Of all pieces, or of the tokenizer's, or of those that the data folder's texts use.
    """
    if out.exists() and any(out.iterdir()):
        raise DataError(f"{out} is not empty.")  # it may hold an evaluator
    records = split(read_folder(data), HELD_BACK_PERCENT)[0] if data else []
    if data:
        texts = sorted({text for record in records for text in (record.passage, record.question)})
        tokenizer = cut_tokenizer(
            read_source(source_path()), [*texts, *everyday_words()], VOCABULARY
        )
    write(*untrained(tokenizer), out)
    if data:
        write_centre(records, out, seed)
        write_need(out, seed)
    return out


def write_centre(records: Sequence[Record], folder: Path, seed: int) -> None:
    """The mean vector of passages of both languages, (width,), beside the folder's embedder."""
    rng, passages = random.Random(seed), list[str]()
    for language in ("en", "zh"):
        mine = [record for record in records if record.language == language]
        drawn = in_turn(mine, attrgetter("source"), rng)
        chosen = list(dict.fromkeys(record.passage for record in drawn))[:CENTRED_ON]
        passages += [passage[: CHUNK_CHARS[language]] for passage in chosen]
    vectors, _ = OnnxEmbedder(folder, read_settings()).embed(passages, "passage")
    np.save(folder / CENTRE_FILE, vectors.mean(0))


def write_need(folder: Path, seed: int) -> None:
    """A logistic regression over vectors of our own wordings, (width + 1,), the shift last.

    A question that needs retrieval weighs more: an answer from nowhere is worse than a search.
    """
    rows = [row for row in needs(seed=seed) if row.group == "train"]
    vectors, _ = OnnxEmbedder(folder, read_settings()).embed([row.first for row in rows], "query")
    needed = [row.label == LABELS["retrieval"][0] for row in rows]
    weights = [
        NEED_WEIGHTS[row.language] if is_needed else 1.0
        for row, is_needed in zip(rows, needed, strict=True)
    ]
    fitted = LogisticRegression(C=NEED_C, max_iter=300).fit(vectors, needed, weights)
    layer = np.append(fitted.coef_[0], fitted.intercept_).astype(np.float32)
    np.save(folder / NEED_FILE, layer)


def write(network: t5.TextEncoder, tokenizer: Tokenizer, out: Path) -> Path:
    """The encoder as an embedder.

    In the folder of an evaluator that began from it, it shares tokenizer and word table, which no
    training changes.
    """
    out.mkdir(parents=True, exist_ok=True)
    stored = t5.packed(t5.tensors(network))
    network.load_state_dict(t5.unpacked(stored))  # the graph reads what is stored
    shared = _shared(tokenizer, stored, out.parent)
    if not shared:
        tokenizer.save(str(out / TOKENIZER_FILE))
    save_file({n: value for n, value in stored.items() if n not in shared}, out / TENSORS_FILE)
    write_graph(network, {"vectors": {0: "batch"}}, out / EMBEDDER_FILE, shared)
    sizes = {name: getattr(network.config, name) for name in _SIZES}
    text = json.dumps({"architecture": E5_ARCHITECTURE, **sizes}, indent=2)
    (out / "config.json").write_text(text + "\n", encoding="utf-8")
    return out


def _shared(tokenizer: Tokenizer, stored: dict[str, Tensor], evaluator: Path) -> dict[str, Tensor]:
    """The evaluator's word table, where that and its tokenizer are the encoder's; else empty."""
    own = evaluator / TOKENIZER_FILE
    if not own.is_file() or Tokenizer.from_file(str(own)).to_str() != tokenizer.to_str():
        return {}
    words = t5.word_table(evaluator)
    same = all(name in stored and torch.equal(stored[name], value) for name, value in words.items())
    return words if words and same else {}
