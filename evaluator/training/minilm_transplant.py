"""Initialization from MiniLM (build time only): vocabulary, word vectors, encoder layers.

Vocabulary: MiniLM's English word pieces, and the Chinese characters of the training text, which
begin where what they stand beside puts them.

Layers: BERT normalises after adding and has biases; T5 normalises before adding and has none.
Queries, keys, values and the first half of the feed-forward layer are carried over with the gain
folded in and their bias hung on the stream's constant mean; what each half-layer adds to the stream
is fitted by least squares, on real rows, to where MiniLM's stream would be.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse  # type: ignore[import-untyped]
import torch
from opencc import OpenCC
from sklearn.utils.extmath import randomized_svd
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from torch import Tensor, nn
from transformers import AutoModel

from evaluator.data.hard_negatives import minilm_folder
from evaluator.model.t5 import EvaluatorModel, root_normal
from evaluator.model.tokenization import END, PAD, SEPARATOR, SPECIAL_TOKENS, UNKNOWN

MEAN = 1.0  # of the stream: EvaluatorModel.embedded adds it, biases hang on it
_RIDGE = 1e-3
_REACH = 4  # characters on either side that say what one stands beside
_STAND_INS = {PAD: "[PAD]", END: "[SEP]", SEPARATOR: "[SEP]", UNKNOWN: "[UNK]"}
_CJK = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


def build_tokenizer(texts: Sequence[str], min_count: int = 2) -> tuple[Tokenizer, int]:
    """The tokenizer and the id of its first Chinese character; all after it are Chinese."""
    words = (minilm_folder() / "vocab.txt").read_text(encoding="utf-8").splitlines()
    english = [w for w in words if not _CJK.search(w) and not re.fullmatch(r"\[.+\]", w)]
    counts = Counter(_CJK.findall("".join(texts)))
    common = {character for character, count in counts.items() if count >= min_count}
    simplified = OpenCC("t2s").convert
    wanted = common | everyday_characters()
    chinese = sorted(c for c in wanted if simplified(c) == c)  # the others are never read
    tokens = [*SPECIAL_TOKENS, *english, *chinese]
    numbers = {token: i for i, token in enumerate(tokens)}
    model = models.WordPiece(numbers, unk_token="[UNK]", max_input_chars_per_word=100)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.BertNormalizer(lowercase=True)]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer, len(tokens) - len(chinese)


def everyday_characters() -> set[str]:
    """The Chinese characters of GB 2312 (Simplified) and of Big5's first level (Traditional)."""
    simplified = (bytes([row, cell]) for row in range(0xB0, 0xF8) for cell in range(0xA1, 0xFF))
    traditional = (bytes([row, cell]) for row in range(0xA4, 0xC7) for cell in range(0x40, 0xFF))
    text = "".join(code.decode("gb2312", "ignore") for code in simplified)
    text += "".join(code.decode("big5", "ignore") for code in traditional)
    return set(_CJK.findall(text))


@dataclass
class _Stream:
    """Both models at one depth: the student's stream, the teacher's normalised one, its scale."""

    student: Tensor  # (rows, length, width)
    normal: Tensor  # the teacher's, mean 0 and variance 1 a token
    scale: float  # the student's stream is meant to be scale * normal + MEAN
    gain: Tensor
    shift: Tensor  # with gain: what the teacher's layer reads is gain * normal + shift
    mask: Tensor

    def hidden(self) -> Tensor:
        return self.gain * self.normal + self.shift


