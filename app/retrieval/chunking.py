"""How documents are cut into chunks (arXiv 2407.01219, section 3.2): searching knows it, too."""

from dataclasses import dataclass
from typing import Literal

Chunking = Literal["sentence", "small_to_big", "sliding_window"]

CHUNK_TOKENS = 175
PARENT_TOKENS = 512
CHUNK_OVERLAP = 20
CHUNK_WINDOW = 1


@dataclass(frozen=True, slots=True)
class Cutting:
    """How documents are cut, in tokens; `window` counts the neighbours on either side.

    sentence: a chunk is returned as it was searched. small_to_big: small chunks are searched and
    the block of `parent_tokens` around them is returned. sliding_window: chunks are searched with
    the end of the one before and returned with their neighbours.
    """

    chunking: Chunking = "sentence"
    tokens: int = CHUNK_TOKENS
    parent_tokens: int = PARENT_TOKENS
    overlap: int = CHUNK_OVERLAP
    window: int = CHUNK_WINDOW

    @property
    def name(self) -> str:
        """What must be equal for chunks to be cut the same way."""
        match self.chunking:
            case "sentence":
                return f"sentence-{self.tokens}"
            case "small_to_big":
                return f"small_to_big-{self.tokens}-{self.parent_tokens}-{self.overlap}"
            case "sliding_window":
                return f"sliding_window-{self.tokens}-{self.overlap}-{self.window}"
