"""Embedder protocol: texts to unit vectors, and how an embedder fails."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from app.retrieval.hybrid import Weights
from graphs.errors import RetrieverFailed
from graphs.types import Language

Vectors = NDArray[np.float32]


class EmbedderFailed(RetrieverFailed):
    """An endpoint gave no vectors; the message says why and what would help.

    A question need not fail with it: BM25 finds passages without any vector. Catch it around
    `embed_query`, search the words alone and report the failure beside the answer. Ingest lets it
    end the run: what was committed before stays, what was not is read again the next time.
    """


class Embedder(Protocol):
    """Texts to unit vectors; both methods block and belong in a worker thread.

    `crosses_languages` says whether a question may be compared with passages in the other
    language; `weights` are those of a hybrid search that is told no other; `name` identifies the
    vectors: an index serves only the embedder it was written with.
    """

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def crosses_languages(self) -> bool: ...

    @property
    def weights(self) -> Mapping[Language, Weights]: ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a passage, of length 1, or all zeros where nothing of the text is known.

        Raises EmbedderFailed.
        """
        ...

    def embed_query(self, text: str) -> Vectors:
        """A question's vector, shape (dimensions,): some models read questions another way.

        Raises EmbedderFailed, within QUERY_TIMEOUT_S where an endpoint embeds.
        """
        ...


class WordVectors(Protocol):
    """Vectors of single words, and how frequent they are."""

    def word(self, word: str, language: Language) -> tuple[Vectors, int]:
        """A word's vector, shape (dimensions,), all zeros where it is unknown, and its rank.

        The rank is the word's place in a vocabulary ordered by how often words occur, of its
        rarest part where it has several; past the end of it where it is unknown.
        """
        ...


def unit(vectors: Vectors) -> Vectors:
    """Rows of length 1; rows of zeros stay."""
    norms: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
