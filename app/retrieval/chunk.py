"""Documents to chunks of whole sentences (document 003, sentence-level chunks)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from graphs.text import sentence_spans, token_count

CHUNK_TOKENS = 175
# A sentence, table or listing longer than this is cut all the same: no model would read it whole.
HARD_TOKENS = 400

# Where an overlong sentence may be cut: after a clause, else at a space.
CLAUSE = re.compile(r"(?<=[，、：,;:])\s*|\s+")


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, list item, table or listing, and the headings it stands under.

    `whole` blocks (tables, listings) are cut at line ends only, and only where they are too long.
    `page` counts from 1, in documents that have pages.
    """

    text: str
    headings: tuple[str, ...] = ()
    whole: bool = False
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    text: str
    headings: tuple[str, ...]


def chunk(blocks: Sequence[Block], limit: int = CHUNK_TOKENS) -> list[Chunk]:
    """Chunks in reading order; none mixes two sections and none cuts a sentence.

    A chunk stays within `limit` tokens unless a single sentence or table is longer; from
    HARD_TOKENS on that is cut at clauses, spaces or line ends.
    """
    chunks: list[Chunk] = []
    for headings, section in groupby(blocks, key=lambda block: block.headings):
        pieces = [piece for block in section for piece in _pieces(block)]
        chunks += [Chunk(text, headings) for text in _pack(pieces, limit)]
    return chunks


def size(text: str) -> int:
    """Tokens; encoded data, which has no words, counts by its length."""
    return max(token_count(text), len(text) // 8)


def _pieces(block: Block) -> list[tuple[str, str]]:
    """(separator from what stands before, text) for each part that must not be cut further."""
    if block.whole:
        lines = _within(block.text.rstrip().splitlines(), "\n")
        return [("\n", part) for part in lines if part.strip()]
    pieces: list[tuple[str, str]] = []
    for line in block.text.splitlines():
        separator = "\n"
        for start, end in sentence_spans(line):
            for part in _within_sentence(line[start:end]):
                pieces.append((separator, part))
                separator = ""
            separator = re.match(r"\s*", line[end:])[0]  # type: ignore[index]
    return pieces


def _within_sentence(sentence: str) -> list[str]:
    if size(sentence) <= HARD_TOKENS:
        return [sentence]
    cuts = [match.end() for match in CLAUSE.finditer(sentence)]
    parts = [sentence[a:b] for a, b in zip([0, *cuts], [*cuts, len(sentence)], strict=True)]
    return _within([piece for part in parts for piece in _slices(part)], "")


def _slices(text: str) -> list[str]:
    """`text`, or pieces of it where it has no place to be cut at, such as encoded data."""
    if size(text) <= HARD_TOKENS:
        return [text]
    return [text[at : at + HARD_TOKENS] for at in range(0, len(text), HARD_TOKENS)]


def _within(parts: Sequence[str], separator: str) -> list[str]:
    """Parts joined as long as they stay within HARD_TOKENS."""
    pieces = [(separator, piece) for part in parts for piece in _slices(part) if piece]
    return list(_pack(pieces, HARD_TOKENS, strip=False))


def _pack(pieces: Sequence[tuple[str, str]], limit: int, strip: bool = True) -> Iterator[str]:
    text, tokens = "", 0
    for separator, piece in pieces:
        more = size(piece)
        if text and tokens + more > limit:
            yield text.strip() if strip else text
            text, tokens = "", 0
        text = text + separator + piece if text else piece
        tokens += more
    if text.strip():
        yield text.strip() if strip else text
