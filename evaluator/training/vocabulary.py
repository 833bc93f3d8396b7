"""Builds a checkpoint's tokens and their first embeddings (build time only).

English: MiniLM's word pieces, each embedded by what MiniLM makes of it alone. Chinese: the
characters of the training text, embedded by what they stand beside. Special tokens are plain
vocabulary entries that no text can spell: the tokenizer splits their brackets off.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse  # type: ignore[import-untyped]
import torch
from opencc import OpenCC
from sklearn.decomposition import PCA
from sklearn.utils.extmath import randomized_svd
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import NFKC, BertNormalizer
from tokenizers.normalizers import Sequence as Normalizers
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import AutoModel

from evaluator.data.hard_negatives import Vectors, minilm_folder
from evaluator.model.tokenization import SPECIAL_TOKENS

_CJK = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


def build_tokenizer(texts: Sequence[str], least_count: int = 2) -> tuple[Tokenizer, int]:
    """The tokenizer and the id of its first Chinese character; all after it are Chinese."""
    words = (minilm_folder() / "vocab.txt").read_text(encoding="utf-8").splitlines()
    english = [word for word in words if not _CJK.search(word) and not _is_special(word)]
    counts = Counter(_CJK.findall("".join(texts)))
    common = {character for character, count in counts.items() if count >= least_count}
    simplified = OpenCC("t2s").convert
    wanted = common | everyday_characters()
    chinese = sorted(c for c in wanted if simplified(c) == c)  # the others are never read
    tokens = [*SPECIAL_TOKENS, *english, *chinese]
    model = WordPiece(
        {token: i for i, token in enumerate(tokens)},
        unk_token="[UNK]",
        max_input_chars_per_word=100,
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = Normalizers([NFKC(), BertNormalizer(lowercase=True)])
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer, len(tokens) - len(chinese)


def everyday_characters() -> set[str]:
    """The Chinese characters of GB 2312 (Simplified) and of Big5's first level (Traditional)."""
    simplified = (bytes([row, cell]) for row in range(0xB0, 0xF8) for cell in range(0xA1, 0xFF))
    traditional = (bytes([row, cell]) for row in range(0xA4, 0xC7) for cell in range(0x40, 0xFF))
    text = "".join(code.decode("gb2312", "ignore") for code in simplified)
    text += "".join(code.decode("big5", "ignore") for code in traditional)
    return set(_CJK.findall(text))


def _is_special(word: str) -> bool:
    return word.startswith("[") and word.endswith("]") and len(word) > 2


def idf(tokenizer: Tokenizer, texts: Sequence[str]) -> Vectors:
    """Inverse document frequency of each token over the texts, scaled to 0..1."""
    seen: Counter[int] = Counter()
    for encoding in tokenizer.encode_batch(list(texts), add_special_tokens=False):
        seen.update(set(encoding.ids))
    counts = np.array([seen[i] for i in range(tokenizer.get_vocab_size())], dtype=np.float32)
    weights: Vectors = np.log((len(texts) + 1) / (counts + 1)) / np.log(len(texts) + 1)
    return weights.astype(np.float32)


def embeddings(tokenizer: Tokenizer, cjk_start: int, texts: Sequence[str], width: int) -> Vectors:
    """First embeddings, shape (vocabulary, width), each row of norm sqrt(width)."""
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    tokens = [token for token, _ in vocabulary]
    dice = np.random.default_rng(0)
    table = dice.normal(size=(len(tokens), width)).astype(np.float32)
    english = slice(len(SPECIAL_TOKENS), cjk_start)
    table[english] = _reduced(_minilm_vectors(tokens[english]), width)
    if len(tokens) > cjk_start:
        beside = _beside_vectors(tokenizer, cjk_start, texts, width)
        seen = np.linalg.norm(beside, axis=1) > 1e-3
        table[cjk_start:][seen] = beside[seen]  # the others keep their random direction
    norms = np.linalg.norm(table, axis=1, keepdims=True) + 1e-6
    scaled: Vectors = (table / norms * np.sqrt(width)).astype(np.float32)
    return scaled


@torch.inference_mode()
def _minilm_vectors(tokens: Sequence[str]) -> Vectors:
    """Each word piece through MiniLM alone, mean of its hidden states."""
    folder = minilm_folder()
    model: Any = AutoModel.from_pretrained(folder).eval()
    words = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    place = {word: i for i, word in enumerate(words)}
    rows = [[place["[CLS]"], place[token], place["[SEP]"]] for token in tokens]
    parts = [
        model(input_ids=torch.tensor(rows[start : start + 512])).last_hidden_state.mean(1)
        for start in range(0, len(rows), 512)
    ]
    vectors: Vectors = torch.cat(parts).numpy()
    return vectors


def _reduced(vectors: Vectors, width: int) -> Vectors:
    if min(vectors.shape) <= width:
        return vectors[:, :width]
    reduced: Vectors = PCA(width, random_state=0).fit_transform(vectors).astype(np.float32)
    return reduced


def _beside_vectors(
    tokenizer: Tokenizer, cjk_start: int, texts: Sequence[str], width: int, reach: int = 4
) -> Vectors:
    """Chinese characters by their positive PMI with the characters within reach, then SVD."""
    size = tokenizer.get_vocab_size() - cjk_start
    together = scipy.sparse.csr_matrix((size, size), dtype=np.float32)
    chinese = [text for text in texts if _CJK.search(text)]
    for start in range(0, len(chinese), 2000):
        encoded = tokenizer.encode_batch(chinese[start : start + 2000], add_special_tokens=False)
        ids = np.concatenate([np.array([*e.ids, *[0] * reach]) for e in encoded]) - cjk_start
        for step in range(1, reach + 1):
            left, right = ids[:-step], ids[step:]
            both = (left >= 0) & (right >= 0)
            ones = np.ones(int(both.sum()), dtype=np.float32)
            pairs = scipy.sparse.coo_matrix((ones, (left[both], right[both])), (size, size))
            together = together + pairs.tocsr()
    return _svd(_positive_pmi((together + together.T).tocoo()), width)


def _positive_pmi(counts: Any) -> Any:
    sums = np.asarray(counts.sum(axis=1)).ravel() + 1.0
    context = sums**0.75 / (sums**0.75).sum()
    pmi = np.log(counts.data / (sums[counts.row] * context[counts.col]))
    kept = pmi > 0
    return scipy.sparse.csr_matrix((pmi[kept], (counts.row[kept], counts.col[kept])), counts.shape)


def _svd(matrix: Any, width: int) -> Vectors:
    rank = min(width, matrix.shape[0] - 1)
    left, strength, _ = randomized_svd(matrix, n_components=rank, random_state=0)
    vectors = np.zeros((matrix.shape[0], width), dtype=np.float32)
    vectors[:, :rank] = left * np.sqrt(strength)
    return vectors
