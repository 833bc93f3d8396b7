"""Options that go well together, each set by one name (best practices of arXiv 2407.01219)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

Preset = Literal["none", "best", "balanced", "fast"]

_BALANCED = {
    # Deciding whether to look up at all took a third off the time there, and scored better.
    "retrieval": "adaptive",
    "search": "hybrid",
    # Term weights kept since ingest reorder 50 candidates in milliseconds (its TILDEv2).
    "rerank": "lexical",
    # The best knowledge last, next to the question: won over first and over both ends.
    "repack": "reverse",
    # The best sentences of all: the best score of its compressors for the least work.
    "compress": "extractive",
}

OPTIONS: Mapping[Preset, Mapping[str, Any]] = MappingProxyType(
    {
        "none": {},
        # An invented answer beside the question found most; a model's reranking ordered best.
        "best": {**_BALANCED, "hyde": True, "rerank": "model"},
        "balanced": _BALANCED,
        # Neither a call before the search nor one after it.
        "fast": {"retrieval": "always", "search": "hybrid", "rerank": "none", "compress": "none"},
    }
)
"""What a preset sets of the options that a run leaves unset."""