@torch.no_grad()
def transplant(
    network: EvaluatorModel,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    ids: Tensor,
    mask: Tensor,
) -> list[float]:
    """Fill embeddings and encoder in place.

    Chinese characters are placed by `texts`; `ids` and `mask` (rows, length) are rows to fit on.
    Gives, half-layer by half-layer, the share of the teacher's variance that the student misses.
    """
    bert: Any = AutoModel.from_pretrained(minilm_folder(), use_safetensors=True).eval()
    _embed(network, tokenizer, bert, texts)
    normal = network.embedded(ids) - MEAN
    norm, missed = bert.embeddings.LayerNorm, list[float]()
    stream = _Stream(normal + MEAN, normal, 1.0, norm.weight, norm.bias, mask)
    blocks: Any = network.t5.encoder.block
    for layer, block in zip(bert.encoder.layer, blocks, strict=False):
        stream = _attention(layer, block.layer[0].SelfAttention, stream, missed)
        stream = _feed_forward(layer, block.layer[1].DenseReluDense, stream, missed)
    return missed


def _embed(network: EvaluatorModel, tokenizer: Tokenizer, bert: Any, texts: Sequence[str]) -> None:
    """MiniLM's word pieces and positions; Chinese characters in the same cloud of vectors."""
    words = (minilm_folder() / "vocab.txt").read_text(encoding="utf-8").splitlines()
    place = {word: i for i, word in enumerate(words)}
    source = bert.embeddings.word_embeddings.weight
    table, start = network.t5.shared.weight, network.config.cjk_start
    for i in range(len(SPECIAL_TOKENS)):
        table[i] = source[place[_STAND_INS.get(i, "[CLS]")]]
    for token, i in tokenizer.get_vocab().items():
        if len(SPECIAL_TOKENS) <= i < start:
            table[i] = source[place[token]]
    english = table[len(SPECIAL_TOKENS) : start]
    table[start:] = _coloured(_beside_vectors(tokenizer, start, texts, table.shape[1]), english)
    positions = bert.embeddings.position_embeddings.weight
    positions = positions + bert.embeddings.token_type_embeddings.weight[0]
    network.positions.weight.copy_(positions[: network.config.max_length])


def _beside_vectors(
    tokenizer: Tokenizer, cjk_start: int, texts: Sequence[str], width: int
) -> Tensor:
    """Chinese characters by their positive PMI with the characters within reach, then SVD.

    A character that no text holds gets a random direction.
    """
    size = tokenizer.get_vocab_size() - cjk_start
    together = scipy.sparse.csr_matrix((size, size), dtype=np.float32)
    chinese = [text for text in texts if _CJK.search(text)]
    for start in range(0, len(chinese), 2000):
        encoded = tokenizer.encode_batch(chinese[start : start + 2000], add_special_tokens=False)
        ids = np.concatenate([np.array([*e.ids, *[0] * _REACH]) for e in encoded]) - cjk_start
        for step in range(1, _REACH + 1):
            left, right = ids[:-step], ids[step:]
            both = (left >= 0) & (right >= 0)
            ones = np.ones(int(both.sum()), dtype=np.float32)
            pairs = scipy.sparse.coo_matrix((ones, (left[both], right[both])), (size, size))
            together = together + pairs.tocsr()
    counts = (together + together.T).tocoo()
    sums = np.asarray(counts.sum(axis=1)).ravel() + 1.0
    context = sums**0.75 / (sums**0.75).sum()
    pmi = np.log(counts.data / (sums[counts.row] * context[counts.col]))
    kept = pmi > 0
    places = counts.row[kept], counts.col[kept]
    matrix = scipy.sparse.csr_matrix((pmi[kept], places), counts.shape)
    rank = min(width, size - 1)
    left, strength, _ = randomized_svd(matrix, n_components=rank, random_state=0)
    vectors = np.random.default_rng(0).normal(size=(size, width)).astype(np.float32)
    seen = np.flatnonzero(np.linalg.norm(left, axis=1) > 1e-6)
    vectors[seen] *= 1e-3
    vectors[seen, :rank] += (left * np.sqrt(strength))[seen]
    return torch.from_numpy(vectors)


