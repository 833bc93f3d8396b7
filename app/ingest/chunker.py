"""Chunking: documents to chunks of whole sentences (arXiv 2407.01219, section 3.2)."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

from app.ingest.loaders.document import Block
from graphs.text.sentences import HAN, sentence_spans, token_count

CHUNK_TOKENS = 175
PARENT_TOKENS = 512
OVERLAP_TOKENS = 20
WINDOW = 1
# A sentence, table or listing longer than this is cut all the same: no model would read it whole.
HARD_TOKENS = 400

VERSION = "v3"  # of the form of chunks: other ones are read anew
FENCE = "```"
# Where an overlong sentence may be cut: after a clause, else at a space.
CLAUSE = re.compile(r"(?<=[，、：,;:])\s*|\s+")
UNIT = re.compile(rf"{HAN.pattern}|[^\s\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")


@dataclass(frozen=True, slots=True)
class Chunking:
    """How documents are cut into chunks of at most `tokens` (arXiv 2407.01219, section 3.2).

    sentence: a chunk is returned as it was searched. small_to_big: small chunks are searched and
    the block of PARENT_TOKENS around them is returned. sliding_window: chunks are searched with
    the end of the one before and returned with WINDOW neighbours on either side.
    """

    method: Literal["sentence", "small_to_big", "sliding_window"] = "sentence"
    tokens: int = CHUNK_TOKENS

    @property
    def parent_tokens(self) -> int:
        return max(PARENT_TOKENS, self.tokens)

    @property
    def name(self) -> str:
        """What must be equal for chunks to be cut the same way."""
        match self.method:
            case "sentence":
                sizes = [self.tokens]
            case "small_to_big":
                sizes = [self.tokens, self.parent_tokens, OVERLAP_TOKENS]
            case "sliding_window":
                sizes = [self.tokens, OVERLAP_TOKENS, WINDOW]
        return "-".join([self.method, *map(str, sizes), VERSION])


DEFAULT_CHUNKING = Chunking()


@dataclass(frozen=True, slots=True)
class Chunk:
    """What is searched; what is returned are the chunks `first` to `last` of the document.

    No text stands in two of them; each follows its `lead`. `before` is the end of the chunk before,
    by which this one is found as well.
    """

    text: str
    headings: tuple[str, ...]
    first: int
    last: int
    page: int | None = None
    lead: str = ""
    before: str = ""


class Piece(NamedTuple):
    """Text that must not be cut further, and what separates it from the piece before."""

    lead: str
    text: str
    page: int | None = None


def chunk(blocks: Sequence[Block], chunking: Chunking = DEFAULT_CHUNKING) -> list[Chunk]:
    """Chunks in reading order; none mixes two sections and none cuts a sentence.

    A chunk stays within `chunking.tokens` unless a single sentence or table is longer; from
    HARD_TOKENS on that is cut at clauses, spaces or line ends.
    """
    chunks: list[Chunk] = []
    for headings, section in groupby(blocks, key=lambda block: block.headings):
        pieces = [piece for block in section for piece in _pieces(block)]
        chunks += _section(pieces, headings, chunking, len(chunks))
    return chunks


def size(text: str) -> int:
    """Tokens; encoded data, which has no words, counts by its length."""
    return max(token_count(text), len(text) // 8)


def _section(
    pieces: Sequence[Piece], headings: tuple[str, ...], chunking: Chunking, start: int
) -> Iterator[Chunk]:
    """Chunks of one section, whose first has the position `start`."""
    whole = chunking.method == "small_to_big"
    parts: list[tuple[Piece, int, int]] = []
    for parent in _packed(pieces, chunking.parent_tokens) if whole else [pieces]:
        joined = [_joined(group) for group in _packed(parent, chunking.tokens)]
        family = [piece for piece in joined if piece.text]
        parts += [(piece, len(parts), len(parts) + len(family) - 1) for piece in family]
    for at, (piece, first, last) in enumerate(parts):
        if not whole:
            reach = WINDOW if chunking.method == "sliding_window" else 0
            first, last = max(0, at - reach), min(len(parts) - 1, at + reach)
        overlaps = at > 0 and chunking.method != "sentence"
        before = _tail(parts[at - 1][0].text, OVERLAP_TOKENS) if overlaps else ""
        yield Chunk(
            piece.text, headings, start + first, start + last, piece.page, piece.lead, before
        )


def _pieces(block: Block) -> list[Piece]:
    if block.kind != "text":
        first, *rows = block.text.rstrip().splitlines() or [""]
        is_table = block.kind == "table"
        parts = _within(rows if is_table and rows else [first, *rows], "\n")
        if is_table and rows:  # each part of a long table has its head
            parts = [f"{first}\n{part}" for part in parts]
        shown = parts if is_table else [f"{FENCE}\n{part}\n{FENCE}" for part in parts]
        return [Piece("\n", part, block.page) for part in shown if part.strip("`\n ")]
    pieces: list[Piece] = []
    for line in block.text.splitlines():
        lead = "\n"
        for start, end in sentence_spans(line):
            for part in _within_sentence(line[start:end]):
                pieces.append(Piece(lead, part, block.page))
                lead = ""
            lead = re.match(r"\s*", line[end:])[0]  # type: ignore[index]
    return pieces


def _within_sentence(sentence: str) -> list[str]:
    if size(sentence) <= HARD_TOKENS:
        return [sentence]
    cuts = [match.end() for match in CLAUSE.finditer(sentence)]
    parts = [sentence[a:b] for a, b in zip([0, *cuts], [*cuts, len(sentence)], strict=True)]
    return _within(parts, "")


def _slices(text: str) -> list[str]:
    """`text`, or pieces of it where it has no place to be cut at, such as encoded data."""
    if size(text) <= HARD_TOKENS:
        return [text]
    return [text[at : at + HARD_TOKENS] for at in range(0, len(text), HARD_TOKENS)]


def _within(parts: Sequence[str], lead: str) -> list[str]:
    pieces = [Piece(lead, piece) for part in parts for piece in _slices(part) if piece]
    return [_text(group) for group in _packed(pieces, HARD_TOKENS)]


def _packed(pieces: Sequence[Piece], limit: int) -> Iterator[list[Piece]]:
    """Neighbouring pieces as long as they stay within `limit` tokens."""
    group: list[Piece] = []
    tokens = 0
    for piece in pieces:
        more = size(piece.text)
        if group and tokens + more > limit:
            yield group
            group, tokens = [], 0
        group.append(piece)
        tokens += more
    if group:
        yield group


def _text(group: Sequence[Piece]) -> str:
    return group[0].text + "".join(piece.lead + piece.text for piece in group[1:])


def _joined(group: Sequence[Piece]) -> Piece:
    """The group as one piece of stripped text; blanks at its beginning belong to the lead."""
    text = _text(group)
    blanks = text[: len(text) - len(text.lstrip())]
    return Piece(group[0].lead + blanks, text.strip(), group[0].page)


def _tail(text: str, tokens: int) -> str:
    """The last words of the text within so many tokens."""
    start, left = len(text), float(tokens)
    for unit in reversed(list(UNIT.finditer(text))):
        left -= 2 / 3 if HAN.match(unit[0]) else max(4 / 3, len(unit[0]) / 8)
        if left < 0:
            break
        start = unit.start()
    return text[start:]