def _coloured(vectors: Tensor, like: Tensor) -> Tensor:
    """The vectors turned and stretched until mean and covariance are those of `like`."""
    centred = vectors - vectors.mean(0)
    whitened = torch.linalg.svd(centred, full_matrices=False)[0] * len(vectors) ** 0.5
    spread = torch.linalg.svd(like - like.mean(0), full_matrices=False)
    size = min(whitened.shape[1], len(spread.S))
    stretch = spread.S[:size] / len(like) ** 0.5
    placed: Tensor = like.mean(0) + (whitened[:, :size] * stretch) @ spread.Vh[:size]
    return placed


def _attention(layer: Any, mine: Any, stream: _Stream, missed: list[float]) -> _Stream:
    theirs, after = layer.attention.self, layer.attention.output
    heads, size = theirs.num_attention_heads, theirs.attention_head_size
    both = ((mine.q, theirs.query), (mine.k, theirs.key), (mine.v, theirs.value))
    for weight, linear in both:
        weight.weight.copy_(_folded(linear, stream))
    mine.q.weight.mul_(size**-0.5)  # T5 does not scale its scores
    read, hidden = root_normal(stream.student), stream.hidden()
    inner = _context([linear(read) for linear, _ in both], stream.mask, heads, 1.0)
    taught = _context([linear(hidden) for _, linear in both], stream.mask, heads, size**-0.5)
    return _added(mine.o, inner, after.dense(taught), after.LayerNorm, stream, missed)


def _context(parts: list[Tensor], mask: Tensor, heads: int, scale: float) -> Tensor:
    """What attention reads, from queries, keys and values: (rows, length, width)."""
    q, k, v = (part.reshape(*part.shape[:2], heads, -1).transpose(1, 2) for part in parts)
    seen = mask.bool()[:, None, None]
    read = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale)
    return read.transpose(1, 2).flatten(2)


def _feed_forward(layer: Any, mine: Any, stream: _Stream, missed: list[float]) -> _Stream:
    mine.wi.weight.copy_(_folded(layer.intermediate.dense, stream))
    gelu = nn.functional.gelu
    inner = gelu(mine.wi(root_normal(stream.student)))
    taught = layer.output.dense(gelu(layer.intermediate.dense(stream.hidden())))
    return _added(mine.wo, inner, taught, layer.output.LayerNorm, stream, missed)


def _folded(linear: Any, stream: _Stream) -> Tensor:
    """The linear map of `gain * normal + shift`, with its bias, as a map of the T5's reading.

    T5 reads (scale * normal + MEAN) / root, whose mean over a token is MEAN / root always.
    """
    root = (stream.scale**2 + MEAN**2) ** 0.5
    weight: Tensor = linear.weight * stream.gain * (root / stream.scale)
    weight = weight - weight.mean(1, keepdim=True)  # blind to the mean, which then says 1
    constant = linear.weight @ stream.shift + linear.bias
    folded: Tensor = weight + constant.unsqueeze(1) * root / MEAN / weight.shape[1]
    return folded


def _least_squares(features: Tensor, wanted: Tensor) -> Tensor:
    gram = features.T @ features
    gram.diagonal().add_(_RIDGE * gram.diagonal().mean())
    solved: Tensor = torch.linalg.solve(gram, features.T @ wanted)
    return solved


def _added(
    out: Any, inner: Tensor, taught: Tensor, norm: Any, stream: _Stream, missed: list[float]
) -> _Stream:
    """Fit what the half-layer adds, so that the student's stream follows the teacher's."""
    width = taught.shape[-1]
    normal = nn.functional.layer_norm(stream.hidden() + taught, (width,))
    kept = stream.mask.bool()
    before, after = stream.normal[kept], normal[kept]
    scale = stream.scale / float((before * after).mean())  # so that little need be taken back
    wanted = scale * after + MEAN
    rest = (wanted - stream.student[kept]).double()
    out.weight.copy_(_least_squares(inner[kept].double(), rest).T.float())
    student = stream.student + out(inner)
    missed.append(float((student[kept] - wanted).square().mean()) / scale**2)
    return _Stream(student, normal, scale, norm.weight, norm.bias, stream.mask)
